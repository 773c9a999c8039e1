/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broken plans in the executor: each step of a seeded selection is dropped or changed in one program, the verifier is asked,
 * and all ranks execute the plan on their memory, each in turn starting late or being slow. What the verifier passes must give
 * the right results; a dropped or changed step that it catches must give wrong ones, hang or be refused: nearly always, as a
 * signal that nobody misses, or a missing wait, is a race that need not be lost each time.
 *
 * All ranks share a page, on which they count what they move: when nothing has moved anywhere for a while in which each rank
 * has looked again and again, the plan hangs.
 *
 * usage: mutants_test BOARD [-s SEED] [-k MUTANTS] [-h] [-i]: BOARD is a file that is the page; -k: of each algorithm;
 * -h: in heap memory, else in memory that peers know; -i: in place
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/coll/coll.h"
#include "comm/mem/steps.h"
#include "comm/plan/exec_impl.h"
#include "tests/unit/plan_mutate.h"
#include "tests/unit/plan_run.h"

#include "tests/multi/multi.h" /* its variables would hide behind parameters of the headers above */

enum { RANKS = 16, EXECUTIONS = 4, COUNT = 5, SLACK = 4096, AREA = 1 << 16 };
enum { QUIET_NS = 15000000, QUIET_LOOKS = 40, LATE_US = 300 };

struct board {
    struct {
        uint64_t moves, looks, started, done; /* done: mutants */
        char line[96]; /* so that ranks do not share one */
    } rank[RANKS];
};

/* What happened to the mutants of one kind. */
struct tally {
    unsigned tried, caught, failed;
};

enum kind { DATA, SIGNAL, WAIT, KINDS };
static const char *const kind_name[KINDS] = {"data", "signals", "waits"};

static volatile struct board *board;
static uint64_t seed = 1, mutants = 12, serial;
static bool heap, in_place;
static weir_mem *memory;
static char *area;                          /* OUT, and behind it IN */
static const struct wr_program *next_build; /* what the algorithm of the test builds at this rank */

static unsigned pick(unsigned below)
{
    return plan_random(&seed, below);
}

/* ---- the algorithm of the test ---- */

static weir_status build(const struct wr_plan_spec *spec, int me, struct wr_program *p, weir_error *err)
{
    (void)spec;
    (void)me;
    plan_copy(p, next_build, UINT32_MAX);
    return wr_program_finish(p, err);
}

static const struct wr_algorithm given = {.name = "given", .build = build};

/* A program that is never executed: it signals and waits for everybody in all the slots that a mutant may use. */
static void build_wide(const struct wr_program *programs, struct wr_program *wide)
{
    uint32_t slots = 0;
    uint64_t scratch = 0;
    for (int r = 0; r < size; r++) {
        scratch = WR_MAX(scratch, programs[r].scratch);
        for (uint32_t i = 0; i < programs[r].nsteps; i++)
            slots = WR_MAX(slots, programs[r].steps[i].slot + 2);
    }
    wr_program_init(wide, rank);
    for (int peer = 0; peer < size; peer++)
        for (uint32_t slot = 0; slot < slots; slot++) {
            wr_program_signal(wide, peer, slot);
            wr_program_wait(wide, peer, slot, 1);
        }
    wide->scratch = scratch + SLACK;
}

/* ---- one plan ---- */

struct plan {
    struct wr_plan_spec spec;
    struct wr_program *programs;
    struct wr_kernel kernel;
    struct wr_exec_where where[RANKS];
    uint64_t *in, *out;
    struct wr_exec *exec;
};

static uint64_t in_begins(const struct plan *p, int r)
{
    return plan_in_place(&p->spec, r) ? wr_plan_in_offset(&p->spec, r) * 8 : AREA;
}

static void make_exec(struct plan *p)
{
    weir_error err;
    struct wr_program wide;
    struct wr_exec_params params = {.comm = comm,
                                    .spec = &p->spec,
                                    .algorithm = &given,
                                    .kernel = p->spec.reduces ? &p->kernel : NULL,
                                    .divide_by = 1,
                                    .in_mem = memory,
                                    .out_mem = memory,
                                    .in_offset = in_begins(p, rank)};
    build_wide(p->programs, &wide);
    next_build = &wide;
    struct wr_exec_making *making = NULL;
    weir_status status = wr_exec_make(&params, &making, &err);
    if (!status)
        status = wr_steps_run(wr_exec_making_steps(making), &err);
    CHECK(!status, "wr_exec_make: %s", err.message);
    p->exec = wr_exec_made(making, true);
    wr_program_free(&wide);
}

