/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-gpt: trains a language model of GPT-2's architecture on real text, divided over ranks by ZeRO and pipeline stages. Run it by:
 * weirrun -n 4 weir-gpt --pp 2 FILE...
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/checkpoint.h"
#include "examples/gpt/measure.h"
#include "examples/gpt/ngram.h"
#include "examples/gpt/report.h"
#include "examples/gpt/settings.h"

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int signal)
{
    (void)signal;
    asked_to_stop = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

/* Everything of a run. */
struct run {
    struct gpt_job job;
    struct gpt_options options;
    struct gpt_settings settings;
    struct gpt_data data;
    struct gpt_trainer trainer;
    struct gpt_checkpoint checkpoint;
    struct gpt_report report;
    int threads;
    int64_t resident; /* memory of this process when the ranks had met */
    bool failed; /* a checkpoint could not be saved, which was said */
};

static void must(struct run *r, weir_status status)
{
    if (status != WEIR_OK)
        gpt_job_die(&r->job, status, gpt_trainer_error(&r->trainer, status));
}

static void validate(struct run *r)
{
    double loss;
    must(r, gpt_trainer_validate(&r->trainer, &loss));
    gpt_report_check(&r->report, loss);
}

/* What is due after a step. false when the run cannot go on. */
static bool after_step(struct run *r, int64_t *checked)
{
    const struct gpt_options *o = &r->options;
    int64_t step = r->trainer.step;
    if (o->eval_every && step % o->eval_every == 0) {
        validate(r);
        *checked = step;
    }
    return !o->save_every || step % o->save_every || gpt_checkpoint_save(&r->checkpoint, &r->trainer);
}

/* Trains until there is a reason to end, tells the result unless that is a signal, and saves. */
static enum gpt_stop train(struct run *r)
{
    const struct gpt_options *o = &r->options;
    struct gpt_trainer *t = &r->trainer;
    struct gpt_step step = {.stop = GPT_GO_ON};
    int64_t checked = -1;
    while (t->step < o->steps && !step.stop && !r->failed) {
        double used = r->report.speaks && o->seconds > 0 ? gpt_report_seconds(&r->report) / o->seconds : 0;
        must(r, gpt_trainer_step(t, asked_to_stop ? GPT_STOP_SIGNAL : used >= 1 ? GPT_STOP_TIME : GPT_GO_ON, used, &step));
        gpt_report_step(&r->report, &step);
        r->failed = !step.stop && !after_step(r, &checked);
        if (t->step >= r->report.first_step + o->trace_steps)
            gpt_trainer_end_trace(t);
    }
    if (checked != t->step && step.stop != GPT_STOP_SIGNAL && !r->failed)
        validate(r);
    r->failed = r->failed || !gpt_checkpoint_save(&r->checkpoint, t) || !gpt_checkpoint_export(t);
    gpt_trainer_end_trace(t);
    r->failed = (o->trace && !gpt_trace_write(&t->trace, &r->job, o->trace)) || r->failed;
    return step.stop;
}

static void sample(struct run *r)
{
    const char *prompt = r->options.prompt;
    int length = (int)strlen(prompt), n = (int)r->options.sample;
    int32_t *tokens = calloc((size_t)n + (size_t)length + 1, sizeof *tokens), *made = tokens + length + 1;
    if (!tokens)
        must(r, WEIR_ERR_NO_MEMORY);
    for (int i = 0; i < length; i++)
        tokens[i] = (unsigned char)prompt[i];
    must(r, gpt_trainer_sample(&r->trainer, tokens, length ? length : 1, n, made));
    gpt_report_sample(&r->report, prompt, made, n);
    free(tokens);
}

static void baseline(struct run *r)
{
    enum { MOST = 1 << 25 }; /* tokens that are counted */
    double bigram, trigram;
    if (r->report.speaks && gpt_ngram(&r->data, MOST, &bigram, &trigram))
        gpt_report_baseline(&r->report, bigram, trigram);
}

/* In turn, so that both see the same machine. The replay spoils gradients, which are thrown away. */
static void measure(struct run *r)
{
    struct gpt_times times;
    if (!gpt_times_create(&times, &r->trainer, (int)r->options.measure))
        must(r, WEIR_ERR_NO_MEMORY);
    for (int i = 0; i < times.n; i++)
        must(r, gpt_times_take(&times, &r->trainer, i));
    gpt_report_measure(&r->report, gpt_median(times.step, times.n), gpt_median(times.products, times.n),
                       gpt_median(times.update, times.n));
    gpt_times_free(&times);
}

/* Those of the ranks that have most. */
static void tell_memory(struct run *r)
{
    int64_t mine[2] = {r->resident, gpt_resident(true) - r->resident}, most[2];
    must(r, weir_allreduce(r->job.all, mine, most, 2, WEIR_INT64, WEIR_MAX));
    gpt_report_memory(&r->report, most[0], most[1]);
}

/* Arguments, ranks and data. false when something is wrong, and then it was said. */
static bool prepare(struct run *r)
{
    char why[1024] = "";
    const struct gpt_options *o = &r->options;
    weir_error error;
    if (!gpt_job_agree(&r->job, !o->measure || weir_comm_size(r->job.world) == 1, "--measure is for one rank"))
        return false;
    if (!gpt_job_check(&r->job, gpt_job_arrange(&r->job, (int)o->pp, (int)o->dp, (int)o->sp, (int)o->tp, &error), &error))
        return false;
    if (!gpt_settings_read(&r->settings, &r->job, &r->options))
        return false;
    struct gpt_data_options data = {(int)o->context, (int)o->vocabulary, o->validation, o->eval_sequences, (uint64_t)o->seed};
    if (!gpt_job_agree(&r->job, gpt_data_open(&r->data, &data, o->npaths, o->paths, why, sizeof why), why))
        return false;
    r->threads = o->threads ? (int)o->threads : o->reproducible ? 1 : gpt_job_processors(&r->job);
    openblas_set_num_threads(r->threads);
    if (!gpt_trainer_create(&r->trainer, &r->job, o, &r->settings, &r->data) || !gpt_checkpoint_read(&r->trainer) ||
        !gpt_checkpoint_open(&r->checkpoint, &r->trainer))
        return false;
    return gpt_job_agree(&r->job, gpt_report_open(&r->report, &r->trainer, why, sizeof why), why);
}

static int run(struct run *r, int argc, char **argv)
{
    enum { GOOD = 0, FAILED = 1, MISUSED = 2 };
    char why[512] = "";
    bool good = gpt_options_parse(argc, argv, &r->options, why, sizeof why);
    if (!gpt_job_agree(&r->job, good, why))
        return MISUSED;
    if (r->options.help) {
        if (weir_rank(r->job.ctx) == 0)
            gpt_options_help(stdout);
        return GOOD;
    }
    good = prepare(r);
    if (good) {
        catch_signals();
        gpt_report_begin(&r->report, r->threads);
        if (r->options.baseline)
            baseline(r);
        if (r->options.trace)
            must(r, gpt_trainer_begin_trace(&r->trainer));
        enum gpt_stop reason = train(r);
        if (r->options.sample && reason != GPT_STOP_SIGNAL && !r->failed)
            sample(r);
        if (r->options.measure && reason != GPT_STOP_SIGNAL && !r->failed)
            measure(r);
        tell_memory(r);
        gpt_report_end(&r->report, reason);
    }
    gpt_report_close(&r->report);
    gpt_checkpoint_close(&r->checkpoint);
    gpt_trainer_free(&r->trainer);
    gpt_settings_free(&r->settings);
    gpt_data_close(&r->data);
    return good && !r->failed ? GOOD : FAILED;
}

int main(int argc, char **argv)
{
    static struct run r;
    if (!gpt_job_join(&r.job))
        return 1;
    r.resident = gpt_resident(false);
    int status = run(&r, argc, argv);
    gpt_job_leave(&r.job);
    return status;
}
