/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiter: ends, deadlines, kicks, several threads, and a search for lost wake-ups. */
#include "tests/unit/unit.h"

#include "comm/transport/components.h"
#include "comm/transport/wait.h"
#include "tests/unit/shm_ranks.h"

#define MS INT64_C(1000000)

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static bool is_set(void *arg)
{
    return wr_load_acquire((int *)arg);
}

static void a_deadline_ends_a_wait(void **state)
{
    (void)state;
    struct wr_waiter_params p = {.node_size = 1};
    struct wr_waiter *w;
    weir_error err;
    int set = 1;
    assert_ok(wr_waiter_create(&p, &w, &err), &err);
    int64_t start = wr_clock_ns();
    assert_int_equal(wr_waiter_wait(w, never, NULL, wr_deadline(20 * MS)), WEIR_ERR_TIMEOUT);
    assert_true(wr_clock_ns() - start >= 20 * MS);
    assert_true(wr_waiter_blocked(w) > 0);
    assert_int_equal(wr_waiter_wait(w, is_set, &set, wr_deadline(0)), WEIR_OK);
    wr_waiter_destroy(w);
}

struct kicker {
    struct wr_waiter *w;
    int set;
};

static void *set_and_kick(void *arg)
{
    struct kicker *k = arg;
    usleep(20000);
    wr_store_release(&k->set, 1);
    wr_waiter_kick(k->w);
    return NULL;
}

static void kick_ends_wait(struct wr_transport **transports, int n)
{
    struct wr_waiter_params p = {.node_size = 1, .transports = transports, .ntransports = n};
    struct kicker k = {0};
    weir_error err;
    pthread_t thread;
    assert_ok(wr_waiter_create(&p, &k.w, &err), &err);
    int64_t start = wr_clock_ns();
    pthread_create(&thread, NULL, set_and_kick, &k);
    assert_ok(wr_waiter_wait(k.w, is_set, &k.set, wr_deadline(60000 * MS)), &err);
    assert_true(wr_clock_ns() - start < 20000 * MS);
    pthread_join(thread, NULL);
    wr_waiter_destroy(k.w);
}

static void a_kick_ends_a_wait(void **state)
{
    (void)state;
    kick_ends_wait(NULL, 0);
}

/* A transport that has no descriptor and gets something after a while. */
struct napping {
    struct wr_transport base;
    int polls;
    int done;
};

static int napping_progress(struct wr_transport *t)
{
    struct napping *n = (void *)t;
    n->done = ++n->polls >= 40000;
    return n->done;
}

static int no_fd(struct wr_transport *t)
{
    (void)t;
    return -1;
}

static void a_transport_without_descriptor_is_polled(void **state)
{
    (void)state;
    struct wr_transport_ops ops = {.name = "napping", .progress = napping_progress, .wait_fd = no_fd};
    struct napping n = {.base.ops = &ops};
    struct wr_transport *t = &n.base;
    struct wr_config config = {.spin = 1000};
    struct wr_waiter_params p = {.config = &config, .node_size = 1, .transports = &t, .ntransports = 1};
    struct wr_waiter *w;
    weir_error err;
    n.polls = 39900;
    assert_ok(wr_waiter_create(&p, &w, &err), &err);
    assert_ok(wr_waiter_wait(w, is_set, &n.done, wr_deadline(60000 * MS)), &err);
    wr_waiter_destroy(w);
}

/* True when it is asked for the n-th time; once, before that, it takes long. */
struct patience {
    int asked, until, long_at;
};

static bool is_patient(void *arg)
{
    struct patience *p = arg;
    if (++p->asked == p->long_at)
        usleep(10000);
    return p->asked >= p->until;
}

/* With more ranks than cores, ranks that wait give the core to each other; only while others compute on it they sleep. */
static void one_long_turn_is_soon_forgotten(void **state)
{
    (void)state;
    struct wr_waiter_params p = {.node_size = 4 * (int)sysconf(_SC_NPROCESSORS_ONLN)};
    struct patience gap = {.until = 6, .long_at = 4};
    struct wr_waiter *w;
    weir_error err;
    bool slept = true;
    assert_ok(wr_waiter_create(&p, &w, &err), &err);
    assert_true(wr_waiter_crowded(w));
    assert_ok(wr_waiter_wait(w, is_patient, &gap, wr_deadline(60000 * MS)), &err);
    assert_true(wr_waiter_blocked(w) > 0);
    for (int i = 0; slept && i < 30; i++) {
        struct patience no_gap = {.until = 6};
        uint64_t before = wr_waiter_blocked(w);
        usleep(1000);
        wr_waiter_wait(w, is_patient, &no_gap, wr_deadline(MS));
        slept = wr_waiter_blocked(w) != before;
    }
    assert_false(slept);
    wr_waiter_destroy(w);
}

/* ---- sleeping in shm ---- */

/* How long the search for lost wake-ups goes on, each way. */
static int64_t search_ns = 1000 * MS;

struct nap {
    struct ranks_rank *r;
    uint64_t want;
};

static bool has_come(void *arg)
{
    struct nap *n = arg;
    return n->r->received >= n->want;
}