/* After an execution that may have ended badly: nothing is on its way any more when all ranks are through this. */
static void end_exec(struct plan *p)
{
    weir_error err;
    wr_exec_break(p->exec, WEIR_ERR_CANCELED);
    while (!wr_exec_is_quiet(p->exec))
        wr_engine_progress(comm->engine);
    weir_status status = wr_mem_flush(p->exec->mem, -1, &err);
    if (!status)
        status = wr_exchange_barrier(comm, &err);
    CHECK(!status, "the end of a plan: %s", err.message);
    wr_exec_abandon(p->exec);
}

/* ---- an execution ---- */

struct quiet {
    uint64_t moves, looks[RANKS];
    int64_t since;
};

static bool nothing_moves(struct quiet *q)
{
    uint64_t moves = 0;
    bool all_looked = true;
    for (int r = 0; r < size; r++) {
        moves += board->rank[r].moves;
        all_looked = all_looked && board->rank[r].looks > q->looks[r] + QUIET_LOOKS;
    }
    if (moves == q->moves && q->since)
        return all_looked && wr_clock_ns() - q->since > QUIET_NS;
    q->moves = moves;
    q->since = wr_clock_ns();
    for (int r = 0; r < size; r++)
        q->looks[r] = board->rank[r].looks;
    return false;
}

static void look(struct wr_exec *x)
{
    board->rank[rank].moves += x ? wr_exec_progress(x) : 0;
    wr_engine_progress(comm->engine);
    board->rank[rank].looks++;
    if (board->rank[rank].looks % 16 == 0)
        sched_yield();
}

static void fill_buffers(struct plan *p, uint32_t e)
{
    for (uint64_t i = 0; i < wr_plan_out_len(&p->spec, rank); i++)
        p->out[i] = 0xdeadbeef;
    for (uint64_t i = 0; i < wr_plan_in_len(&p->spec, rank); i++)
        p->in[i] = plan_input(rank, i, e);
}

static bool right(const struct plan *p, uint32_t e)
{
    for (uint64_t i = 0; i < wr_plan_out_len(&p->spec, rank); i++)
        if (p->out[i] != plan_result(&p->spec, rank, i, e) && !(p->spec.coll == WR_COLL_EXSCAN && rank == 0))
            return false;
    for (int r = 0; r < size && p->spec.coll == WR_COLL_BARRIER; r++)
        if (board->rank[r].started < serial * EXECUTIONS + e)
            return false;
    return true;
}

/* Some executions in a row; false when they hang. *wrong: a result was. */
static bool run_all(struct plan *p, bool *wrong)
{
    struct quiet q = {0};
    for (uint32_t e = 0; e < EXECUTIONS; e++) {
        bool late = (int)(e % (unsigned)size) == rank, slow = (int)((e + 1) % (unsigned)size) == rank;
        fill_buffers(p, e);
        if (late)
            usleep(LATE_US);
        board->rank[rank].moves++;
        board->rank[rank].started = serial * EXECUTIONS + e;
        wr_exec_start(p->exec, p->in, p->out);
        while (!wr_exec_done(p->exec)) {
            look(p->exec);
            if (slow)
                usleep(LATE_US / 10);
            if (nothing_moves(&q))
                return false;
        }
        if (wr_exec_status(p->exec)) {
            *wrong = true;
            return true;
        }
        *wrong = *wrong || !right(p, e);
    }
    return true;
}

/* Goes on looking until all ranks have ended theirs. */
static bool run_until_all_have(struct plan *p, bool *wrong)
{
    struct quiet q = {0};
    bool ended = run_all(p, wrong), all = false;
    board->rank[rank].moves++;
    board->rank[rank].done = serial;
    while (!all) {
        all = true;
        for (int r = 0; r < size; r++)
            all = all && board->rank[r].done == serial;
        look(NULL);
        if (!all && nothing_moves(&q))
            ended = false;
    }
    return ended;
}

/* Executes what p->programs have; true when all results are right at all ranks. Starts with a fresh p->exec, and ends it. */
static bool execute(struct plan *p)
{
    weir_error err;
    bool wrong = false;
    serial++;
    make_exec(p);
    next_build = &p->programs[rank];
    weir_status refused = wr_exec_reshape(p->exec, &p->spec, &err);
    refused = wr_exchange_agree(comm, refused, &err);
    bool ended = false;
    if (!refused) {
        wr_exec_rebind(p->exec, memory, memory, p->where);
        ended = run_until_all_have(p, &wrong);
    }
    weir_status mine = !refused && ended && !wrong ? WEIR_OK : wr_error_set(&err, WEIR_ERR_INTERNAL, NULL, "no");
    mine = wr_exchange_agree(comm, mine, &err);
    end_exec(p);
    return !mine;
}

/* ---- mutants ---- */

static enum kind kind_of(const struct wr_step *s)
{
    return s->op == WR_STEP_WAIT || s->op == WR_STEP_DRAIN ? WAIT : s->op == WR_STEP_SIGNAL ? SIGNAL : DATA;
}

