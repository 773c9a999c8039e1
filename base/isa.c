/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/isa.h"

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

const char *wr_isa_name(enum wr_isa isa)
{
    return (unsigned)isa < WR_ARRAY_SIZE(names) ? names[isa] : "unknown";
}
