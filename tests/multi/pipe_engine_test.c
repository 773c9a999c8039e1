/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipeline engine: every schedule, with ZeRO inside and without, under hostile timing, several steps. Each callback knows from
 * the numbers of its micro-batch and part what it must be given, so every element of every message is checked, again when
 * the buffer is used for the last time. The trace must be the list, and the peaks those of the checker.
 *
 * pipe_engine_test run|twins|fail|lost|different|refused
 */
#include <signal.h>
#include <time.h>

#include "tests/multi/multi.h"

enum { STEPS = 3, CHUNKS = 4 };

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6))) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 29;
}

/* One stage of a pipeline, and what it sees. */
struct stage {
    weir_pipe_lists lists;
    int64_t parts, stage;
    int64_t words[2];           /* of an activation and of a gradient */
    uint64_t seed;              /* of the delays; 0: none */
    int64_t executed;           /* instructions */
    int64_t computed;           /* the list's compute instruction that is next */
    int64_t fail_at;            /* that many computations go well; -1: all */
    bool dies;                  /* and then the process is killed */
    bool gathered[CHUNKS], ready[CHUNKS], reducing[CHUNKS];
    int reduced, gathers;
};

static uint64_t act_of(const struct stage *s, int64_t part, int64_t micro, int64_t word)
{
    uint64_t x = mix((uint64_t)micro + 1, (uint64_t)word);
    (void)s;
    for (int64_t p = 0; p <= part; p++)
        x = mix(x, (uint64_t)p);
    return x;
}

static uint64_t grad_of(const struct stage *s, int64_t part, int64_t micro, int64_t word)
{
    uint64_t x = mix((uint64_t)micro + 7, (uint64_t)word);
    for (int64_t p = s->parts - 1; p >= part; p--)
        x = mix(x, (uint64_t)p);
    return x;
}

static void look(const struct stage *s, const void *buffer, bool gradient, int64_t part, int64_t micro, const char *what)
{
    const uint64_t *words = buffer;
    for (int64_t i = 0; i < s->words[gradient]; i++) {
        uint64_t wanted = gradient ? grad_of(s, part, micro, i) : act_of(s, part, micro, i);
        CHECK(words[i] == wanted, "%s of part %d, micro-batch %d is wrong at %d", what, (int)part, (int)micro, (int)i);
    }
}

static void make(const struct stage *s, void *buffer, bool gradient, int64_t part, int64_t micro)
{
    uint64_t *words = buffer;
    CHECK((uintptr_t)buffer % 64 == 0, "a buffer is not aligned");
    for (int64_t i = 0; i < s->words[gradient]; i++)
        words[i] = gradient ? grad_of(s, part, micro, i) : act_of(s, part, micro, i);
}

static void delay(struct stage *s)
{
    if (!s->seed)
        return;
    s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
    struct timespec t = {.tv_nsec = (long)(s->seed >> 33) % 300000};
    if (s->seed >> 62 == 0)
        nanosleep(&t, NULL);
}

static weir_status compute(void *user, weir_pipe_op op, const weir_pipe_work *w)
{
    struct stage *s = user;
    const weir_pipe_instr *list = s->lists.instrs[s->stage];
    while (list[s->computed].op > WEIR_PIPE_OP_B)
        s->computed++;
    const weir_pipe_instr *i = &list[s->computed++];
    CHECK(i->op == (int32_t)op && i->micro == w->micro && i->chunk == w->chunk, "it computes another than the list says");
    CHECK(w->part == weir_pipe_part(s->lists.placement, s->lists.stages, s->stage, w->chunk), "part %d", (int)w->part);
    CHECK(op == WEIR_PIPE_OP_W || !s->lists.zero || s->ready[w->chunk], "chunk %d is not gathered", (int)w->chunk);
    bool forward = op == WEIR_PIPE_OP_F, input = op == WEIR_PIPE_OP_I || op == WEIR_PIPE_OP_B, last = w->part == s->parts - 1;
    CHECK((w->input == NULL) == (w->part == 0), "input");
    CHECK((w->output != NULL) == (forward && !last), "output");
    CHECK((w->grad_output != NULL) == (!forward && !last), "gradient of the output");
    CHECK((w->grad_input != NULL) == (input && w->part > 0), "gradient of the input");
    if (s->fail_at >= 0 && s->fail_at-- == 0) {
        if (s->dies)
            raise(SIGKILL);
        return WEIR_ERR_IO;
    }
    if (w->output)
        make(s, w->output, false, w->part, w->micro);
    if (w->grad_input)
        make(s, w->grad_input, true, w->part, w->micro);
    delay(s);
    if (w->input)
        look(s, w->input, false, w->part - 1, w->micro, "the activation");
    if (w->grad_output)
        look(s, w->grad_output, true, w->part + 1, w->micro, "the gradient");
    return WEIR_OK;
}

