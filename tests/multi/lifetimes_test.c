/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole contexts, one after the other: in the second half no descriptors stay open, and the peak of memory does not grow in both
 * quarters of it (in one of them it may, when a queue became longer than ever before).
 * usage: lifetimes_test COUNT SLACK_KIB
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <weir/weir.h>

#include "tests/multi/descriptors.h"

static long peak_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static int fail(const char *what, weir_ctx *ctx)
{
    fprintf(stderr, "FAIL: %s%s%s\n", what, ctx ? ": " : "", ctx ? weir_last_error(ctx)->message : "");
    return 1;
}

int main(int argc, char **argv)
{
    int count = argc == 3 ? atoi(argv[1]) : 0;
    long slack = argc == 3 ? atol(argv[2]) : 0, descriptors = 0, half = 0, late = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    slack += 128 << 10; /* they keep what was freed; the former finds what was not */
#endif
    for (int i = 0; i < count; i++) {
        weir_ctx *ctx;
        weir_comm *comm;
        weir_mem *mem;
        if (weir_init(NULL, &ctx))
            return fail("weir_init", NULL);
        if (weir_comm_world(ctx, &comm) || weir_mem_alloc(comm, 10000, 0, &mem) || weir_barrier(comm) || weir_mem_free(mem))
            return fail("work", ctx);
        if (weir_finalize(ctx))
            return fail("weir_finalize", NULL);
        if (i == count / 2) {
            descriptors = count_descriptors();
            half = peak_kib();
        }
        if (i == count * 3 / 4)
            late = peak_kib();
    }
    if (count_descriptors() > descriptors || (late > half + slack / 2 && peak_kib() > late + slack / 2)) {
        fprintf(stderr, "FAIL: %d contexts: %ld descriptors at half time and %ld in the end; %ld KiB, %ld in the third quarter, %ld in the end\n",
                count, descriptors, count_descriptors(), half, late, peak_kib());
        return 1;
    }
    return 0;
}