static void take_stamp(struct ranks_rank *r, int source, const void *data, size_t len)
{
    (void)source, (void)len;
    memcpy(r->state, data, 8);
}

/* Up to `most` pauses (a power of two). */
static void dawdle(uint64_t *random, uint64_t most)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    for (uint64_t i = *random >> 40 & (most - 1); i; i--)
        wr_cpu_relax();
}

static void bind_apart(int rank)
{
    cpu_set_t have, set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof have, &have) || CPU_COUNT(&have) < 2)
        return;
    for (int c = 0, n = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &have) && n++ == rank)
            CPU_SET(c, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/*
 * Rank 1 says that it is about to sleep, and rank 0 sends a ball into just that moment, sooner or later by chance. A
 * wake-up that was lost shows as a sleep that lasted to its end although the sender had done all that it does long before.
 */
static void stalk_a_sleeper(struct ranks_rank *r, struct wr_waiter *w)
{
    int64_t stamp = 0, end = wr_deadline(search_ns), lost = 0;
    uint64_t random = 1, *awaited = &r->world->word[1], *thrown = &r->world->word[2], *thrown_at = &r->world->word[3];
    struct nap nap = {r, 0};
    bind_apart(r->rank);
    r->state = &stamp;
    r->handler = take_stamp;
    while (r->rank) {
        int64_t start = wr_clock_ns();
        wr_store_release(awaited, ++nap.want);
        RANKS_CHECK(r, wr_waiter_wait(w, has_come, &nap, wr_deadline(60000 * MS)) == WEIR_OK, "the ball did not come");
        int64_t now = wr_clock_ns();
        if (stamp < 0)
            break;
        if (now - start > 245 * MS && wr_load_acquire(thrown) == nap.want)
            lost += now - (int64_t)wr_load_relaxed(thrown_at) > 200 * MS;
    }
    for (uint64_t ball = 1; !r->rank; ball++) {
        for (unsigned i = 1; wr_load_acquire(awaited) < ball && !wr_load_acquire(&r->world->failed); i++)
            if (i % 4096 == 0)
                sched_yield();
        dawdle(&random, 256);
        stamp = wr_clock_ns();
        stamp = stamp > end ? -1 : stamp;
        RANKS_OK(r, r->t->ops->am(r->t, 1, 3, &stamp, sizeof stamp, NULL, 0, 0, err));
        if (stamp < 0)
            break;
        wr_store_relaxed(thrown_at, (uint64_t)wr_clock_ns());
        wr_store_release(thrown, ball);
    }
    wr_add_acq_rel(&r->world->word[0], wr_waiter_blocked(w));
    RANKS_CHECK(r, lost < 2, "%lld wake-ups came only at the end of the sleep", (long long)lost);
}

static void sleep_in_futex(struct ranks_rank *r)
{
    struct wr_config config = {.spin = 0};
    struct wr_waiter_params p = {.config = &config, .transports = &r->t, .ntransports = 1, .node_size = 2};
    struct wr_waiter *w;
    RANKS_OK(r, wr_waiter_create(&p, &w, err));
    stalk_a_sleeper(r, w);
    wr_waiter_destroy(w);
    ranks_barrier(r);
    if (!r->rank)
        printf("%llu sleeps in a futex\n", (unsigned long long)r->world->word[0]);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void sleep_in_epoll(struct ranks_rank *r)
{
    struct wr_config config = {.spin = 0};
    struct wr_waiter_params p = {.config = &config, .transports = &r->t, .ntransports = 1, .node_size = 2,
                                 .release = nothing, .acquire = nothing};
    struct wr_waiter *w;
    RANKS_OK(r, wr_waiter_create(&p, &w, err));
    stalk_a_sleeper(r, w);
    wr_waiter_destroy(w);
    ranks_barrier(r);
    if (!r->rank)
        printf("%llu sleeps in epoll\n", (unsigned long long)r->world->word[0]);
}

static void no_wake_up_is_lost_between_threads(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 1, NULL, sleep_in_futex), 0);
    assert_int_equal(ranks_run(2, 1, NULL, sleep_in_epoll), 0);
}

static void no_wake_up_is_lost_between_processes(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 0, NULL, sleep_in_futex), 0);
    assert_int_equal(ranks_run(2, 0, NULL, sleep_in_epoll), 0);
}

/* A full ring: the sender sleeps until the receiver has made room. */
static void flood_asleep(struct ranks_rank *r)
{
    enum { N = 3000 };
    struct wr_config config = {.spin = 0};
    struct wr_waiter_params p = {.config = &config, .transports = &r->t, .ntransports = 1, .node_size = 2};
    struct wr_waiter *w;
    static char payload[4000];
    struct nap nap = {r, 0};
    RANKS_OK(r, wr_waiter_create(&p, &w, err));
    if (r->rank) {
        for (nap.want = 1; nap.want <= N; nap.want += 97)
            RANKS_CHECK(r, wr_waiter_wait(w, has_come, &nap, wr_deadline(60000 * MS)) == WEIR_OK, "the flood stopped");
        nap.want = N;
        RANKS_CHECK(r, wr_waiter_wait(w, has_come, &nap, wr_deadline(60000 * MS)) == WEIR_OK, "the flood stopped");
    }
    for (int i = 0; i < N && !r->rank;) {
        weir_error err;
        weir_status status = r->t->ops->am(r->t, 1, 3, payload, sizeof payload, NULL, 0, 0, &err);
        i += status == WEIR_OK;
        if (status == WEIR_ERR_BUSY) /* one turn: anything that comes, or a while */
            r->t->ops->block(r->t, 1000 * MS, NULL, NULL, NULL);
        r->t->ops->progress(r->t);
    }
    wr_waiter_destroy(w);
}