static weir_status shard(void *user, weir_pipe_op op, int64_t chunk)
{
    struct stage *s = user;
    if (op == WEIR_PIPE_OP_REDUCE_GRAD) {
        s->reducing[chunk] = true;
        return WEIR_OK;
    }
    CHECK(s->gathered[chunk] == (op == WEIR_PIPE_OP_RESHARD), "chunk %d", (int)chunk);
    CHECK(op == WEIR_PIPE_OP_UNSHARD || s->ready[chunk], "chunk %d is dropped before it was there", (int)chunk);
    s->gathered[chunk] = op == WEIR_PIPE_OP_UNSHARD;
    s->ready[chunk] = false;
    s->gathers += s->gathered[chunk];
    return WEIR_OK;
}

static weir_status ready(void *user, weir_pipe_op op, int64_t chunk)
{
    struct stage *s = user;
    if (op == WEIR_PIPE_OP_REDUCE_GRAD) {
        CHECK(s->reducing[chunk], "chunk %d was not being reduced", (int)chunk);
        s->reducing[chunk] = false;
        s->reduced++;
    } else {
        CHECK(s->gathered[chunk] && !s->ready[chunk], "chunk %d", (int)chunk);
        s->ready[chunk] = true;
    }
    return WEIR_OK;
}

static void executed(void *user, int64_t index, const weir_pipe_instr *instr)
{
    struct stage *s = user;
    CHECK(index == s->executed++, "instruction %d was executed after %d", (int)index, (int)s->executed - 1);
    CHECK(!memcmp(instr, &s->lists.instrs[s->stage][index], sizeof *instr), "another instruction was executed");
}

/* One pipeline of `stages` ranks, this rank being one of them. */
struct pipeline {
    struct stage stage;
    weir_pipe *pipe;
    weir_pipe_engine *engine;
    weir_error error;
};

static weir_status pipeline_create(struct pipeline *p, const weir_pipe_options *o, const int *ranks, uint64_t act, uint64_t grad)
{
    weir_pipe_callbacks calls = WEIR_PIPE_CALLBACKS_INIT;
    weir_pipe_engine_options options = WEIR_PIPE_ENGINE_OPTIONS_INIT;
    memset(p, 0, sizeof *p);
    CHECK(weir_pipe_create(o, &p->pipe, &p->error) == WEIR_OK, "%s", p->error.message);
    p->stage.lists.size = sizeof p->stage.lists;
    weir_pipe_get_lists(p->pipe, &p->stage.lists);
    p->stage.parts = p->stage.lists.stages * p->stage.lists.chunks;
    p->stage.fail_at = -1;
    for (int s = 0; s < o->stages; s++)
        if ((ranks ? ranks[s] : s) == rank)
            p->stage.stage = s;
    p->stage.words[0] = (int64_t)act / 8;
    p->stage.words[1] = (int64_t)(grad ? grad : act) / 8;
    calls.user = &p->stage;
    calls.compute = compute;
    calls.shard = shard;
    calls.ready = ready;
    calls.executed = executed;
    options.ranks = ranks;
    options.activation_bytes = act;
    options.gradient_bytes = grad;
    return weir_pipe_engine_create(comm, p->pipe, &options, &calls, &p->engine, &p->error);
}

static void pipeline_destroy(struct pipeline *p)
{
    weir_pipe_engine_destroy(p->engine);
    weir_pipe_destroy(p->pipe);
}

