/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

/* A line of JSON, to the log and, with --json, to standard output. */
__attribute__((format(printf, 2, 3))) static void json(struct gpt_report *r, const char *format, ...)
{
    FILE *outs[2] = {r->trainer->options->json ? stdout : NULL, r->log};
    for (int i = 0; i < 2; i++) {
        va_list args;
        if (!outs[i])
            continue;
        va_start(args, format);
        vfprintf(outs[i], format, args);
        va_end(args);
        fputc('\n', outs[i]);
        fflush(outs[i]);
    }
}

/* A line for people. */
__attribute__((format(printf, 2, 3))) static void line(const struct gpt_report *r, const char *format, ...)
{
    va_list args;
    if (r->trainer->options->json)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* A number as JSON has it. */
static const char *number(char *text, size_t size, double x)
{
    if (isfinite(x))
        snprintf(text, size, "%.17g", x); /* all its bits */
    else
        snprintf(text, size, "null");
    return text;
}

bool gpt_report_open(struct gpt_report *r, const struct gpt_trainer *t, char *why, size_t size)
{
    *r = (struct gpt_report){.trainer = t, .speaks = weir_comm_rank(t->job->all) == 0, .first_step = t->step, .line = t->step};
    r->begin = r->before = now();
    r->used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (!r->speaks || !t->options->log)
        return true;
    r->log = fopen(t->options->log, "w");
    if (!r->log)
        snprintf(why, size, "the log %s cannot be written: %s", t->options->log, strerror(errno));
    return r->log;
}

void gpt_report_close(struct gpt_report *r)
{
    if (r->log)
        fclose(r->log);
    free(r->points);
    *r = (struct gpt_report){.log = NULL};
}

double gpt_report_seconds(const struct gpt_report *r)
{
    return now() - r->begin;
}

void gpt_report_begin(struct gpt_report *r, int threads)
{
    const struct gpt_trainer *t = r->trainer;
    const struct gpt_options *o = t->options;
    const struct gpt_data *d = t->data;
    const char *core = weir_blas_core(), *schedule = t->pipe ? o->schedule : "none";
    if (!r->speaks)
        return;
    if (!core)
        core = "unknown";
    line(r, "model: %d layers, width %d, %d heads, context %d, vocabulary %d: %lld parameters", t->config.layers, t->config.width,
         t->config.heads, t->config.context, t->config.vocabulary, (long long)gpt_model_size(&t->config));
    line(r, "data: %d files, %lld tokens to train on, %lld to validate with%s", d->nfiles, (long long)d->train,
         (long long)(d->tokens - d->train), d->skipped ? "; files that are too short were left out" : "");
    line(r, "ranks: %d = %d pipeline stages (%s) x %d data parallel x %d to a sequence x %d to a layer, ZeRO stage %lld; %lld sequences a step in %lld micro-batches",
         weir_comm_size(t->job->all), t->job->stages, schedule, t->job->replicas, t->job->slices, t->job->ways, (long long)o->zero, (long long)o->batch,
         (long long)(o->microbatches * o->accumulate));
    line(r, "processor: OpenBLAS core %s with %d thread%s a rank; loops for %s", core, threads, threads > 1 ? "s" : "",
         t->micro.pass.kernels->isa);
    json(r, "{\"event\": \"begin\", \"parameters\": %lld, \"files\": %d, \"train_tokens\": %lld, \"validation_tokens\": %lld, \"ranks\": %d, "
         "\"pp\": %d, \"dp\": %d, \"sp\": %d, \"tp\": %d, \"zero\": %lld, \"schedule\": \"%s\", \"batch\": %lld, \"core\": \"%s\", \"isa\": \"%s\"}",
         (long long)gpt_model_size(&t->config), d->nfiles, (long long)d->train, (long long)(d->tokens - d->train),
         weir_comm_size(t->job->all), t->job->stages, t->job->replicas, t->job->slices, t->job->ways, (long long)o->zero, schedule, (long long)o->batch, core,
         t->micro.pass.kernels->isa);
}

static void remember(struct gpt_report *r, double loss, double check)
{
    if (!r->trainer->options->plot)
        return;
    struct gpt_point *grown = realloc(r->points, (r->npoints + 1) * sizeof *grown);
    if (!grown)
        return; /* the plot has a point less */
    r->points = grown;
    r->points[r->npoints++] = (struct gpt_point){r->trainer->step, loss, check};
}

/* How long the rest will take, as minutes and seconds. */
static void left(const struct gpt_report *r, double seconds, char *text, size_t size)
{
    const struct gpt_options *o = r->trainer->options;
    double rest = seconds / (double)(r->trainer->step - r->first_step) * (double)(o->steps - r->trainer->step);
    if (o->seconds > 0 && o->seconds - seconds < rest)
        rest = o->seconds - seconds > 0 ? o->seconds - seconds : 0;
    snprintf(text, size, "%d:%02d", (int)(rest / 60), (int)rest % 60);
}

void gpt_report_step(struct gpt_report *r, const struct gpt_step *s)
{
    const struct gpt_trainer *t = r->trainer;
    const struct gpt_options *o = t->options;
    if (!r->speaks)
        return;
    r->loss += s->loss;
    r->exposed += s->exposed;
    int64_t steps = t->step - r->line;
    if (t->step % o->log_every && t->step != o->steps && !s->stop)
        return;
    char rest[32], loss[32], norm[32];
    double time = now(), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID), seconds = time - r->begin, mean = r->loss / (double)steps, exposed = r->exposed / (double)steps;
    double rate = (double)(steps * o->batch * t->config.context) / (time - r->before);
    left(r, seconds, rest, sizeof rest);
    line(r, "step %6lld/%lld  loss %.4f  norm %.3f  lr %.2e  %.0f tokens/s  waiting %.0f%%  %s left%s", (long long)t->step,
         (long long)o->steps, mean, s->norm, s->lr, rate, 100 * exposed, rest, s->skipped ? "  not finite: skipped" : "");
    json(r, "{\"event\": \"step\", \"step\": %lld, \"loss\": %s, \"norm\": %s, \"lr\": %.9g, \"tokens_per_s\": %.1f, \"exposed\": %.4f, "
         "\"seconds\": %.3f, \"processor_s\": %.6f, \"skipped\": %s}", (long long)t->step, number(loss, sizeof loss, mean), number(norm, sizeof norm, s->norm),
         s->lr, rate, exposed, seconds, (used - r->used) / (double)steps, s->skipped ? "true" : "false");
    if (steps * 2 > o->log_every) /* the mean of a few says little */
        remember(r, mean, NAN);
    r->loss = r->exposed = 0;
    r->line = t->step;
    r->before = time;
    r->used = used;
}

