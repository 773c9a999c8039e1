/* SPDX-License-Identifier: BSD-3-Clause */
/* What the conformance program cannot know of shm: segments, mapped puts, stale keys, deaths, stray letters. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/copy.h"
#include "comm/transport/shm/mail.h"
#include "tests/unit/shm_ranks.h"

#define MS INT64_C(1000000)

static void fill(unsigned char *p, uint64_t n, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i++)
        p[i] = (unsigned char)((i * 31 + seed * 17 + (i >> 8)) & 0xff);
}

static int64_t wrong_at(const unsigned char *p, uint64_t n, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)((i * 31 + seed * 17 + (i >> 8)) & 0xff))
            return (int64_t)i;
    return -1;
}

static void copies_are_copies(void **state)
{
    (void)state;
    enum { N = 3 << 20, EDGE = 256 };
    unsigned char *src = malloc(N + EDGE), *dst = malloc(N + EDGE);
    assert_non_null(src);
    assert_non_null(dst);
    fill(src, N + EDGE, 5);
    for (size_t i = 0; i < 40; i++) {
        size_t n = i < 20 ? i * 37 : N - i * 13, to = i * 7 % 64, from = i * 5 % 64;
        memset(dst, 0xaa, N + EDGE);
        wr_copy_streaming(dst + to, src + from, n);
        assert_memory_equal(dst + to, src + from, n);
        for (size_t k = 0; k < to; k++)
            assert_int_equal(dst[k], 0xaa);
        assert_int_equal(dst[to + n], 0xaa);
    }
    free(src);
    free(dst);
}

static void await_signal(struct ranks_rank *r, int slot, uint64_t goal)
{
    int64_t deadline = wr_deadline(60000 * MS);
    while (r->signals[slot] < goal && !wr_load_acquire(&r->world->failed)) {
        if (!r->t->ops->progress(r->t))
            sched_yield();
        RANKS_CHECK(r, !wr_deadline_passed(deadline), "signal %d: %llu of %llu", slot,
                    (unsigned long long)r->signals[slot], (unsigned long long)goal);
    }
}

static void export_key(struct ranks_rank *r, struct wr_region *region)
{
    r->world->key_len[r->rank] = WR_KEY_MAX;
    RANKS_OK(r, r->t->ops->key_export(r->t, region, r->world->key[r->rank], &r->world->key_len[r->rank], err));
}

static void no_done(struct wr_op *op, weir_status status)
{
    (void)op, (void)status;
}

/* Each rank's part is its own, zero, aligned and seen by the others; puts with signals land in it. */
static void use_segment(struct ranks_rank *r)
{
    uint64_t bytes[RANKS_MAX];
    struct wr_shm_segment *seg = NULL;
    struct wr_region *region;
    struct wr_rkey *rkey;
    int n = r->size, to = (r->rank + 1) % n, from = (r->rank + n - 1) % n;
    for (int i = 0; i < n; i++)
        bytes[i] = i == 1 ? 100 : (uint64_t)(3 << 20) + (uint64_t)i * 8000;
    bytes[0] = 5 << 20;
    RANKS_OK(r, wr_shm_segment_create(r->t, r->node_ranks, n, bytes, 0, 0, &seg, err));
    unsigned char *mine = wr_shm_segment_base(seg, r->rank);
    RANKS_CHECK(r, (uintptr_t)mine % 4096 == 0 && wr_shm_segment_bytes(seg, r->rank) == bytes[r->rank], "%p", (void *)mine);
    for (uint64_t i = 0; i < bytes[r->rank]; i++)
        RANKS_CHECK(r, !mine[i], "byte %llu is not zero", (unsigned long long)i);
    RANKS_OK(r, r->t->ops->reg(r->t, mine, bytes[r->rank], WR_REG_REMOTE_WRITE, &region, err));
    export_key(r, region);
    ranks_barrier(r);
    RANKS_OK(r, r->t->ops->key_import(r->t, to, r->world->key[to], r->world->key_len[to], &rkey, err));
    unsigned char *source = malloc(bytes[to]);
    struct wr_op op = {no_done};
    for (uint64_t round = 1; round <= 4; round++) {
        uint64_t offset = round * 3, len = bytes[to] - offset - round;
        fill(source, len, round * 10 + (uint64_t)r->rank);
        RANKS_OK(r, r->t->ops->put_signal(r->t, to, source, NULL, len, rkey, offset, 1, 0, &op, err));
        await_signal(r, 1, round);
        len = bytes[r->rank] - offset - round;
        RANKS_CHECK(r, wrong_at(mine + offset, len, round * 10 + (uint64_t)from) < 0, "round %llu", (unsigned long long)round);
        ranks_barrier(r);
        wr_shm_segment_touch(seg, to, 0, bytes[to]); /* plain loads of the peer's part */
        RANKS_CHECK(r, !memcmp((char *)wr_shm_segment_base(seg, to) + offset, source, bytes[to] - offset - round), "loads");
        ranks_barrier(r);
    }
    weir_error why;
    RANKS_CHECK(r, r->t->ops->put(r->t, to, source, NULL, 2, rkey, bytes[to] - 1, 0, &op, &why) == WEIR_ERR_INVALID, "bounds");
    ranks_barrier(r);
    r->t->ops->dereg(r->t, region);
    ranks_barrier(r);
    RANKS_CHECK(r, r->t->ops->put(r->t, to, source, NULL, 1, rkey, 0, 0, &op, &why) == WEIR_ERR_STALE, "dereg");
    wr_shm_segment_free(r->t, seg);
    RANKS_CHECK(r, r->t->ops->put(r->t, to, source, NULL, 1, rkey, 0, 0, &op, &why) == WEIR_ERR_STALE, "free");
    r->t->ops->key_close(r->t, rkey);
    free(source);
}

