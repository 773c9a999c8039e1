/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <string.h>

#include "examples/gpt/kernels.h"

extern const struct gpt_kernels gpt_kernels_generic, gpt_kernels_avx2, gpt_kernels_avx512;

const struct gpt_kernels *gpt_kernels_find(const char *isa)
{
#if defined(__x86_64__) && !defined(GPT_DOUBLE)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && (!isa || !strcmp(isa, "avx512")))
        return &gpt_kernels_avx512;
    if (avx2 && (!isa || !strcmp(isa, "avx2")))
        return &gpt_kernels_avx2;
#endif
    return !isa || !strcmp(isa, "generic") ? &gpt_kernels_generic : NULL;
}
