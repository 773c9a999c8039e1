/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INTEGER, NUMBER, TEXT, PRESET };

/* One row an option: how it is read, where it goes, what help says. Numbers are checked against least and most. */
static const struct row {
    const char *name, *value;
    enum kind kind;
    size_t offset;
    double least, most;
    const char *help;
} rows[] = {
#define AT(field) offsetof(struct gpt_options, field)
    {"preset", "NAME", PRESET, 0, 0, 0, "sizes of the model: tiny (the default), small, gpt2; others on the line change them"},
    {"layers", "N", INTEGER, AT(layers), 1, 1000, "blocks (4)"},
    {"width", "N", INTEGER, AT(width), 1, 65536, "numbers for a token between blocks (128)"},
    {"heads", "N", INTEGER, AT(heads), 1, 65536, "attention heads (4)"},
    {"context", "N", INTEGER, AT(context), 1, 65536, "tokens that the model sees at once (64)"},
    {"vocabulary", "N", INTEGER, AT(vocabulary), 2, 65536, "tokens; above 256 files hold two bytes for each (256)"},
    {"dropout", "P", NUMBER, AT(dropout), 0, 0.99, "share of numbers that training drops (0)"},
    {"dtype", "TYPE", TEXT, AT(dtype), 0, 0, "parameters are stored as fp32, or as bf16 beside masters in fp32 (fp32)"},
    {"batch", "N", INTEGER, AT(batch), 1, 1e6, "sequences of a step, over all ranks (8)"},
    {"microbatches", "N", INTEGER, AT(microbatches), 1, 65536,
     "parts of a step's sequences, one after the other or in a pipeline (1; with --pp its stages)"},
    {"accumulate", "N", INTEGER, AT(accumulate), 1, 65536, "runs of these micro-batches in a step (1)"},
    {"recompute", "K", INTEGER, AT(recompute), 0, 1000,
     "every K-th block is computed again in the backward pass, to save memory (0: none)"},
    {"steps", "N", INTEGER, AT(steps), 1, 1e12, "steps (1000)"},
    {"seconds", "S", NUMBER, AT(seconds), 0, 1e9,
     "end after so many seconds if not all steps are made by then; the learning rate falls in time (0: never)"},
    {"rule", "NAME", TEXT, AT(rule), 0, 0, "update rule: sgd, adam, adamw, lion, lamb, ... (adamw)"},
    {"lr", "R", NUMBER, AT(lr), 0, 1e3, "learning rate (0.003)"},
    {"final-lr", "R", NUMBER, AT(final_lr), 0, 1e3, "learning rate at the end (a tenth of --lr)"},
    {"lr-schedule", "NAME", TEXT, AT(lr_schedule), 0, 0, "constant, linear, cosine, wsd (cosine)"},
    {"warmup", "N", INTEGER, AT(warmup), 0, 1e9, "steps in which the learning rate grows (20)"},
    {"weight-decay", "R", NUMBER, AT(weight_decay), 0, 1e3, "of matrices (0.1)"},
    {"beta2", "R", NUMBER, AT(beta2), 0, 0.999999, "of rules that have one (0.99)"},
    {"clip", "R", NUMBER, AT(clip), 0, 1e9, "largest norm of the gradient (1; 0: none)"},
    {"seed", "N", INTEGER, AT(seed), 0, 9e15, "of initial values, order of the data, dropout and samples (1)"},
    {"zero", "S", INTEGER, AT(zero), 0, 3, "ZeRO stage (3)"},
    {"pp", "N", INTEGER, AT(pp), 1, 1024, "pipeline stages (1)"},
    {"dp", "N", INTEGER, AT(dp), 0, 1e6, "data-parallel ranks (0: what the others leave)"},
    {"tp", "N", INTEGER, AT(tp), 1, 65536, "ranks that divide each layer (1)"},
    {"tp-sequence", NULL, FLAG, AT(tp_sequence), 0, 0, "these divide tokens between layers, too: Megatron's sequence parallelism"},
    {"ep", "N", INTEGER, AT(ep), 1, 65536, "ranks that divide experts, of which this model has none (1)"},
    {"sp", "N", INTEGER, AT(sp), 1, 65536, "ranks that share the tokens of each sequence (1)"},
    {"sp-method", "NAME", TEXT, AT(sp_method), 0, 0, "how these attend to each other: ulysses, ring (ulysses)"},
    {"schedule", "NAME", TEXT, AT(schedule), 0, 0, "of the pipeline: gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-h2, zb-v (1f1b)"},
    {"chunks", "N", INTEGER, AT(chunks), 0, 64, "parts of the model on each stage (0: what the schedule is made for)"},
    {"cut", "HOW", TEXT, AT(cut), 0, 0, "layers on the stages: uniform, by parameters, or by time, which is measured (uniform)"},
    {"config", "FILE", TEXT, AT(config), 0, 0,
     "ZeRO, batch sizes, optimizer and schedule as this JSON file says in DeepSpeed's words; options of the line come first"},
    {"reproducible", NULL, FLAG, AT(reproducible), 0, 0,
     "the same bits on any grid of pp x dp that has as many sequences in a micro-batch (1 if --microbatches is not given)"},
    {"threads", "N", INTEGER, AT(threads), 0, 1024, "threads of OpenBLAS on each rank (0: its processors)"},
    {"validation", "SHARE", NUMBER, AT(validation), 0, 0.9, "end of each file that is kept for validation (0.1)"},
    {"eval-every", "N", INTEGER, AT(eval_every), 0, 1e12, "steps between validations (200; 0: at the end only)"},
    {"eval-sequences", "N", INTEGER, AT(eval_sequences), 0, 1e12, "sequences to validate with, spread over what is kept (1000; 0: all)"},
    {"baseline", NULL, FLAG, AT(baseline), 0, 0, "compare with a bigram and a trigram model"},
    {"sample", "N", INTEGER, AT(sample), 0, 1e6, "tokens to write in the end (0)"},
    {"prompt", "TEXT", TEXT, AT(prompt), 0, 0, "how that begins (a new line)"},
    {"temperature", "T", NUMBER, AT(temperature), 0.01, 100, "how bold it is (0.8)"},
    {"save", "FOLDER", TEXT, AT(save), 0, 0, "checkpoints go there: in the end, and on SIGTERM or SIGUSR1"},
    {"save-every", "N", INTEGER, AT(save_every), 0, 1e12, "steps between checkpoints (0: in the end only)"},
    {"resume", "FOLDER", TEXT, AT(resume), 0, 0, "go on from the last checkpoint there, on any number of ranks"},
    {"import", "FILE", TEXT, AT(import), 0, 0, "begin with the parameters of a safetensors file with GPT-2's names"},
    {"export", "FILE", TEXT, AT(export), 0, 0, "in the end the model becomes one safetensors file (with --save)"},
    {"log-every", "N", INTEGER, AT(log_every), 1, 1e12, "steps between lines (20)"},
    {"json", NULL, FLAG, AT(json), 0, 0, "lines are JSON objects"},
    {"log", "FILE", TEXT, AT(log), 0, 0, "JSON lines go there, too"},
    {"plot", "FILE", TEXT, AT(plot), 0, 0, "in the end gnuplot draws the loss into this PNG file"},
    {"trace", "FILE", TEXT, AT(trace), 0, 0, "what each rank did when, for chrome://tracing or Perfetto"},
    {"trace-steps", "N", INTEGER, AT(trace_steps), 1, 1e6, "of so many steps, the first ones (20)"},
    {"measure", "N", INTEGER, AT(measure), 0, 1000, "in the end N steps are timed beside their matrix products (one rank, --zero 0)"},
    {"help", NULL, FLAG, AT(help), 0, 0, "this text"},
#undef AT
};
enum { NROWS = sizeof rows / sizeof *rows };