static void segments_between_threads(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, 1, NULL, use_segment), 0);
}

static void segments_between_processes(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(4, 0, NULL, use_segment), 0);
}

/* Groups that overlap, and one part for all. */
static void use_groups(struct ranks_rank *r)
{
    struct wr_shm_segment *even = NULL, *all = NULL, *late[20] = {0};
    uint64_t bytes[2] = {10000, 20000}, one[RANKS_MAX] = {(4 << 20) + 12345};
    int evens[2] = {0, 2};
    if (r->rank % 2 == 0)
        RANKS_OK(r, wr_shm_segment_create(r->t, evens, 2, bytes, WR_SHM_SEGMENT_SMALL_PAGES, 0, &even, err));
    RANKS_OK(r, wr_shm_segment_create(r->t, r->node_ranks, r->size, one, WR_SHM_SEGMENT_SHARED, 0, &all, err));
    for (int i = 0; i < 20; i++) /* alike: matched by their order */
        RANKS_OK(r, wr_shm_segment_create(r->t, r->node_ranks, r->size, one, WR_SHM_SEGMENT_SHARED, 0, &late[i], err));
    char *base = wr_shm_segment_base(all, r->rank);
    RANKS_CHECK(r, base == wr_shm_segment_base(all, 0), "one part");
    for (int i = 0; i < 20; i++)
        if (r->rank == i % r->size)
            memset(wr_shm_segment_base(late[i], 0), 'a' + i, one[0]);
    base[one[0] - 1 - (uint64_t)r->rank] = (char)('A' + r->rank);
    if (even)
        memset(wr_shm_segment_base(even, r->rank / 2), 'x' + r->rank / 2, wr_shm_segment_bytes(even, r->rank / 2));
    ranks_barrier(r);
    for (int i = 0; i < 20; i++)
        RANKS_CHECK(r, ((char *)wr_shm_segment_base(late[i], 0))[one[0] - 1] == 'a' + i, "segment %d", i);
    for (int i = 0; i < r->size; i++)
        RANKS_CHECK(r, base[one[0] - 1 - (uint64_t)i] == 'A' + i, "rank %d's byte", i);
    if (even)
        RANKS_CHECK(r, ((char *)wr_shm_segment_base(even, 0))[9999] == 'x' && *(char *)wr_shm_segment_base(even, 1) == 'y',
                    "the even ranks' segment");
    ranks_barrier(r);
    wr_shm_segment_free(r->t, even);
    for (int i = 0; i < 20; i++)
        wr_shm_segment_free(r->t, late[i]);
    wr_shm_segment_free(r->t, all);
}

static void groups_have_their_own_segments(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, 1, NULL, use_groups), 0);
    assert_int_equal(ranks_run(3, 0, NULL, use_groups), 0);
}

