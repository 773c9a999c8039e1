/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What shm costs beside the bare machine: `shm_measure latency|bandwidth|crowd`. Ranks are processes, the first two bound
 * to the first two cores that this process may use. Medians of batches that alternate with those of the reference.
 */
#include "base/copy.h"
#include "comm/transport/wait.h"
#include "tests/unit/shm_ranks.h"

enum { BATCHES = 301, ROUNDS = 400, ROTATION = 6, CROWD_BATCHES = 31 };

static void bind_to(int nth)
{
    cpu_set_t have, set;
    sched_getaffinity(0, sizeof have, &have);
    CPU_ZERO(&set);
    for (int c = 0, n = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &have) && n++ == nth)
            CPU_SET(c, &set);
    if (CPU_COUNT(&set))
        sched_setaffinity(0, sizeof set, &set);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

struct flag {
    uint64_t value WR_ALIGNED(WR_FLAG_LINE);
};

static bool has_come(void *arg)
{
    struct ranks_rank *r = arg;
    return r->received >= *(uint64_t *)r->state;
}

/* Nanoseconds one way of a batch: how 0 bare flags, 1 messages and progress(), 2 messages and the waiter, 3 signals. */
static double one_way(struct ranks_rank *r, int how, struct flag *flags, struct wr_waiter *w)
{
    static uint64_t turn, want;
    struct wr_op op = {NULL};
    weir_error err;
    r->state = &want;
    int64_t start = wr_clock_ns();
    for (int i = 0; i < ROUNDS; i++) {
        if (how == 0)
            turn++;
        for (int leg = 0; leg < 2; leg++) {
            bool mine = leg == r->rank;
            if (how == 0 && mine)
                wr_store_release(&flags[leg].value, turn);
            else if (how == 0)
                while (wr_load_acquire(&flags[leg].value) != turn)
                    ;
            else if (mine && how < 3)
                r->t->ops->am(r->t, !r->rank, 3, &turn, 8, NULL, 0, 0, &err);
            else if (mine)
                r->t->ops->put_signal(r->t, !r->rank, NULL, NULL, 0, NULL, 0, 5, 0, &op, &err);
            else if (how == 3)
                for (uint64_t old = r->signals[5]; r->signals[5] == old;)
                    r->t->ops->progress(r->t);
            else if (want++, how == 1)
                while (!has_come(r))
                    r->t->ops->progress(r->t);
            else
                wr_waiter_wait(w, has_come, r, WR_TIME_INF);
        }
    }
    return (double)(wr_clock_ns() - start) / (2 * ROUNDS);
}

static struct wr_waiter *make_waiter(struct ranks_rank *r)
{
    struct wr_waiter_params p = {.config = &r->config, .transports = &r->t, .ntransports = 1, .node_size = r->size};
    struct wr_waiter *w;
    weir_error err;
    if (wr_waiter_create(&p, &w, &err))
        abort();
    return w;
}

static void measure_latency(struct ranks_rank *r)
{
    static double v[4][BATCHES];
    static const char *const names[] = {"bare flags", "8-byte message", "8-byte message, waiter", "signal"};
    uint64_t bytes[2] = {4096, 4096};
    struct wr_shm_segment *seg;
    bind_to(r->rank);
    struct wr_waiter *w = make_waiter(r);
    RANKS_OK(r, wr_shm_segment_create(r->t, r->node_ranks, 2, bytes, 0, 0, &seg, err));
    wr_shm_segment_touch(seg, 0, 0, 4096);
    ranks_barrier(r);
    for (int b = 0; b < BATCHES; b++)
        for (int how = 0; how < 4; how++)
            v[how][b] = one_way(r, how, wr_shm_segment_base(seg, 0), w);
    double bare = median(v[0], BATCHES);
    for (int how = 0; how < 4 && !r->rank; how++)
        printf("%-24s one way %7.1f ns (least %.1f)  ratio %.2f\n", names[how], median(v[how], BATCHES), v[how][0],
               median(v[how], BATCHES) / bare);
    ranks_barrier(r);
    wr_waiter_destroy(w);
    wr_shm_segment_free(r->t, seg);
}

/* GB/s, by the time that this process had on its core, of copies of `size` bytes from this rank's part to that of rank 1: how 0 memcpy, 1 put. */
static double copy_rate(struct ranks_rank *r, int how, char *src, char *dst, uint64_t size, struct wr_rkey *rkey, int *turn)
{
    struct wr_op op = {NULL};
    weir_error err;
    int n = (int)WR_MAX(1, (UINT64_C(16) << 20) / size);
    int64_t start = wr_clock_read(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < n; i++) {
        uint64_t at = (uint64_t)(++*turn % ROTATION) * size;
        if (how == 0)
            memcpy(dst + at, src + at, size);
        else if (r->t->ops->put(r->t, 1, src + at, NULL, size, rkey, at, 0, &op, &err) != WEIR_OK)
            abort();
    }
    return (double)size * n / (double)(wr_clock_read(CLOCK_THREAD_CPUTIME_ID) - start);
}