static void try_mutant(struct plan *p, const char *name, struct tally *tally)
{
    int victim = (int)pick((unsigned)size);
    struct wr_program whole = p->programs[victim], *mutant = &p->programs[victim];
    weir_error err;
    char words[256];
    if (!whole.nsteps)
        return;
    uint32_t step = pick(whole.nsteps);
    enum plan_mutation how = (enum plan_mutation)pick(PLAN_MUTATIONS);
    plan_copy(mutant, &whole, how == PLAN_DROP ? step : UINT32_MAX);
    if (how == PLAN_DROP || plan_mutate(mutant, step, how, size)) {
        struct tally *t = &tally[kind_of(&whole.steps[step])];
        bool caught = wr_verify_programs(&p->spec, p->programs, NULL, &err) != WEIR_OK, failed = !execute(p);
        CHECK(caught || !failed, "%s: mutation %d of step %u (op %d) of rank %d passes the verifier and fails in execution",
              plan_words(&p->spec, name, words), (int)how, step, whole.steps[step].op, victim);
        if (rank == 0 && caught && !failed && getenv("TEST_VERBOSE"))
            printf("%s: mutation %d of step %u (op %d) of rank %d is caught by the verifier only: %s\n",
                   plan_words(&p->spec, name, words), (int)how, step, whole.steps[step].op, victim, err.message);
        t->tried++;
        t->caught += caught;
        t->failed += caught && failed;
    }
    wr_program_free(mutant);
    *mutant = whole;
}

static void try_algorithm(const struct wr_algorithm *a, struct tally *tally)
{
    char words[256];
    weir_error err;
    struct plan p = {.spec = {.coll = a->coll,
                              .topo = &comm->coll->topo,
                              .count = COUNT,
                              .elem_size = 8,
                              .partial_size = 8,
                              .chunk = 2,
                              .in_mapped = !heap,
                              .out_mapped = !heap,
                              .out_remote = !heap && comm->nnodes > 1,
                              .in_place = in_place,
                              .root = size - 1,
                              .reduces = plan_reduces(a->coll)}};
    if (!a->applies(&p.spec))
        return;
    CHECK(wr_kernel_find(WEIR_UINT64, WEIR_SUM, NULL, &p.kernel), "no kernel");
    for (int r = 0; r < size; r++)
        p.where[r] = (struct wr_exec_where){.in_offset = in_begins(&p, r)};
    p.out = (uint64_t *)(void *)area;
    p.in = (uint64_t *)(void *)(area + in_begins(&p, rank));
    weir_status status = wr_programs_build(&p.spec, a, &p.programs, &err);
    CHECK(!status, "%s: %s", plan_words(&p.spec, a->name, words), err.message);
    CHECK(execute(&p), "%s is wrong in execution", plan_words(&p.spec, a->name, words));
    for (uint64_t i = 0; i < mutants; i++)
        try_mutant(&p, a->name, tally);
    wr_programs_free(p.programs, size);
}

static void options(int argc, char **argv)
{
    int c, fd;
    while ((c = getopt(argc, argv, "s:k:hi")) != -1) {
        if (c == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (c == 'k')
            mutants = strtoull(optarg, NULL, 0);
        else if (c == 'h')
            heap = true;
        else
            in_place = true;
    }
    fd = optind < argc ? open(argv[optind], O_RDWR | O_CREAT, 0600) : -1;
    CHECK(fd >= 0 && !ftruncate(fd, sizeof *board), "no board");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(board != MAP_FAILED, "no board");
    close(fd);
}

int main(int argc, char **argv)
{
    struct tally tally[KINDS] = {{0}};
    start();
    CHECK(size <= RANKS, "too many ranks");
    options(argc, argv);
    if (heap)
        area = calloc(1, 2 * AREA);
    else
        OK(weir_mem_alloc(comm, 2 * AREA, 0, &memory));
    area = heap ? area : weir_mem_ptr(memory);
    CHECK(area, "no memory");
    wr_engine_lock(comm->engine);
    for (int i = 0; wr_algorithms[i]; i++)
        try_algorithm(wr_algorithms[i], tally);
    wr_engine_unlock(comm->engine);
    for (int k = 0; k < KINDS && rank == 0; k++)
        printf("%s: %u mutants, %u caught by the verifier, %u of these fail in execution\n", kind_name[k], tally[k].tried,
               tally[k].caught, tally[k].failed);
    for (int k = 0; k < KINDS; k++)
        CHECK(tally[k].failed * 100 >= tally[k].caught * (k == WAIT ? 60u : 90u), "too many mutants of %s pass in execution",
              kind_name[k]);
    if (memory)
        OK(weir_mem_free(memory));
    else
        free(area);
    finish("broken plans");
    return 0;
}
