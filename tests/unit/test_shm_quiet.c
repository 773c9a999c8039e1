/* SPDX-License-Identifier: BSD-3-Clause */
/* Once two ranks know each other, messages, puts and signals between them allocate nothing and call no system. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/unit/shm_ranks.h"

/* The linker sends every allocation through these (-Wl,--wrap). */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);

static unsigned long allocations;
static volatile sig_atomic_t calls, last_call;

void *__wrap_malloc(size_t n)
{
    allocations++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
    allocations++;
    return __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
    allocations++;
    return __real_realloc(p, n);
}

static void trapped(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    calls++;
    last_call = info->si_syscall;
}

/* From here on every system call but exit traps. The look for dead peers, once in many milliseconds without any event, may
 * pass: on a loaded machine the partner is not always there. False where there is no such filter. */
static bool forbid_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait, 1, 0),
#ifdef SYS_epoll_wait
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_wait, 0, 1),
#else
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait, 0, 1),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {WR_ARRAY_SIZE(filter), filter};
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* One turn of everything, both ways. */
static bool turn(struct ranks_rank *r, struct wr_rkey *rkey, char *source, uint64_t n)
{
    static const uint64_t lens[] = {8, 100, 4000, 70000};
    struct wr_op op = {NULL};
    uint64_t len = lens[n % 4];
    weir_error err;
    weir_status a = r->t->ops->am(r->t, !r->rank, 3, source, len > 4000 ? 4000 : len, NULL, 0, 0, &err);
    weir_status b = r->t->ops->put_signal(r->t, !r->rank, source, NULL, len, rkey, n, 2, 0, &op, &err);
    weir_status c = r->t->ops->get(r->t, !r->rank, source, NULL, len, rkey, n, &op, &err);
    while (r->received < n || r->signals[2] < n) {
        if (wr_load_acquire(&r->world->failed))
            return false;
        r->t->ops->progress(r->t);
    }
    return !a && !b && !c;
}

/* What the two ranks found, for the message of a failure: turns, allocations, calls, the last call. */
static uint64_t *report;

static void be_quiet(struct ranks_rank *r)
{
    uint64_t bytes[2] = {1 << 20, 1 << 20}, n = 0;
    struct wr_shm_segment *seg;
    struct wr_region *region;
    struct wr_rkey *rkey;
    static char source[70000];
    RANKS_OK(r, wr_shm_segment_create(r->t, r->node_ranks, 2, bytes, 0, 0, &seg, err));
    RANKS_OK(r, r->t->ops->reg(r->t, wr_shm_segment_base(seg, r->rank), bytes[0], WR_REG_REMOTE_WRITE, &region, err));
    r->world->key_len[r->rank] = WR_KEY_MAX;
    RANKS_OK(r, r->t->ops->key_export(r->t, region, r->world->key[r->rank], &r->world->key_len[r->rank], err));
    ranks_barrier(r);
    RANKS_OK(r, r->t->ops->key_import(r->t, !r->rank, r->world->key[!r->rank], r->world->key_len[!r->rank], &rkey, err));
    while (n < 100)
        RANKS_CHECK(r, turn(r, rkey, source, ++n), "turn %llu", (unsigned long long)n);
    /* long enough for a look at the mail: what peers sent while connecting is taken in then, with calls */
    for (int64_t end = wr_clock_ns() + 100000000; wr_clock_ns() < end;)
        r->t->ops->progress(r->t);
    ranks_barrier(r);
    unsigned long before = allocations;
    if (!forbid_calls()) {
        r->world->word[0] = 1;
        _exit(0);
    }
    while (n < 1100)
        if (!turn(r, rkey, source, ++n))
            break;
    uint64_t *mine = report + 8 * r->rank;
    mine[0] = n;
    mine[1] = allocations - before;
    mine[2] = (uint64_t)calls;
    mine[3] = (uint64_t)last_call;
    bool good = n == 1100 && allocations == before && !calls;
    if (!good)
        wr_store_release(&r->world->failed, 1);
    /* who is done first stays until the other is: its end would be noticed, which takes calls */
    wr_store_release(&r->world->word[50 + r->rank], 1);
    while (!wr_load_acquire(&r->world->word[50 + !r->rank]) && !wr_load_acquire(&r->world->failed))
        wr_cpu_relax();
    _exit(good ? 0 : 10 + (calls ? last_call % 100 : 0));
}

static void the_steady_state_is_quiet(void **state)
{
    (void)state;
    report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(report != MAP_FAILED);
    if (ranks_run(2, 0, NULL, be_quiet))
        fail_msg("turns %llu and %llu, allocations %llu and %llu, system calls %llu and %llu, the last %llu and %llu",
                 (unsigned long long)report[0], (unsigned long long)report[8], (unsigned long long)report[1],
                 (unsigned long long)report[9], (unsigned long long)report[2], (unsigned long long)report[10],
                 (unsigned long long)report[3], (unsigned long long)report[11]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steady_state_is_quiet),
    };
    return cmocka_run_group_tests_name("shm_quiet", tests, NULL, NULL);
}
