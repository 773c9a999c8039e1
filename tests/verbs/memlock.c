/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a transport says when the kernel refuses to lock memory for its device: run without privileges, under a limit of
 * locked memory that lets it open but not register 64 MiB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "comm/transport/transport.h"

enum { LARGE = 64 << 20, SMALL = 1 << 16 };

static int fail(const char *what, const weir_error *err)
{
    printf("FAIL: %s: %s: %s %s\n", what, weir_status_name(err->status), err->message, err->advice);
    return 1;
}

static int registrations(struct wr_transport *t, char *memory)
{
    weir_error err = {0};
    struct wr_region *region = NULL;
    weir_status status = t->ops->reg(t, memory, LARGE, WR_REG_REMOTE_WRITE, &region, &err);
    if (!status)
        return fail("64 MiB were registered beyond the limit", &err);
    if (status != WEIR_ERR_LIMIT || region)
        return fail("another error than that of a limit", &err);
    if (!strstr(err.message, "RLIMIT_MEMLOCK") && !strstr(err.advice, "RLIMIT_MEMLOCK"))
        return fail("the limit is not named", &err);
    printf("%s: %s; %s\n", weir_status_name(status), err.message, err.advice);
    for (int i = 0; i < 3; i++) { /* the refusal has broken nothing */
        if (t->ops->reg(t, memory, SMALL, WR_REG_REMOTE_WRITE, &region, &err))
            return fail("a small registration after the large one", &err);
        t->ops->dereg(t, region);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct wr_transport *t;
    struct wr_config config;
    weir_error err = {0};
    struct rlimit limit;
    int self = 0;
    const struct wr_transport_ops *ops = argc == 2 ? wr_transport_find(argv[1]) : NULL;
    if (!ops) {
        fprintf(stderr, "usage: memlock ofi|ucx\n");
        return 2;
    }
    char *memory = malloc(LARGE);
    if (!memory || getrlimit(RLIMIT_MEMLOCK, &limit) || wr_config_load(&config, NULL, NULL, &err))
        return 2;
    memset(memory, 1, LARGE);
    struct wr_transport_params params = {.config = &config,
                                         .size = 1,
                                         .node_size = 1,
                                         .node_ranks = &self,
                                         .numa = -1,
                                         .timeout_ns = 20 * INT64_C(1000000000)};
    printf("limit %llu KiB: ", (unsigned long long)limit.rlim_cur / 1024);
    int failed;
    weir_status status = ops->open(&params, &t, &err);
    if (status == WEIR_ERR_LIMIT && (strstr(err.message, "RLIMIT_MEMLOCK") || strstr(err.advice, "RLIMIT_MEMLOCK"))) {
        printf("refused when opened: %s; %s\n", err.message, err.advice);
        failed = 0;
    } else if (status) {
        failed = fail("it does not open", &err);
    } else {
        failed = registrations(t, memory);
        t->ops->close(t);
    }
    wr_config_free(&config);
    free(memory);
    return failed;
}
