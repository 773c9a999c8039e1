/* SPDX-License-Identifier: BSD-3-Clause */
/* What this instruction set has. */
#include "optim/loops.h"
#include "optim/table.h"

#define CLASS(name) extern const struct wr_rule_class WR_ISA_NAME(wr_rule_##name)
CLASS(sgd);
CLASS(adagrad);
CLASS(adam);
CLASS(lion);
CLASS(lamb);
CLASS(lars);
CLASS(adafactor);
CLASS(muon);
CLASS(adamw8);
extern const struct wr_vector_loops WR_ISA_NAME(wr_vector_loops);
extern const struct wr_softmax_loops WR_ISA_NAME(wr_softmax_loops);
extern const struct wr_quant_loops WR_ISA_NAME(wr_quant_loops);
extern const struct wr_optim_table WR_ISA_NAME(wr_optim);

static const struct wr_rule_class *const rules[] = {
    [WEIR_RULE_SGD] = &WR_ISA_NAME(wr_rule_sgd),   [WEIR_RULE_ADAGRAD] = &WR_ISA_NAME(wr_rule_adagrad),
    [WEIR_RULE_ADAM] = &WR_ISA_NAME(wr_rule_adam), [WEIR_RULE_ADAMW] = &WR_ISA_NAME(wr_rule_adam),
    [WEIR_RULE_LION] = &WR_ISA_NAME(wr_rule_lion), [WEIR_RULE_LAMB] = &WR_ISA_NAME(wr_rule_lamb),
    [WEIR_RULE_LARS] = &WR_ISA_NAME(wr_rule_lars), [WEIR_RULE_ADAFACTOR] = &WR_ISA_NAME(wr_rule_adafactor),
    [WEIR_RULE_MUON] = &WR_ISA_NAME(wr_rule_muon), [WEIR_RULE_ADAMW8] = &WR_ISA_NAME(wr_rule_adamw8),
};

const struct wr_optim_table WR_ISA_NAME(wr_optim) = {rules, &WR_ISA_NAME(wr_vector_loops), &WR_ISA_NAME(wr_softmax_loops),
                                                        &WR_ISA_NAME(wr_quant_loops)};
