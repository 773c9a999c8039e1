/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/table.h"

extern const struct wr_optim_table wr_optim_generic;
#if defined(__x86_64__)
extern const struct wr_optim_table wr_optim_avx2, wr_optim_avx512;
#endif

const struct wr_optim_table *wr_optim_table(enum wr_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case WR_ISA_AVX512:
        return &wr_optim_avx512;
    case WR_ISA_AVX2:
        return &wr_optim_avx2;
#endif
    default:
        return &wr_optim_generic;
    }
}

const struct wr_optim_table *wr_optim_table_best(void)
{
    return wr_optim_table(wr_isa_best());
}