static void pipeline_start(struct pipeline *p, uint64_t seed)
{
    struct stage *s = &p->stage;
    s->executed = s->computed = 0;
    s->seed = seed;
    s->reduced = s->gathers = 0;
    memset(s->gathered, 0, sizeof s->gathered);
    memset(s->ready, 0, sizeof s->ready);
}

static void run_one(const weir_pipe_options *o, const int *ranks, uint64_t act, uint64_t grad)
{
    struct pipeline p;
    weir_pipe_stage_report *stages = calloc((size_t)o->stages, sizeof *stages);
    weir_pipe_engine_report r = {.size = sizeof r};
    CHECK(pipeline_create(&p, o, ranks, act, grad) == WEIR_OK, "%s", p.error.message);
    struct stage *s = &p.stage;
    CHECK(weir_pipe_check(&s->lists, NULL, stages, &p.error) == WEIR_OK, "%s", p.error.message);
    for (int step = 0; step < STEPS; step++) {
        pipeline_start(&p, step == 1 ? 0 : (uint64_t)(rank * 131 + step + 1) * 2654435761u);
        weir_status status = weir_pipe_engine_run(p.engine, &p.error);
        CHECK(status == WEIR_OK, "%s, step %d: %s", weir_pipe_schedule_name(o->schedule), step, p.error.message);
        CHECK(s->executed == s->lists.lengths[s->stage], "%d instructions were executed", (int)s->executed);
        CHECK(s->reduced == s->lists.chunks, "%d chunks were reduced", s->reduced);
        weir_pipe_engine_get_report(p.engine, &r);
        const weir_pipe_stage_report *proven = &stages[s->stage];
        CHECK(r.stage == s->stage && r.activations == proven->activations && r.unsharded == proven->unsharded,
              "%s: %d activations and %d gathered chunks were held, %d and %d are proven", weir_pipe_schedule_name(o->schedule),
              (int)r.activations, (int)r.unsharded, (int)proven->activations, (int)proven->unsharded);
        CHECK(r.compute_ns + r.wait_ns <= r.total_ns && r.buffer_bytes > 0, "times");
    }
    pipeline_destroy(&p);
    free(stages);
}

static void run_all(int stages, const int *ranks)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    o.stages = stages;
    for (o.schedule = 0; weir_pipe_schedule_name(o.schedule); o.schedule++) {
        bool takes = o.schedule == WEIR_PIPE_INTERLEAVED || o.schedule == WEIR_PIPE_LOOPED_BFS;
        for (int k = 0; k < 3; k++) {
            o.microbatches = k == 0 ? 1 : k == 1 ? 7 : 2 * stages;
            o.chunks = takes && k ? k + 1 : 0;
            o.zero = k == 1 ? 3 : k;
            o.buffers = takes ? 0 : k;
            run_one(&o, ranks, k == 1 ? 40000 : 64, k == 2 ? 24 : 0);
        }
    }
    o.schedule = WEIR_PIPE_1F1B;
    o.buffers = 3;
    run_one(&o, ranks, 1 << 20, 0); /* long messages */
    o.schedule = WEIR_PIPE_GPIPE;
    o.microbatches = o.buffers = 24;
    o.zero = 0;
    run_one(&o, ranks, 640, 0); /* many under way at once */
}

/* A callback fails on one stage: all stages end, in this run or the next, and say who it was. */
static void fail_one(int64_t schedule, int stage, int64_t after)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    struct pipeline p;
    weir_status status = WEIR_OK;
    char words[64];
    o.schedule = schedule;
    o.stages = size;
    o.microbatches = 4;
    CHECK(pipeline_create(&p, &o, NULL, 4000, 0) == WEIR_OK, "%s", p.error.message);
    p.stage.fail_at = stage == rank ? after : -1;
    for (int step = 0; step < 4 && status == WEIR_OK; step++) {
        pipeline_start(&p, 0);
        status = weir_pipe_engine_run(p.engine, &p.error);
    }
    snprintf(words, sizeof words, "stage %d", stage);
    CHECK(status == (stage == rank ? WEIR_ERR_IO : WEIR_ERR_CANCELED), "status %d: %s", status, p.error.message);
    CHECK(strstr(p.error.message, words) && p.error.rank == stage, "'%s' does not name %s", p.error.message, words);
    CHECK(weir_pipe_engine_run(p.engine, &p.error) == status, "a failed engine runs");
    pipeline_destroy(&p);
}

