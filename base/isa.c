/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/isa.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/compiler.h"

static const char *const names[] = {[WR_ISA_GENERIC] = "generic", [WR_ISA_AVX2] = "avx2", [WR_ISA_AVX512] = "avx512"};

#if defined(__x86_64__)
/* gcc before 11 and clang before 17 do not know "f16c" as a feature to ask for. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool has(enum wr_isa isa)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (isa != WR_ISA_AVX512)
        return isa == WR_ISA_GENERIC || avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
static bool has(enum wr_isa isa)
{
    return isa == WR_ISA_GENERIC;
}
#endif

bool wr_isa_find(const char *want, enum wr_isa *isa)
{
    for (int i = WR_ISA_COUNT - 1; i >= 0; i--)
        if ((!want || !strcmp(want, names[i])) && has((enum wr_isa)i)) {
            *isa = (enum wr_isa)i;
            return true;
        }
    return false;
}

enum wr_isa wr_isa_best(void)
{
    /* The processor is the same for the whole process, and asking it is slow in a virtual machine. 0: not asked yet. */
    static _Atomic int known;
    int best = atomic_load_explicit(&known, memory_order_relaxed);
    enum wr_isa isa = WR_ISA_GENERIC;
    if (best)
        return (enum wr_isa)(best - 1);
    wr_isa_find(NULL, &isa);
    atomic_store_explicit(&known, (int)isa + 1, memory_order_relaxed);
    return isa;
}

const char *wr_isa_name(enum wr_isa isa)
{
    return (unsigned)isa < WR_ARRAY_SIZE(names) ? names[isa] : "unknown";
}