/* What cannot be had is an error with a sentence: at the rank that asks too much, or at all when the first one fails. */
static void ask_too_much(struct ranks_rank *r)
{
    uint64_t bytes[2] = {4 << 20, UINT64_C(1) << 40};
    struct wr_shm_segment *seg = NULL;
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    weir_error why;
    weir_status status = wr_shm_segment_create(r->t, r->node_ranks, 2, bytes, 0, 0, &seg, &why);
    RANKS_CHECK(r, status == (r->rank ? WEIR_ERR_NO_MEMORY : WEIR_OK), "%s", weir_status_name(status));
    RANKS_CHECK(r, !r->rank || strstr(why.message, "1099511627776 bytes"), "%s", why.message);
    wr_shm_segment_free(r->t, seg);
    ranks_barrier(r);
    if (!r->rank) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    bytes[1] = 4096;
    status = wr_shm_segment_create(r->t, r->node_ranks, 2, bytes, 0, 0, &seg, &why);
    RANKS_CHECK(r, status == WEIR_ERR_NO_MEMORY && strstr(why.message, r->rank ? "rank 0" : "size shared memory"), "%s: %s",
                weir_status_name(status), why.message);
    bytes[1] = UINT64_C(1) << 63;
    status = wr_shm_segment_create(r->t, r->node_ranks, 2, bytes, 0, 0, &seg, &why);
    RANKS_CHECK(r, status == WEIR_ERR_NO_MEMORY, "%s", weir_status_name(status));
}

static void failures_reach_those_concerned(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 0, NULL, ask_too_much), 0);
}

/* ---- memory that is not shared ---- */

struct completion {
    struct wr_op op;
    weir_status status;
    int count;
};

static void completed(struct wr_op *op, weir_status status)
{
    struct completion *c = (void *)op;
    c->status = status;
    c->count++;
}

/* Stale keys are refused for plain memory too, before anything is written. */
static void refuse_stale(struct ranks_rank *r)
{
    unsigned char *memory = calloc(1, 100000);
    struct wr_region *region;
    struct wr_rkey *rkey;
    struct wr_op op = {no_done};
    weir_error why;
    RANKS_OK(r, r->t->ops->reg(r->t, memory, 100000, WR_REG_REMOTE_WRITE, &region, err));
    export_key(r, region);
    ranks_barrier(r);
    RANKS_OK(r, r->t->ops->key_import(r->t, !r->rank, r->world->key[!r->rank], r->world->key_len[!r->rank], &rkey, err));
    ranks_barrier(r);
    r->t->ops->dereg(r->t, region);
    RANKS_OK(r, r->t->ops->reg(r->t, memory, 100000, WR_REG_REMOTE_WRITE, &region, err)); /* another one in its place */
    ranks_barrier(r);
    uint64_t value = 77;
    RANKS_CHECK(r, r->t->ops->put(r->t, !r->rank, &value, NULL, 8, rkey, 0, 0, &op, &why) == WEIR_ERR_STALE, "put");
    RANKS_CHECK(r, r->t->ops->get(r->t, !r->rank, &value, NULL, 8, rkey, 0, &op, &why) == WEIR_ERR_STALE, "get");
    RANKS_CHECK(r, strstr(why.message, "gone") && why.rank == !r->rank, "%s", why.message);
    ranks_barrier(r);
    RANKS_CHECK(r, !memory[0], "written by a stale key");
    r->t->ops->key_close(r->t, rkey);
    r->t->ops->dereg(r->t, region);
    free(memory);
}

static const char *const staged_env[] = {"WEIR_SHM_CMA=off", NULL};

static void stale_keys_are_refused(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 0, NULL, refuse_stale), 0);
    assert_int_equal(ranks_run(2, 0, staged_env, refuse_stale), 0);
}

