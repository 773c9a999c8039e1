/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole contexts, one after the other: in the second half neither descriptors nor peak memory grow.
 * usage: lifetimes_test COUNT SLACK_KIB
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <weir/weir.h>

static long count_descriptors(void)
{
    long n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

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
    long slack = argc == 3 ? atol(argv[2]) : 0, descriptors = 0, kib = 0;
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
            kib = peak_kib();
        }
    }
    if (count_descriptors() > descriptors || peak_kib() > kib + slack) {
        fprintf(stderr, "FAIL: %d contexts: %ld descriptors and %ld KiB at half time, %ld and %ld in the end\n", count, descriptors,
                kib, count_descriptors(), peak_kib());
        return 1;
    }
    return 0;
}