/* The same with the target reading each block at once: GB/s from the start of the copy to the end of the reading. */
static double deliver_rate(struct ranks_rank *r, int how, char *src, char *dst, uint64_t size, struct wr_rkey *rkey, int *turn)
{
    struct wr_op op = {NULL};
    weir_error err;
    int64_t start = wr_clock_ns();
    static volatile uint64_t sink;
    enum { N = 8 };
    for (int i = 0; i < N; i++) {
        uint64_t at = (uint64_t)(++*turn % ROTATION) * size, old = r->signals[6];
        if (!r->rank && how == 0) {
            memcpy(dst + at, src + at, size);
            r->t->ops->put_signal(r->t, 1, NULL, NULL, 0, NULL, 0, 6, 0, &op, &err);
        } else if (!r->rank) {
            r->t->ops->put_signal(r->t, 1, src + at, NULL, size, rkey, at, 6, 0, &op, &err);
        }
        while (r->signals[6] == old)
            r->t->ops->progress(r->t);
        if (r->rank) {
            uint64_t sum = 0;
            for (uint64_t k = 0; k < size; k += 8)
                sum += *(uint64_t *)(void *)(dst + at + k);
            sink = sum;
            r->t->ops->put_signal(r->t, 0, NULL, NULL, 0, NULL, 0, 6, 0, &op, &err);
        }
    }
    (void)sink;
    return (double)size * N / (double)(wr_clock_ns() - start);
}

static void measure_bandwidth(struct ranks_rank *r)
{
    enum { SIZES = 6 };
    static const uint64_t sizes[SIZES] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    uint64_t part = ROTATION * sizes[SIZES - 1], bytes[2] = {part, part};
    struct wr_shm_segment *seg;
    struct wr_region *region;
    struct wr_rkey *rkey = NULL;
    bind_to(r->rank);
    RANKS_OK(r, wr_shm_segment_create(r->t, r->node_ranks, 2, bytes, 0, 0, &seg, err));
    RANKS_OK(r, r->t->ops->reg(r->t, wr_shm_segment_base(seg, r->rank), part, WR_REG_REMOTE_WRITE, &region, err));
    r->world->key_len[r->rank] = WR_KEY_MAX;
    RANKS_OK(r, r->t->ops->key_export(r->t, region, r->world->key[r->rank], &r->world->key_len[r->rank], err));
    memset(wr_shm_segment_base(seg, r->rank), r->rank + 1, part);
    ranks_barrier(r);
    wr_shm_segment_touch(seg, 1, 0, part);
    RANKS_OK(r, r->t->ops->key_import(r->t, !r->rank, r->world->key[!r->rank], r->world->key_len[!r->rank], &rkey, err));
    for (int s = 0; s < SIZES; s++) {
        static double v[4][41];
        int n = sizes[s] > (8 << 20) ? 15 : 41, turn = 0;
        for (int b = 0; b < n; b++)
            for (int how = 0; how < 4; how++) {
                char *src = wr_shm_segment_base(seg, 0), *dst = wr_shm_segment_base(seg, 1);
                ranks_barrier(r);
                if (how >= 2)
                    v[how][b] = deliver_rate(r, how - 2, src, dst, sizes[s], rkey, &turn);
                else if (!r->rank)
                    v[how][b] = copy_rate(r, how, src, dst, sizes[s], rkey, &turn);
            }
        double m[4];
        for (int how = 0; how < 4; how++)
            m[how] = median(v[how], n);
        if (!r->rank)
            printf("%6llu KiB: memcpy %5.1f put %5.1f GB/s ratio %.2f; until read: memcpy %5.1f put %5.1f ratio %.2f\n",
                   (unsigned long long)sizes[s] >> 10, m[0], m[1], m[1] / m[0], m[2], m[3], m[3] / m[2]);
    }
    ranks_barrier(r);
    r->t->ops->key_close(r->t, rkey);
    r->t->ops->dereg(r->t, region);
    wr_shm_segment_free(r->t, seg);
}

static double *crowd_result; /* shared with the ranks */

/* Ranks 0 and 1 play, the others wait for a message that comes in the end. */
static void play_in_a_crowd(struct ranks_rank *r)
{
    struct wr_waiter *w = make_waiter(r);
    static double v[CROWD_BATCHES];
    uint64_t one = 1;
    r->state = &one;
    if (r->rank > 1) {
        wr_waiter_wait(w, has_come, r, WR_TIME_INF);
    } else {
        for (int b = 0; b < CROWD_BATCHES; b++)
            v[b] = one_way(r, 2, NULL, w);
        for (int i = 2 + r->rank; i < r->size; i += 2)
            RANKS_OK(r, r->t->ops->am(r->t, i, 3, &one, 8, NULL, 0, 0, err));
        if (!r->rank)
            *crowd_result = median(v, CROWD_BATCHES);
    }
    wr_waiter_destroy(w);
}

static int measure_crowd(void)
{
    int failed = 0;
    crowd_result = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double alone[5], crowd[5];
    for (int i = 0; i < 5; i++) {
        failed |= ranks_run(2, 0, NULL, play_in_a_crowd);
        alone[i] = *crowd_result;
        failed |= ranks_run(8, 0, NULL, play_in_a_crowd);
        crowd[i] = *crowd_result;
    }
    double a = median(alone, 5), c = median(crowd, 5);
    printf("one way: two ranks %.0f ns (least %.0f), two of eight ranks %.0f ns (least %.0f), ratio %.2f\n", a, alone[0], c,
           crowd[0], c / a);
    return failed;
}

int main(int argc, char **argv)
{
    static const char *const none[] = {NULL};
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "latency"))
        return ranks_run(2, 0, none, measure_latency);
    if (!strcmp(what, "bandwidth"))
        return ranks_run(2, 0, none, measure_bandwidth);
    if (!strcmp(what, "crowd"))
        return measure_crowd();
    fprintf(stderr, "usage: shm_measure latency|bandwidth|crowd\n");
    return 2;
}