/* A fenced mapped put stays behind staged ones, and a flush waits for the owner. */
static void fence_staged(struct ranks_rank *r)
{
    enum { N = 1 << 20 };
    unsigned char *plain = calloc(1, N), *source = malloc(N);
    struct wr_region *region;
    struct wr_rkey *rkey;
    struct completion big = {{completed}, WEIR_OK, 0}, flush = big;
    RANKS_OK(r, r->t->ops->reg(r->t, plain, N, WR_REG_REMOTE_WRITE, &region, err));
    export_key(r, region);
    ranks_barrier(r);
    RANKS_OK(r, r->t->ops->key_import(r->t, !r->rank, r->world->key[!r->rank], r->world->key_len[!r->rank], &rkey, err));
    weir_error why;
    fill(source, N, (uint64_t)r->rank);
    weir_status status = r->t->ops->put(r->t, !r->rank, source, NULL, N, rkey, 0, 0, &big.op, &why);
    RANKS_CHECK(r, status == WEIR_IN_PROGRESS, "%s", weir_status_name(status));
    RANKS_CHECK(r, r->t->ops->am(r->t, !r->rank, 3, "x", 1, NULL, 0, WR_OP_FENCE, &why) == WEIR_ERR_BUSY, "fenced");
    RANKS_CHECK(r, r->t->ops->flush(r->t, -1, &flush.op, &why) == WEIR_IN_PROGRESS, "flush");
    int64_t deadline = wr_deadline(60000 * MS);
    while (!flush.count && !wr_load_acquire(&r->world->failed)) {
        r->t->ops->progress(r->t);
        RANKS_CHECK(r, !wr_deadline_passed(deadline), "the flush does not end");
    }
    RANKS_CHECK(r, big.count == 1 && big.status == WEIR_OK && flush.status == WEIR_OK, "%d completions", big.count);
    ranks_barrier(r);
    RANKS_CHECK(r, wrong_at(plain, N, (uint64_t)!r->rank) < 0, "data");
    ranks_barrier(r);
    r->t->ops->key_close(r->t, rkey);
    r->t->ops->dereg(r->t, region);
    free(plain);
    free(source);
}

static void staged_puts_keep_fences(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 1, staged_env, fence_staged), 0);
    assert_int_equal(ranks_run(2, 0, staged_env, fence_staged), 0);
}

/* ---- deaths ---- */

static void survive(struct ranks_rank *r)
{
    unsigned char *plain = calloc(1, 1 << 20);
    struct wr_region *region;
    struct wr_rkey *rkey;
    struct completion c = {{completed}, WEIR_OK, 0};
    RANKS_OK(r, r->t->ops->reg(r->t, plain, 1 << 20, WR_REG_REMOTE_READ, &region, err));
    export_key(r, region);
    r->world->word[63] = 1; /* one rank may end by a signal */
    ranks_barrier(r);
    if (r->rank == 1) {
        kill(getpid(), SIGKILL);
        return;
    }
    RANKS_OK(r, r->t->ops->key_import(r->t, 1, r->world->key[1], r->world->key_len[1], &rkey, err));
    weir_error why;
    /* staged: needs the dead one's help */
    weir_status status = r->t->ops->get(r->t, 1, plain, NULL, 1 << 20, rkey, 0, &c.op, &why);
    RANKS_CHECK(r, status == WEIR_IN_PROGRESS || status == WEIR_ERR_PEER_LOST, "%s", weir_status_name(status));
    int64_t start = wr_clock_ns();
    while (!r->lost && wr_clock_ns() - start < 20000 * MS) {
        r->t->ops->progress(r->t);
        if (r->rank == 2) /* one polls, one sleeps */
            r->t->ops->block(r->t, 1000 * MS, NULL, NULL, NULL);
    }
    int64_t took = wr_clock_ns() - start;
    RANKS_CHECK(r, r->lost == 1 && r->lost_rank == 1, "%d lost", r->lost);
    RANKS_CHECK(r, took < 2000 * MS, "after %lld ms", (long long)(took / MS));
    RANKS_CHECK(r, status != WEIR_IN_PROGRESS || (c.count == 1 && c.status == WEIR_ERR_PEER_LOST), "%d", c.count);
    RANKS_CHECK(r, r->t->ops->am(r->t, 1, 3, "x", 1, NULL, 0, 0, &why) == WEIR_ERR_PEER_LOST && why.rank == 1, "am");
    if (!r->rank) { /* the living go on */
        RANKS_OK(r, r->t->ops->am(r->t, 2, 3, "x", 1, NULL, 0, 0, err));
    } else {
        while (!r->received && wr_clock_ns() - start < 20000 * MS)
            r->t->ops->progress(r->t);
        RANKS_CHECK(r, r->received == 1, "no message of the living");
    }
    r->t->ops->key_close(r->t, rkey);
    free(plain);
    /* without the last barrier, which needs all */
    r->t->ops->close(r->t);
    _exit(wr_load_acquire(&r->world->failed));
}

static void a_dead_peer_is_an_error_everywhere(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, 0, staged_env, survive), 0);
}

