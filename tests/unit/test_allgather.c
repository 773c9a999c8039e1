/* SPDX-License-Identifier: BSD-3-Clause */
/* weir_boot_allgather() between ranks that are threads of this process, each with a context of its own. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { RANKS = 3, ROUNDS = 3 };

struct member {
    pthread_t thread;
    const weir_unique_id *id;
    int rank;
    size_t last_bytes; /* given in the last call */
    bool right;        /* everything that arrived was right */
    weir_status last;
    weir_error error;
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    static const char *const quiet[] = {"LOG=off", "BOOT_TIMEOUT=20s", NULL};
    weir_ctx *ctx;
    options.unique_id = m->id;
    options.rank = m->rank;
    options.nranks = RANKS;
    options.error = &m->error;
    options.config = quiet;
    m->right = false;
    m->last = weir_init(&options, &ctx);
    if (m->last != WEIR_OK)
        return NULL;
    m->right = weir_rank(ctx) == m->rank && weir_size(ctx) == RANKS;
    for (int round = 0; round < ROUNDS; round++) {
        /* long enough that no launcher's limit on a value holds it whole */
        int mine[1000], all[RANKS][1000];
        for (int i = 0; i < 1000; i++)
            mine[i] = (round * RANKS + m->rank) * 1000 + i;
        m->right = m->right && weir_boot_allgather(ctx, mine, all, sizeof mine) == WEIR_OK;
        for (int rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < 1000; i++)
                m->right = m->right && all[rank][i] == (round * RANKS + rank) * 1000 + i;
    }
    m->right = m->right && weir_boot_allgather(ctx, NULL, NULL, 0) == WEIR_OK;
    m->right = m->right && weir_boot_allgather(ctx, NULL, NULL, 8) == WEIR_ERR_INVALID;
    char out[16 * RANKS], in[16] = "";
    m->last = weir_boot_allgather(ctx, in, out, m->last_bytes);
    m->error = *weir_last_error(ctx);
    weir_finalize(ctx);
    return NULL;
}

static void run_all(struct member *members, size_t last_bytes_of_rank_1)
{
    weir_unique_id id;
    assert_int_equal(weir_unique_id_create(RANKS, &id), WEIR_OK);
    memset(members, 0, RANKS * sizeof *members);
    for (int rank = 0; rank < RANKS; rank++) {
        members[rank].id = &id;
        members[rank].rank = rank;
        members[rank].last_bytes = rank == 1 ? last_bytes_of_rank_1 : 8;
        assert_int_equal(pthread_create(&members[rank].thread, NULL, member_main, &members[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(members[rank].thread, NULL);
}

static void test_brings_all_to_all(void **state)
{
    struct member members[RANKS];
    (void)state;
    run_all(members, 8);
    for (int rank = 0; rank < RANKS; rank++) {
        if (members[rank].last != WEIR_OK || !members[rank].right)
            fail_msg("rank %d: %s", rank, members[rank].error.message);
    }
}

static void test_sizes_that_differ_are_an_error(void **state)
{
    struct member members[RANKS];
    (void)state;
    run_all(members, 12);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(members[rank].right);
        assert_int_equal(members[rank].last, WEIR_ERR_PROTOCOL);
        assert_non_null(strstr(members[rank].error.message, rank == 1 ? "rank 0 gave 8 bytes and this one 12"
                                                                      : "rank 1 gave 12 bytes and this one 8"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brings_all_to_all),
        cmocka_unit_test(test_sizes_that_differ_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