static const struct preset {
    const char *name;
    int layers, width, heads, context, vocabulary;
} presets[] = {{"tiny", 4, 128, 4, 64, 256}, {"small", 6, 384, 6, 128, 256}, {"gpt2", 12, 768, 12, 1024, 50257}};

__attribute__((format(printf, 3, 4))) static bool fail(char *why, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return false;
}

void gpt_options_help(FILE *out)
{
    fputs("usage: weirrun -n N weir-gpt [options] FILE|FOLDER...\n"
          "Trains a language model of GPT-2's architecture on the bytes of files.\n",
          out);
    for (int i = 0; i < NROWS; i++) {
        char text[64];
        snprintf(text, sizeof text, "--%s%s%s", rows[i].name, rows[i].value ? "=" : "", rows[i].value ? rows[i].value : "");
        fprintf(out, "  %-20s %s\n", text, rows[i].help);
    }
}

static bool set_preset(struct gpt_options *o, const char *name, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const struct preset *p = &presets[i];
        if (strcmp(name, p->name))
            continue;
        o->layers = p->layers;
        o->width = p->width;
        o->heads = p->heads;
        o->context = p->context;
        o->vocabulary = p->vocabulary;
        return true;
    }
    return fail(why, size, "there is no preset '%s', but tiny, small and gpt2", name);
}

