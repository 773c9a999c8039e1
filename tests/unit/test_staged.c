/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations by messages: what a target does with pieces and questions that it must not believe. */
#include "tests/unit/unit.h"

#include <string.h>

#include "comm/mem/mem.h"

/* As comm/mem/staged.c writes them. */
struct range {
    uint64_t id, offset;
    uint32_t comm, signal_base;
};

struct put {
    struct range range;
    int32_t signal;
    uint32_t unused;
    unsigned char data[32];
};

struct question {
    struct range range;
    uint64_t token;
    uint32_t len, unused;
};

struct answer {
    uint64_t token;
    int32_t status;
    uint32_t unused;
    unsigned char data[16];
};

enum { BYTES = 100, HEAD = offsetof(struct put, data) };

static weir_ctx *ctx;
static weir_comm *comm;

static void open_alone(const char *fault)
{
    const char *const config[] = {"BOOT=single", "LOG=off", fault, NULL};
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    options.config = config;
    assert_int_equal(weir_init(&options, &ctx), WEIR_OK);
    assert_int_equal(weir_comm_world(ctx, &comm), WEIR_OK);
}

static struct put piece(const weir_mem *mem, uint64_t offset)
{
    struct put put = {.range = {mem->id, offset, comm->group.id, mem->signal_base}, .signal = -1};
    memset(put.data, 0xee, sizeof put.data);
    return put;
}

static void hand_in(const struct put *put, size_t bytes)
{
    wr_engine_lock(comm->engine);
    wr_staged_on_put(comm->mem, 0, put, HEAD + bytes);
    wr_engine_unlock(comm->engine);
}

static bool untouched(const weir_mem *mem)
{
    const unsigned char *p = weir_mem_ptr(mem);
    for (int i = 0; i < BYTES; i++)
        if (p[i])
            return false;
    return !comm->engine->signals[mem->signal_base + 2];
}

static void pieces_are_checked(void **state)
{
    (void)state;
    weir_mem *old, *mem;
    open_alone("FAULT=refuse=reg");
    assert_int_equal(weir_mem_alloc(comm, BYTES, 0, &old), WEIR_OK);
    struct put stale = piece(old, 0);
    assert_int_equal(weir_mem_free(old), WEIR_OK);
    assert_int_equal(weir_mem_alloc(comm, BYTES, 0, &mem), WEIR_OK);
    assert_int_equal(stale.range.signal_base, mem->signal_base); /* the same place, another number */
    hand_in(&stale, 32);
    struct put bad = piece(mem, BYTES - 31);
    hand_in(&bad, 32);
    bad = piece(mem, UINT64_MAX - 15);
    hand_in(&bad, 32);
    bad = piece(mem, 0);
    bad.range.comm++;
    hand_in(&bad, 32);
    bad = piece(mem, 0);
    bad.range.signal_base = UINT32_MAX;
    hand_in(&bad, 32);
    bad = piece(mem, 0);
    bad.signal = WEIR_SIGNALS;
    hand_in(&bad, 32);
    bad = piece(mem, 0);
    wr_staged_on_put(comm->mem, 0, &bad, HEAD - 1);
    assert_true(untouched(mem));
    struct put good = piece(mem, BYTES - 32);
    good.signal = 2;
    hand_in(&good, 32);
    assert_false(untouched(mem));
    assert_int_equal(weir_signal_read(mem, 2), 1);
    assert_int_equal(weir_mem_free(mem), WEIR_OK);
    assert_int_equal(weir_finalize(ctx), WEIR_OK);
}

/* What was refused is an error of the sender's next flush, and of that one only. */
static void a_refused_piece_fails_the_flush(void **state)
{
    (void)state;
    weir_mem *mem;
    weir_request *request;
    open_alone("FAULT=refuse=reg");
    assert_int_equal(weir_mem_alloc(comm, BYTES, 0, &mem), WEIR_OK);
    struct put bad = piece(mem, BYTES);
    hand_in(&bad, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_put(mem, "weir", 4, 0, 7, &request), WEIR_OK);
        assert_int_equal(weir_wait(&request), WEIR_OK);
        assert_int_equal(weir_flush(mem, 0), i ? WEIR_OK : WEIR_ERR_INVALID);
        if (!i)
            assert_non_null(strstr(weir_last_error(ctx)->message, "rank 0 refused"));
    }
    assert_memory_equal((char *)weir_mem_ptr(mem) + 7, "weir", 4);
    weir_mem_info info = {.size = sizeof info};
    assert_int_equal(weir_mem_usage(ctx, &info), WEIR_OK);
    assert_true(info.staging > 0);
    assert_int_equal(weir_mem_free(mem), WEIR_OK);
    assert_int_equal(weir_finalize(ctx), WEIR_OK);
}

static void answers_and_questions_are_checked(void **state)
{
    (void)state;
    weir_mem *mem;
    open_alone("FAULT=refuse=reg");
    assert_int_equal(weir_mem_alloc(comm, BYTES, 0, &mem), WEIR_OK);
    struct answer answer = {.token = 3};
    for (int i = 0; i < 2; i++) { /* before and after the peer is known */
        for (uint64_t token = 0; token < 20; token++) {
            answer.token = token << (i ? 32 : 0);
            wr_staged_on_answer(comm->mem, 0, &answer, sizeof answer);
        }
        wr_staged_on_answer(comm->mem, 0, &answer, 3);
        struct question q = {.range = {mem->id, BYTES - 1, comm->group.id, mem->signal_base}, .len = UINT32_MAX};
        for (int k = 0; k < 3 * WR_STAGED_WINDOW; k++)
            wr_staged_on_ask(comm->mem, 0, &q, sizeof q);
        wr_staged_on_ask(comm->mem, 0, &q, sizeof q - 1);
        weir_signal_read(mem, 0); /* answers them, and drops the answers */
    }
    unsigned char back[BYTES];
    weir_request *request;
    memset(weir_mem_ptr(mem), 5, BYTES);
    assert_int_equal(weir_get(mem, back, BYTES, 0, 0, &request), WEIR_OK);
    assert_int_equal(weir_wait(&request), WEIR_OK);
    assert_memory_equal(back, weir_mem_ptr(mem), BYTES);
    assert_int_equal(weir_mem_free(mem), WEIR_OK);
    assert_int_equal(weir_finalize(ctx), WEIR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_checked),
        cmocka_unit_test(a_refused_piece_fails_the_flush),
        cmocka_unit_test(answers_and_questions_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