static void fail_all(void)
{
    for (int64_t schedule = 0; weir_pipe_schedule_name(schedule); schedule++)
        for (int stage = 0; stage < size; stage++) {
            fail_one(schedule, stage, 0);
            fail_one(schedule, stage, 7);
            fail_one(schedule, stage, 19);
        }
}

/* A stage is killed: the others end, some because of the lost peer and some because a stage that lost it tells them. */
static void lose_one(void)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    struct pipeline p;
    weir_status status = WEIR_OK;
    o.schedule = WEIR_PIPE_1F1B;
    o.stages = size;
    o.microbatches = 6;
    CHECK(pipeline_create(&p, &o, NULL, 4000, 0) == WEIR_OK, "%s", p.error.message);
    p.stage.dies = true;
    p.stage.fail_at = rank == size / 2 ? 15 : -1;
    for (int step = 0; step < 4 && status == WEIR_OK; step++) {
        pipeline_start(&p, 0);
        status = weir_pipe_engine_run(p.engine, &p.error);
    }
    CHECK(status == WEIR_ERR_PEER_LOST || status == WEIR_ERR_CANCELED, "status %d: %s", status, p.error.message);
    pipeline_destroy(&p);
    printf("PASS: rank %d: %s\n", rank, p.error.message);
    fflush(stdout);
    weir_finalize(ctx);
    exit(0);
}

/* Ranks that do not agree are told so, all of them. */
static void different(void)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    struct pipeline p;
    o.schedule = WEIR_PIPE_1F1B;
    o.stages = size;
    o.microbatches = rank == size - 1 ? 5 : 4;
    CHECK(pipeline_create(&p, &o, NULL, 64, 0) == WEIR_ERR_MISMATCH, "%s", p.error.message);
    pipeline_destroy(&p);
    o.microbatches = 4;
    CHECK(pipeline_create(&p, &o, NULL, rank ? 64 : 128, 0) == WEIR_ERR_MISMATCH, "%s", p.error.message);
    pipeline_destroy(&p);
}

/* What one rank cannot do, none does. */
static void refused(void)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    int *ranks = calloc((size_t)size, sizeof *ranks);
    struct pipeline p;
    o.schedule = WEIR_PIPE_GPIPE;
    o.stages = size;
    o.microbatches = 2;
    weir_status status = pipeline_create(&p, &o, NULL, rank ? 64 : 0, 0);
    CHECK(status == (rank ? WEIR_ERR_CANCELED : WEIR_ERR_INVALID), "%d: %s", status, p.error.message);
    pipeline_destroy(&p);
    status = pipeline_create(&p, &o, ranks, 64, 0); /* all stages are rank 0 */
    CHECK(size == 1 ? status == WEIR_OK : status == WEIR_ERR_INVALID, "%d: %s", status, p.error.message);
    pipeline_destroy(&p);
    for (int s = 0; s < size; s++)
        ranks[s] = size - s;
    CHECK(pipeline_create(&p, &o, ranks, 64, 0) == WEIR_ERR_INVALID, "%s", p.error.message);
    pipeline_destroy(&p);
    free(ranks);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "run";
    start();
    if (!strcmp(what, "run")) {
        run_all(size, NULL);
    } else if (!strcmp(what, "twins")) { /* two pipelines in one communicator, in opposite directions */
        int ranks[64], stages = size / 2;
        CHECK(size % 2 == 0 && size <= 64, "twins need an even number of ranks");
        for (int s = 0; s < stages; s++)
            ranks[s] = rank % 2 ? size - 1 - 2 * s : 2 * s;
        run_all(stages, ranks);
    } else if (!strcmp(what, "fail")) {
        fail_all();
    } else if (!strcmp(what, "lost")) {
        lose_one();
    } else if (!strcmp(what, "different")) {
        different();
    } else {
        refused();
    }
    finish(what);
    return 0;
}
