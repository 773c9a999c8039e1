/* SPDX-License-Identifier: BSD-3-Clause */
/* weir_init and weir_finalize: options, errors, unique ids and callbacks with ranks as threads. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

static const char *const quiet[] = {"BOOT=single", "LOG=off", NULL};

static void alone_it_is_rank_0_of_1(void **state)
{
    (void)state;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_ctx *a, *b;
    const weir_topo *topo, *again;
    options.config = quiet;
    assert_int_equal(weir_init(&options, &a), WEIR_OK);
    assert_int_equal(weir_init(&options, &b), WEIR_OK); /* two do not know each other */
    assert_int_equal(weir_rank(a), 0);
    assert_int_equal(weir_size(a), 1);
    assert_string_equal(weir_boot_name(a), "single");
    assert_int_equal(weir_ctx_topo(a, &topo), WEIR_OK);
    assert_int_equal(weir_topo_nranks(topo), 1);
    assert_int_equal(weir_ctx_topo(a, &again), WEIR_OK);
    assert_ptr_equal(topo, again);
    assert_int_equal(weir_last_error(a)->status, WEIR_OK);
    assert_int_equal(weir_boot_barrier(b), WEIR_OK);
    assert_int_equal(weir_finalize(a), WEIR_OK);
    assert_int_equal(weir_boot_barrier(b), WEIR_OK);
    assert_int_equal(weir_finalize(b), WEIR_OK);
    assert_int_equal(weir_finalize(NULL), WEIR_OK);
    assert_true(strlen(weir_version()) >= 5);
}

static int never_called(void *user, const void *send, void *recv, size_t bytes)
{
    (void)user;
    (void)send;
    (void)recv;
    (void)bytes;
    return 1;
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct {
        weir_init_options options;
        char tail[16]; /* of a newer version */
    } newer = {WEIR_INIT_OPTIONS_INIT, {0}};
    weir_error err;
    weir_ctx *ctx = NULL;
    weir_unique_id id = {{0}};
    weir_boot_callbacks callbacks = {.size = sizeof callbacks, .rank = 0, .nranks = 1, .allgather = never_called};
    weir_init_options *o = &newer.options;
    static const char *const log_off[] = {"LOG=off", "BOOT=single", NULL};
    static const char *const bad_value[] = {"NODES=many", "LOG=off", NULL};
    o->error = &err;
    o->config = log_off;
    o->size = sizeof newer;
    assert_int_equal(weir_init(o, &ctx), WEIR_OK); /* the tail is zero: nothing new is asked for */
    assert_int_equal(weir_finalize(ctx), WEIR_OK);
    ctx = NULL;
    newer.tail[3] = 1;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID);
    o->size = 8;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID);
    o->size = sizeof *o;
    o->flags = 4;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID);
    assert_non_null(strstr(err.message, "0x4"));
    assert_non_null(strstr(err.operation, "weir_init"));
    o->flags = 0;
    o->unique_id = &id;
    o->callbacks = &callbacks;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID);
    o->callbacks = NULL;
    o->nranks = 1;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID); /* not an id */
    o->unique_id = NULL;
    o->callbacks = &callbacks;
    callbacks.rank = 1;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID);
    callbacks.rank = 0;
    callbacks.allgather = NULL;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_INVALID);
    callbacks.allgather = never_called;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_LAUNCHER); /* it returns 1 */
    assert_non_null(strstr(err.message, "returned 1"));
    o->callbacks = NULL;
    o->config = bad_value;
    assert_int_equal(weir_init(o, &ctx), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, "WEIR_NODES=many"));
    assert_null(ctx);
    assert_int_equal(weir_unique_id_create(0, &id), WEIR_ERR_INVALID);
}

/* ---- ranks as threads ---- */

static weir_unique_id shared_id;
static int failures;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            __atomic_fetch_add(&failures, 1, __ATOMIC_ACQ_REL);                                              \
        }                                                                                                    \
    } while (0)

/* An all-gather of threads, in the place of MPI's. */
static struct {
    pthread_barrier_t barrier;
    char data[RANKS][8192];
} gather_state;

static int thread_allgather(void *user, const void *send, void *recv, size_t bytes)
{
    int rank = *(int *)user;
    if (bytes > sizeof gather_state.data[0])
        return -1;
    memcpy(gather_state.data[rank], send, bytes);
    pthread_barrier_wait(&gather_state.barrier);
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)recv + (size_t)i * bytes, gather_state.data[i], bytes);
    pthread_barrier_wait(&gather_state.barrier);
    return 0;
}

static void use(weir_ctx *ctx, int rank, const char *name)
{
    const weir_topo *topo;
    int all[RANKS] = {0};
    CHECK(weir_rank(ctx) == rank && weir_size(ctx) == RANKS && !strcmp(weir_boot_name(ctx), name));
    CHECK(weir_ctx_topo(ctx, &topo) == WEIR_OK);
    CHECK(weir_topo_nranks(topo) == RANKS && weir_topo_nnodes(topo) == 2);
    CHECK(weir_topo_node(topo, rank) == rank % 2);
    CHECK(weir_boot_barrier(ctx) == WEIR_OK);
    CHECK(weir_boot_allgather(ctx, &rank, all, sizeof rank) == WEIR_OK);
    for (int i = 0; i < RANKS; i++)
        CHECK(all[i] == i);
    CHECK(weir_finalize(ctx) == WEIR_OK);
}

static const char *const cyclic[] = {"NODES=2", "PLACEMENT=cyclic", NULL};

static void *join_by_id(void *arg)
{
    int rank = *(int *)arg;
    weir_error err;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_ctx *ctx;
    options.config = cyclic;
    options.unique_id = &shared_id;
    options.rank = rank;
    options.nranks = RANKS;
    options.error = &err;
    weir_status status = weir_init(&options, &ctx);
    if (status != WEIR_OK)
        fprintf(stderr, "%s\n", err.message);
    CHECK(status == WEIR_OK);
    if (status == WEIR_OK)
        use(ctx, rank, "id");
    return NULL;
}

static void *join_by_callbacks(void *arg)
{
    int rank = *(int *)arg;
    weir_boot_callbacks callbacks = {.size = sizeof callbacks, .rank = rank, .nranks = RANKS, .user = arg,
                                     .allgather = thread_allgather};
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_ctx *ctx;
    options.config = cyclic;
    options.callbacks = &callbacks;
    weir_status status = weir_init(&options, &ctx);
    CHECK(status == WEIR_OK);
    if (status == WEIR_OK)
        use(ctx, rank, "user");
    return NULL;
}

static void run(void *(*rank_main)(void *))
{
    pthread_t threads[RANKS];
    int ranks[RANKS];
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = i;
        pthread_create(&threads[i], NULL, rank_main, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
}

static void ranks_join_by_a_unique_id(void **state)
{
    (void)state;
    assert_int_equal(weir_unique_id_create(RANKS, &shared_id), WEIR_OK);
    run(join_by_id);
}

static void ranks_join_by_callbacks(void **state)
{
    (void)state;
    pthread_barrier_init(&gather_state.barrier, NULL, RANKS);
    run(join_by_callbacks);
    pthread_barrier_destroy(&gather_state.barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_is_rank_0_of_1),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(ranks_join_by_a_unique_id),
        cmocka_unit_test(ranks_join_by_callbacks),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
