/* SPDX-License-Identifier: BSD-3-Clause */
/* One training step: with the pipeline's engine, or micro-batch by micro-batch. */

#include "examples/gpt/random.h"
#include "examples/gpt/trainer.h"

/* The number of a micro-batch of this rank among those of all ranks in the step: pass by pass, in each of them rank by rank. */
static int64_t global_number(const struct gpt_trainer *t, int64_t number)
{
    int64_t pass = number / t->micros;
    return (pass * t->job->replicas + t->job->replica) * t->micros + number % t->micros;
}

/* Fills in what is special of a micro-batch: `number` of those of this rank in the step. */
static struct gpt_micro micro_of(const struct gpt_trainer *t, int64_t number)
{
    struct gpt_micro m = t->micro;
    int64_t first = number * m.pass.sequences;
    m.number = number;
    m.tokens = t->tokens + first * m.pass.length;
    m.targets = t->targets + first * m.pass.length;
    /* the engine takes the mean over all its ranks; those along sp are to be summed up */
    m.scale = t->losses ? 1 : (double)t->job->slices / (double)(t->per_rank * t->config.context);
    m.pass.training = true;
    m.pass.first = global_number(t, number) * m.pass.sequences;
    m.pass.dropout_key = gpt_key((uint64_t)t->options->seed + 1, (uint64_t)t->step);
    return m;
}

/* Computes what an instruction says. */
static weir_status compute(void *user, weir_pipe_op op, const weir_pipe_work *w)
{
    struct gpt_trainer *t = user;
    struct gpt_micro m = micro_of(t, t->run * t->micros + w->micro);
    struct gpt_part *part = &t->parts[w->chunk];
    if (op == WEIR_PIPE_OP_F)
        return gpt_part_forward(part, &m, w->input, w->output, t->losses ? &t->losses[global_number(t, m.number)] : &t->loss);
    enum gpt_back what = op == WEIR_PIPE_OP_I ? GPT_BACK_INPUT : op == WEIR_PIPE_OP_W ? GPT_BACK_WEIGHT : GPT_BACK_BOTH;
    if (t->shards.reproducible)
        gpt_leaves_begin(&t->shards.leaves, w->micro);
    weir_status status = gpt_part_back(part, &m, what, w->input, w->grad_output, w->grad_input);
    if (status == WEIR_OK && what & GPT_BACK_WEIGHT && t->shards.reproducible)
        gpt_leaves_end(&t->shards.leaves, part);
    return status;
}

/*
 * UNSHARD and RESHARD hold the units of a chunk between the computations that use them. Their gradients leave by themselves, after
 * the last use in a pass.
 */
static weir_status shard(void *user, weir_pipe_op op, int64_t chunk)
{
    struct gpt_trainer *t = user;
    weir_status status = WEIR_OK;
    if (op == WEIR_PIPE_OP_REDUCE_GRAD || t->options->zero < 3)
        return WEIR_OK;
    for (int b = t->parts[chunk].first; b < t->parts[chunk].last && status == WEIR_OK; b++) {
        uint64_t unit = (uint64_t)t->shards.local[2 + b];
        status = op == WEIR_PIPE_OP_UNSHARD ? weir_zero_before_forward(t->shards.zero, unit) : weir_zero_after_forward(t->shards.zero, unit);
    }
    return status;
}

static void executed(void *user, int64_t index, const weir_pipe_instr *instr)
{
    struct gpt_trainer *t = user;
    (void)index;
    gpt_trace_instruction(&t->trace, instr);
}

weir_status gpt_trainer_make_engine(struct gpt_trainer *t, weir_error *error)
{
    weir_pipe_engine_options options = WEIR_PIPE_ENGINE_OPTIONS_INIT;
    weir_pipe_callbacks calls = WEIR_PIPE_CALLBACKS_INIT;
    options.activation_bytes = (uint64_t)(gpt_pass_own(&t->micro.pass, NULL) * t->config.width) * sizeof(real);
    calls.user = t;
    calls.compute = compute;
    calls.shard = shard;
    calls.executed = t->options->trace ? executed : NULL;
    return weir_pipe_engine_create(t->job->pp, t->pipe, &options, &calls, &t->engine, error);
}

/* A pass without pipeline: one micro-batch. */
static weir_status one_micro(struct gpt_trainer *t, int64_t number)
{
    static const weir_pipe_op ops[] = {WEIR_PIPE_OP_F, WEIR_PIPE_OP_B};
    weir_pipe_work work = {.micro = 0};
    weir_status status = WEIR_OK;
    for (int i = 0; i < 2 && status == WEIR_OK; i++) {
        weir_pipe_instr instr = {.op = ops[i], .micro = (int32_t)number, .peer = -1};
        status = compute(t, ops[i], &work);
        gpt_trace_instruction(&t->trace, &instr);
    }
    return status;
}

static weir_status one_pass(struct gpt_trainer *t, int64_t number, int64_t *waited)
{
    weir_status status = weir_zero_begin(t->shards.zero, WEIR_ZERO_TRAIN);
    if (status != WEIR_OK)
        return status;
    t->run = number;
    t->trace.last = gpt_trace_now();
    if (t->pipe) {
        weir_pipe_engine_report report = {.size = sizeof report};
        status = weir_pipe_engine_run(t->engine, &t->error);
        weir_pipe_engine_get_report(t->engine, &report);
        *waited += report.wait_ns;
    } else {
        status = one_micro(t, number);
    }
    if (status == WEIR_OK)
        status = gpt_shards_join(&t->shards);
    return status == WEIR_OK ? weir_zero_end(t->shards.zero) : status;
}