static bool set(struct gpt_options *o, const struct row *row, const char *value, char *why, size_t size)
{
    void *field = (char *)o + row->offset;
    char *end;
    errno = 0;
    if (row->kind == FLAG) {
        *(bool *)field = true;
    } else if (row->kind == TEXT) {
        *(const char **)field = value;
    } else if (row->kind == PRESET) {
        return set_preset(o, value, why, size);
    } else {
        double number = row->kind == NUMBER ? strtod(value, &end) : (double)strtoll(value, &end, 10);
        if (end == value || *end || errno || !(number >= row->least && number <= row->most))
            return fail(why, size, "--%s takes %s from %g to %g, not '%s'", row->name,
                        row->kind == NUMBER ? "a number" : "an integer", row->least, row->most, value);
        if (row->kind == NUMBER)
            *(double *)field = number;
        else
            *(int64_t *)field = strtoll(value, NULL, 10);
    }
    return true;
}

bool gpt_options_given(const struct gpt_options *o, const char *name)
{
    for (int i = 0; i < NROWS; i++)
        if (!strcmp(rows[i].name, name))
            return o->given[i / 64] >> i % 64 & 1;
    return false;
}

bool gpt_options_parse(int argc, char **argv, struct gpt_options *o, char *why, size_t size)
{
    struct option longs[NROWS + 1] = {{NULL, 0, NULL, 0}};
    int c, which;
    for (int i = 0; i < NROWS; i++)
        longs[i] = (struct option){rows[i].name, rows[i].value ? required_argument : no_argument, NULL, 'o'};
    *o = (struct gpt_options){.dtype = "fp32", .batch = 8, .accumulate = 1, .steps = 1000, .rule = "adamw", .lr = 3e-3, .final_lr = -1,
                              .lr_schedule = "cosine", .warmup = 20, .weight_decay = 0.1, .beta2 = 0.99, .clip = 1, .seed = 1,
                              .zero = 3, .pp = 1, .sp = 1, .tp = 1, .ep = 1, .sp_method = "ulysses", .schedule = "1f1b",
                              .cut = "uniform", .validation = 0.1, .eval_every = 200, .eval_sequences = 1000,
                              .prompt = "\n", .temperature = 0.8, .log_every = 20, .trace_steps = 20};
    set_preset(o, "tiny", why, size);
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, ":h", longs, &which)) != -1) {
        if (c == 'h')
            o->help = true;
        else if (c == 'o' && !set(o, &rows[which], optarg, why, size))
            return false;
        else if (c == 'o')
            o->given[which / 64] |= (uint64_t)1 << which % 64;
        else if (c == ':')
            return fail(why, size, "%s needs a value", argv[optind - 1]);
        else if (c == '?')
            return fail(why, size, "there is no option %s; --help lists them", argv[optind - 1]);
    }
    o->paths = argv + optind;
    o->npaths = argc - optind;
    if (!o->npaths && !o->help)
        return fail(why, size, "name files or folders to train on; --help lists the options");
    if ((o->export || o->save_every) && !o->save)
        return fail(why, size, "--export and --save-every need --save FOLDER");
    if (o->resume && o->import)
        return fail(why, size, "--resume and --import exclude each other");
    if (o->measure && o->zero)
        return fail(why, size, "--measure needs --zero 0");
    if (o->reproducible && (o->tp > 1 || o->sp > 1))
        return fail(why, size, "--reproducible is for grids of pp and dp: with --tp and --sp sums are made in another order");
    if (o->final_lr < 0)
        o->final_lr = o->lr / 10;
    if (strcmp(o->dtype, "fp32") && strcmp(o->dtype, "bf16"))
        return fail(why, size, "--dtype is fp32 or bf16, not '%s'", o->dtype);
    if (o->ep != 1)
        return fail(why, size, "expert parallelism is not supported: --ep must be 1");
    if (strcmp(o->sp_method, "ulysses") && strcmp(o->sp_method, "ring"))
        return fail(why, size, "--sp-method is ulysses or ring, not '%s'", o->sp_method);
    if (strcmp(o->cut, "uniform") && strcmp(o->cut, "parameters") && strcmp(o->cut, "time"))
        return fail(why, size, "--cut is uniform, parameters or time, not '%s'", o->cut);
    return true;
}