static void a_sender_sleeps_until_there_is_room(void **state)
{
    (void)state;
    int64_t start = wr_clock_ns();
    assert_int_equal(ranks_run(2, 1, NULL, flood_asleep), 0);
    assert_true(wr_clock_ns() - start < 20000 * MS);
}

/* ---- several threads of one rank ---- */

struct shared {
    struct ranks_rank *r;
    struct wr_waiter *w;
    pthread_mutex_t lock;
    uint64_t counts[4];
};

struct waiting_thread {
    struct shared *s;
    int id, failed;
    uint64_t want;
};

static void lock_release(void *arg)
{
    pthread_mutex_unlock(&((struct shared *)arg)->lock);
}

static void lock_acquire(void *arg)
{
    pthread_mutex_lock(&((struct shared *)arg)->lock);
}

static void count_for_thread(struct ranks_rank *r, int source, const void *data, size_t len)
{
    struct shared *s = r->state;
    (void)source, (void)len;
    s->counts[*(const unsigned char *)data]++;
}

static bool thread_has(void *arg)
{
    struct waiting_thread *t = arg;
    return t->s->counts[t->id] >= t->want;
}

static void *wait_for_mine(void *arg)
{
    struct waiting_thread *t = arg;
    for (int i = 0; i < 200 && !t->failed; i++) {
        lock_acquire(t->s);
        t->want++;
        t->failed = wr_waiter_wait(t->s->w, thread_has, t, wr_deadline(60000 * MS)) != WEIR_OK;
        unsigned char ack = (unsigned char)t->id;
        weir_error err;
        t->failed |= t->s->r->t->ops->am(t->s->r->t, 1, 3, &ack, 1, NULL, 0, 0, &err) != WEIR_OK;
        lock_release(t->s);
    }
    return NULL;
}

/* Rank 1 plays with each of rank 0's threads; every message is for one of them, whichever makes the progress. */
static void three_threads(struct ranks_rank *r)
{
    struct shared s = {.r = r};
    struct wr_config config = {.spin = 5000};
    struct wr_waiter_params p = {.config = &config, .transports = &r->t, .ntransports = 1, .node_size = 2,
                                 .release = lock_release, .acquire = lock_acquire, .arg = &s};
    struct waiting_thread threads[3];
    pthread_t thread[3];
    pthread_mutex_init(&s.lock, NULL);
    RANKS_OK(r, wr_waiter_create(&p, &s.w, err));
    r->state = &s;
    r->handler = count_for_thread;
    ranks_barrier(r);
    if (!r->rank) {
        for (int i = 0; i < 3; i++) {
            threads[i] = (struct waiting_thread){.s = &s, .id = i};
            pthread_create(&thread[i], NULL, wait_for_mine, &threads[i]);
        }
        int failed = 0;
        for (int i = 0; i < 3; i++) {
            pthread_join(thread[i], NULL);
            failed |= threads[i].failed;
        }
        RANKS_CHECK(r, !failed, "a thread waited in vain");
    } else {
        uint64_t random = 7;
        lock_acquire(&s);
        for (uint64_t i = 1; i <= 200; i++) {
            for (int k = 0; k < 3; k++) {
                unsigned char id = (unsigned char)k;
                RANKS_OK(r, r->t->ops->am(r->t, 0, 3, &id, 1, NULL, 0, 0, err));
                dawdle(&random, 1024);
            }
            for (int k = 0; k < 3; k++) {
                struct waiting_thread me = {.s = &s, .id = k, .want = i};
                RANKS_CHECK(r, wr_waiter_wait(s.w, thread_has, &me, wr_deadline(60000 * MS)) == WEIR_OK, "no answer");
            }
        }
        lock_release(&s);
    }
    r->handler = NULL;
    wr_waiter_destroy(s.w);
}

static void threads_of_one_rank_wait_together(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, 1, NULL, three_threads), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_ends_a_wait),
        cmocka_unit_test(a_kick_ends_a_wait),
        cmocka_unit_test(a_transport_without_descriptor_is_polled),
        cmocka_unit_test(one_long_turn_is_soon_forgotten),
        cmocka_unit_test(no_wake_up_is_lost_between_processes),
        cmocka_unit_test(no_wake_up_is_lost_between_threads),
        cmocka_unit_test(a_sender_sleeps_until_there_is_room),
        cmocka_unit_test(threads_of_one_rank_wait_together),
    };
    if (argc > 1) /* seconds for each of the four searches, instead of one */
        search_ns = atoi(argv[1]) * 1000 * MS;
    return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