static void leave_first(struct ranks_rank *r)
{
    if (r->rank == 1) {
        r->t->ops->close(r->t);
        _exit(0);
    }
    int64_t start = wr_clock_ns();
    while (wr_clock_ns() - start < 300 * MS) {
        r->t->ops->progress(r->t);
        r->t->ops->block(r->t, 10 * MS, NULL, NULL, NULL);
    }
    RANKS_CHECK(r, !r->lost, "a rank that left in order was reported lost");
    r->t->ops->close(r->t);
    _exit(wr_load_acquire(&r->world->failed));
}

static void leaving_in_order_is_no_loss(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 0, NULL, leave_first), 0);
}

/* ---- mail ---- */

static void letters_without_the_nonce_are_dropped(void **state)
{
    (void)state;
    struct wr_mailbox box;
    struct wr_mail_address forged;
    struct wr_letter letter = {.kind = WR_LETTER_SEGMENT, .sender = 4, .tag = 9, .value = {11}}, got;
    weir_error err;
    int fd;
    assert_ok(wr_mailbox_open(&box, &err), &err);
    forged = box.address;
    forged.nonce[3] ^= 1;
    assert_ok(wr_mail_send(&forged, &letter, -1, wr_deadline(1000 * MS), &err), &err);
    assert_int_equal(wr_mail_take(&box, &box.address, WR_LETTER_SEGMENT, 4, 9, wr_deadline(20 * MS), &got, &fd, &err),
                     WEIR_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "rank 4"));
    assert_ok(wr_mail_send(&box.address, &letter, box.bell, wr_deadline(1000 * MS), &err), &err);
    letter.tag = 8;
    assert_ok(wr_mail_send(&box.address, &letter, -1, wr_deadline(1000 * MS), &err), &err);
    assert_ok(wr_mail_take(&box, &box.address, WR_LETTER_SEGMENT, 4, 8, wr_deadline(1000 * MS), &got, &fd, &err), &err);
    assert_int_equal(fd, -1);
    assert_ok(wr_mail_take(&box, &box.address, WR_LETTER_SEGMENT, 4, 9, wr_deadline(1000 * MS), &got, &fd, &err), &err);
    assert_true(fd >= 0);
    assert_int_equal(got.value[0], 11);
    assert_int_equal(got.pid, getpid());
    close(fd);
    assert_true(wr_mail_alive(&box.address));
    forged = box.address;
    wr_mailbox_close(&box);
    assert_false(wr_mail_alive(&forged));
    assert_int_equal(wr_mail_send(&forged, &letter, -1, wr_deadline(1000 * MS), &err), WEIR_ERR_PEER_LOST);
}

/* ---- cost ---- */

/* Messages between all pairs; then only the rings in use have memory. */
static void chat(struct ranks_rank *r)
{
    weir_error why;
    struct rusage before, after;
    uint64_t goal = (uint64_t)(r->size - 1) * 1000;
    getrusage(RUSAGE_SELF, &before);
    for (uint64_t i = 0; i < 1000; i++)
        for (int k = 1; k < r->size; k++)
            while (r->t->ops->am(r->t, (r->rank + k) % r->size, 3, &i, 8, NULL, 0, 0, &why) == WEIR_ERR_BUSY)
                if (!r->t->ops->progress(r->t))
                    sched_yield();
    while (r->received < goal && !wr_load_acquire(&r->world->failed))
        if (!r->t->ops->progress(r->t))
            sched_yield();
    RANKS_CHECK(r, r->received == goal, "%llu", (unsigned long long)r->received);
    getrusage(RUSAGE_SELF, &after);
    RANKS_CHECK(r, after.ru_maxrss - before.ru_maxrss < 4096, "%ld KiB", after.ru_maxrss - before.ru_maxrss);
}

static void many_ranks_talk(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(6, 1, NULL, chat), 0);
    assert_int_equal(ranks_run(16, 0, NULL, chat), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_copies),
        cmocka_unit_test(segments_between_processes),
        cmocka_unit_test(groups_have_their_own_segments),
        cmocka_unit_test(failures_reach_those_concerned),
        cmocka_unit_test(stale_keys_are_refused),
        cmocka_unit_test(staged_puts_keep_fences),
        cmocka_unit_test(a_dead_peer_is_an_error_everywhere),
        cmocka_unit_test(leaving_in_order_is_no_loss),
        cmocka_unit_test(letters_without_the_nonce_are_dropped),
        cmocka_unit_test(many_ranks_talk),
        cmocka_unit_test(segments_between_threads),
    };
    return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