void gpt_report_check(struct gpt_report *r, double loss)
{
    char loss_text[32], perplexity[32];
    if (!r->speaks || isnan(loss))
        return;
    line(r, "step %6lld  validation loss %.4f, perplexity %.3f", (long long)r->trainer->step, loss, exp(loss));
    json(r, "{\"event\": \"validation\", \"step\": %lld, \"loss\": %s, \"perplexity\": %s}", (long long)r->trainer->step,
         number(loss_text, sizeof loss_text, loss), number(perplexity, sizeof perplexity, exp(loss)));
    remember(r, NAN, loss);
    r->before = now();
    r->used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void gpt_report_baseline(struct gpt_report *r, double bigram, double trigram)
{
    if (!r->speaks)
        return;
    r->bigram = bigram;
    r->trigram = trigram;
    line(r, "perplexity of counts on the same text: bigram %.3f, trigram %.3f", bigram, trigram);
    json(r, "{\"event\": \"baseline\", \"bigram\": %.9g, \"trigram\": %.9g}", bigram, trigram);
}

void gpt_report_measure(struct gpt_report *r, double step, double products, double update)
{
    double ratio = (step - update) / products;
    if (!r->speaks)
        return;
    line(r, "a step takes %.3f ms of the processor: %.3f times its matrix products alone (%.3f ms), and the memory that AdamW goes through "
         "(%.3f ms)", step * 1e3, ratio, products * 1e3, update * 1e3);
    json(r, "{\"event\": \"measure\", \"step_s\": %.9g, \"products_s\": %.9g, \"update_s\": %.9g, \"ratio\": %.4f}", step, products,
         update, ratio);
}

void gpt_report_memory(struct gpt_report *r, int64_t start, int64_t growth)
{
    if (!r->speaks || !start)
        return;
    line(r, "memory of a process: %.1f MiB when the ranks had met, and %.1f more at most", (double)start / 0x1p20, (double)growth / 0x1p20);
    json(r, "{\"event\": \"memory\", \"start\": %lld, \"growth\": %lld}", (long long)start, (long long)growth);
}

/* Length of the UTF-8 character at a text's beginning; 0: it is none that can be shown. */
static int64_t character(const int32_t *text, int64_t n)
{
    int64_t length = text[0] < 0x80 ? 1 : text[0] >= 0xc2 && text[0] < 0xe0 ? 2 : text[0] < 0xe0 ? 0 : text[0] < 0xf0 ? 3 : 4;
    if (length > n || text[0] > 0xf4 || text[0] == 127 || (text[0] < ' ' && text[0] != '\n' && text[0] != '\t'))
        return 0;
    for (int64_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* Bytes as text, with a question mark for what is none; larger tokens have no text of their own: their numbers are shown. */
static void show(const struct gpt_report *r, const int32_t *tokens, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t length = r->trainer->config.vocabulary > 256 ? -1 : character(tokens + i, n - i);
        if (length < 0)
            printf("%d ", tokens[i]);
        for (int64_t k = 0; k < length; k++)
            putchar(tokens[i + k]);
        if (!length)
            putchar('?');
        i += length > 0 ? length : 1;
    }
}

void gpt_report_sample(struct gpt_report *r, const char *prompt, const int32_t *tokens, int64_t n)
{
    if (!r->speaks || r->trainer->options->json)
        return;
    printf("---- sample ----\n%s", prompt);
    show(r, tokens, n);
    printf("\n----------------\n");
    fflush(stdout);
}

/* gnuplot reads its commands and the points from a pipe. */
static void plot(const struct gpt_report *r)
{
    const char *path = r->trainer->options->plot;
    if (!path || !r->npoints)
        return;
    FILE *p = popen("gnuplot 2>/dev/null", "w");
    if (!p) {
        line(r, "no plot: gnuplot cannot be started");
        return;
    }
    fprintf(p, "set terminal pngcairo size 900,600\nset output '%s'\nset xlabel 'step'\nset ylabel 'loss, nats a token'\nset grid\n"
            "set datafile missing 'nan'\n$points << END\n", path);
    for (size_t i = 0; i < r->npoints; i++)
        fprintf(p, "%lld %g %g\n", (long long)r->points[i].step, r->points[i].loss, r->points[i].check);
    fprintf(p, "END\nplot $points using 1:2 with lines title 'training', $points using 1:3 with points pointtype 7 title 'validation'");
    if (r->bigram > 0)
        fprintf(p, ", %g with lines dashtype 2 title 'bigrams', %g with lines dashtype 2 title 'trigrams'", log(r->bigram), log(r->trigram));
    fputc('\n', p);
    if (pclose(p))
        line(r, "no plot: gnuplot is missing or does not work");
    else
        line(r, "plot: %s", path);
}

void gpt_report_end(struct gpt_report *r, enum gpt_stop stop)
{
    const char *reason = stop == GPT_STOP_SIGNAL ? "stopped by a signal" : stop == GPT_STOP_TIME ? "stopped, for the time was over," : "trained";
    if (!r->speaks)
        return;
    const struct gpt_trainer *t = r->trainer;
    int64_t activations = 0;
    for (int p = 0; p < t->nparts; p++)
        activations += gpt_part_bytes(&t->parts[p], &t->micro.pass);
    plot(r);
    line(r, "memory of a rank: parameters, gradients and states %.2f MiB, %.2f by the formula; activations %.2f MiB",
         (double)t->memory / 0x1p20, (double)t->shards.formula / 0x1p20, (double)activations / 0x1p20);
    if (t->options->trace)
        line(r, "trace: %s", t->options->trace);
    if (t->options->save)
        line(r, "checkpoints: %s", t->options->save);
    line(r, "%s after %lld steps and %.1f s", reason, (long long)r->trainer->step, gpt_report_seconds(r));
    json(r, "{\"event\": \"end\", \"reason\": \"%s\", \"step\": %lld, \"seconds\": %.3f, \"memory\": %llu, "
         "\"memory_formula\": %llu, \"activations\": %lld}",
         stop == GPT_STOP_SIGNAL ? "signal" : stop == GPT_STOP_TIME ? "time" : "steps", (long long)t->step,
         gpt_report_seconds(r), (unsigned long long)t->memory, (unsigned long long)t->shards.formula,
         (long long)activations);
}
