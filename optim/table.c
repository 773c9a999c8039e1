/* SPDX-License-Identifier: BSD-3-Clause */
/* What this instruction set has. */
#include "optim/loops.h"

#define CLASS(name) extern const struct wr_rule_class WR_ISA_NAME(wr_rule_##name)
CLASS(sgd);
CLASS(adagrad);
CLASS(adam);

static const struct wr_rule_class *const rules[] = {
    [WEIR_RULE_SGD] = &WR_ISA_NAME(wr_rule_sgd),
    [WEIR_RULE_ADAGRAD] = &WR_ISA_NAME(wr_rule_adagrad),
    [WEIR_RULE_ADAM] = &WR_ISA_NAME(wr_rule_adam),
    [WEIR_RULE_ADAMW] = &WR_ISA_NAME(wr_rule_adam),
};

const struct wr_optim_table WR_ISA_NAME(wr_optim) = {.rules = rules};