weir_status gpt_trainer_sum(struct gpt_trainer *t, double *numbers, int n)
{
    weir_status status = weir_allreduce(t->job->all, WEIR_IN_PLACE, numbers, (uint64_t)n, WEIR_FP64, WEIR_SUM);
    if (!t->losses || status != WEIR_OK)
        return status;
    /* each is zero but on one rank, so that nothing is rounded before they are added here */
    status = weir_allreduce(t->job->all, WEIR_IN_PLACE, t->losses, (uint64_t)t->nlosses, WEIR_FP64, WEIR_SUM);
    numbers[0] = 0;
    for (int64_t i = 0; i < t->nlosses; i++) {
        numbers[0] += t->losses[i];
        t->losses[i] = 0;
    }
    return status;
}

/* What all ranks have to know of each other: the loss, whether one is to stop, and the first one's clock. */
static weir_status share(struct gpt_trainer *t, enum gpt_stop stop, double used, struct gpt_step *s)
{
    bool first = weir_comm_rank(t->job->all) == 0;
    double sum[4] = {t->job->way ? 0 : t->loss, stop == GPT_STOP_TIME, stop == GPT_STOP_SIGNAL, first ? used : 0};
    weir_status status = gpt_trainer_sum(t, sum, 4);
    if (status != WEIR_OK)
        return status;
    s->loss = sum[0] / (double)(t->options->batch * t->config.context);
    s->stop = sum[2] > 0 ? GPT_STOP_SIGNAL : sum[1] > 0 ? GPT_STOP_TIME : GPT_GO_ON;
    t->used = sum[3];
    return WEIR_OK;
}

/* The learning rate. Where time will end the run before its last step, it falls with the time. */
static double rate(const struct gpt_trainer *t)
{
    double at = t->used * (double)t->options->steps;
    uint64_t step = (uint64_t)t->step + 1;
    return weir_schedule_lr(&t->shards.schedule, at > (double)step ? (uint64_t)at : step);
}

/* Reads this rank's sequences of a step, so many for a pass. */
static void read_step(struct gpt_trainer *t, int64_t each)
{
    for (int64_t s = 0; s < t->per_rank; s += each) {
        int64_t first = global_number(t, s / t->micro.pass.sequences) * t->micro.pass.sequences, at = s * t->config.context;
        gpt_data_train(t->data, t->position + first, (int)each, t->tokens + at, t->targets + at);
    }
    gpt_trainer_slice(t, t->per_rank);
}

weir_status gpt_trainer_step(struct gpt_trainer *t, enum gpt_stop stop, double used, struct gpt_step *s)
{
    weir_zero_step_options options = WEIR_ZERO_STEP_INIT;
    weir_zero_report report = {.size = sizeof report};
    int64_t passes = t->options->accumulate * (t->pipe ? 1 : t->options->microbatches), waited = 0;
    read_step(t, t->per_rank / passes);
    t->loss = 0;
    int64_t begin = gpt_trace_now(), computed;
    for (int64_t p = 0; p < passes; p++) {
        weir_status status = one_pass(t, p, &waited);
        if (status != WEIR_OK)
            return status;
    }
    options.passes = 1; /* the loss is divided by all of the step's tokens already, unless gradients are to be sums */
    options.weight = t->losses ? (double)(t->per_rank * t->config.context) : 0;
    options.lr = rate(t);
    computed = gpt_trace_now();
    weir_status status = weir_zero_step(t->shards.zero, &options, &report);
    if (status != WEIR_OK)
        return status;
    gpt_trace_add(&t->trace, GPT_TRACE_STEP, "the step's end", -1, computed);
    gpt_trace_add(&t->trace, GPT_TRACE_STEP, "step", t->step + 1, begin);
    t->step++;
    t->position += t->options->batch;
    t->memory = report.memory_peak;
    s->norm = report.norm;
    s->lr = options.lr;
    s->skipped = report.skipped;
    s->exposed = report.total_ns > 0 ? (double)(report.exposed_ns + waited) / (double)report.total_ns : 0;
    return share(t, stop, used, s);
}

weir_status gpt_trainer_begin_trace(struct gpt_trainer *t)
{
    enum { MOST = 1 << 18 }; /* events of the engine */
    weir_status status = weir_zero_trace(t->shards.zero, MOST);
    return status == WEIR_OK ? gpt_trace_begin(&t->trace, t->job) : status;
}

void gpt_trainer_end_trace(struct gpt_trainer *t)
{
    if (!t->trace.on)
        return;
    gpt_trace_take(&t->trace, t->shards.zero);
    weir_zero_trace(t->shards.zero, 0);
    t->trace.on = false;
}

const weir_error *gpt_trainer_error(const struct gpt_trainer *t, weir_status status)
{
    const weir_error *error = weir_zero_error(t->shards.zero);
    if (t->error.status == status && status != WEIR_OK)
        return &t->error;
    if (t->divide.tp && t->divide.join.status == status)
        return weir_tp_error(t->divide.tp);
    if (t->sequence.sp && t->sequence.attend.status == status)
        return weir_sp_error(t->sequence.sp);
    return error->status == status ? error : weir_last_error(t->job->ctx);
}
