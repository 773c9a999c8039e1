/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that dies while bytes are on their way to it: over TCP libfabric sees it, and every operation ends. */
#include "tests/unit/ofi_world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 32 << 20, PUTS = 4 };

struct meeting {
    struct world_address address[2];
    char key[WR_KEY_MAX];
    size_t key_len;
    unsigned ready; /* bits of the ranks whose part above is filled in */
    unsigned end;
};

static bool met(struct meeting *m, unsigned bits)
{
    int64_t deadline = wr_deadline(20000000000);
    while ((wr_load_acquire(&m->ready) & bits) != bits) {
        if (wr_deadline_passed(deadline))
            return false;
        usleep(1000);
    }
    return true;
}

/* One rank of a world of which the other is another process. */
static bool half_open(struct world *w, int rank, const char *provider, struct meeting *m)
{
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    char text[64];
    weir_error err;
    struct wr_transport_params p;
    snprintf(text, sizeof text, "OFI_PROVIDER=%s", provider);
    const char *overrides[] = {text, NULL};
    memset(w, 0, sizeof *w);
    w->size = 2;
    w->numa = -1;
    if (wr_config_load(&w->config, &env, overrides, &err))
        return false;
    world_params(w, 0, &p);
    world_params(w, 1, &p);
    world_params(w, rank, &p);
    if (wr_ofi_ops.open(&p, &w->rank[rank], &err))
        return false;
    m->address[rank].len = sizeof m->address[rank].data;
    return !wr_ofi_ops.address(w->rank[rank], m->address[rank].data, &m->address[rank].len, &err);
}

static void half_meet(struct world *w, int rank, struct meeting *m)
{
    __atomic_fetch_or(&m->ready, 1u << rank, __ATOMIC_ACQ_REL);
    if (met(m, 3))
        memcpy(w->address, m->address, sizeof w->address[0] * 2);
}

/* The victim: answers until it is told to stand still, so that the puts do not get through. */
static void victim(const char *provider, struct meeting *m)
{
    static struct world w;
    struct wr_region *region;
    weir_error err;
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m->key_len = sizeof m->key;
    if (!half_open(&w, 1, provider, m) ||
        wr_ofi_ops.reg(w.rank[1], memory, BYTES, WR_REG_REMOTE_WRITE, &region, &err) ||
        wr_ofi_ops.key_export(w.rank[1], region, m->key, &m->key_len, &err))
        _exit(77);
    half_meet(&w, 1, m);
    while (!wr_load_acquire(&m->end))
        wr_ofi_ops.progress(w.rank[1]);
    for (;;)
        pause();
}

static void survive(const char *provider)
{
    struct meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct world w;
    struct world_op put[PUTS], first, flush = {.op.done = world_done};
    struct wr_region *region;
    struct wr_rkey *rkey;
    weir_error err;
    int status;
    pid_t child = fork();
    if (!child)
        victim(provider, m);
    if (!half_open(&w, 0, provider, m)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        munmap(m, sizeof *m);
        return;
    }
    half_meet(&w, 0, m);
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ok(wr_ofi_ops.reg(w.rank[0], memory, BYTES, 0, &region, &err), &err);
    assert_ok(wr_ofi_ops.key_import(w.rank[0], 1, m->key, m->key_len, &rkey, &err), &err);
    world_call(&w, &first, wr_ofi_ops.put(w.rank[0], 1, memory, region, 100000, rkey, 0, 0, &first.op, &err));
    wr_store_release(&m->end, 1);
    usleep(10000);
    for (int i = 0; i < PUTS; i++) {
        put[i] = (struct world_op){.op.done = world_done};
        weir_status s = wr_ofi_ops.put(w.rank[0], 1, memory, region, BYTES, rkey, 0, 0, &put[i].op, &err);
        assert_int_equal(s, WEIR_IN_PROGRESS);
    }
    assert_int_equal(wr_ofi_ops.flush(w.rank[0], 1, &flush.op, &err), WEIR_IN_PROGRESS);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int i = 0; i < PUTS; i++) {
        world_until(&w, put[i].done);
        assert_int_equal(put[i].status, WEIR_ERR_PEER_LOST);
    }
    world_until(&w, flush.done);
    assert_int_equal(flush.status, WEIR_ERR_PEER_LOST);
    assert_int_equal(w.lost[0], 1);
    assert_int_equal(wr_ofi_ops.am(w.rank[0], 1, 1, "xxxx", 4, NULL, 0, 0, &err), WEIR_ERR_PEER_LOST);
    wr_ofi_ops.key_close(w.rank[0], rkey);
    wr_ofi_ops.dereg(w.rank[0], region);
    wr_ofi_ops.close(w.rank[0]);
    wr_config_free(&w.config);
    munmap(memory, BYTES);
    munmap(m, sizeof *m);
}

/* Each in a process of its own, so that nobody forks with libfabric's threads running. */
static void in_a_process(const char *provider)
{
    int status;
    pid_t child = fork();
    if (!child) {
        survive(provider);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void over_net(void **state)
{
    (void)state;
    in_a_process("net");
}

static void over_rxm(void **state)
{
    (void)state;
    in_a_process("tcp;ofi_rxm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_net),
        cmocka_unit_test(over_rxm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
