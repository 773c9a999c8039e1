/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-ckpt: looks at checkpoints, verifies them, and takes them to other programs and back. */
#include "tools/weir-ckpt.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <weir/context.h>

#include "base/error.h"
#include "base/str.h"

static const char usage_text[] =
    "usage: weir-ckpt list PATH [--tensors]\n"
    "       weir-ckpt verify PATH\n"
    "       weir-ckpt merge PATH FILE\n"
    "       weir-ckpt convert PATH FOLDER [--as-step N]\n"
    "\n"
    "PATH is a folder of checkpoints (the one that was committed last is taken), one checkpoint, a safetensors file, "
    "or an index\n"
    "such as model.safetensors.index.json.\n"
    "\n"
    "  list                the checkpoints of a folder; the tensors and entries of one, or of a file\n"
    "  verify              reads everything and compares the checksums\n"
    "  merge               writes the whole tensors to one safetensors file\n"
    "  convert             writes the tensors as a new checkpoint of a folder, to be resumed from\n"
    "\n"
    "options\n"
    "  --step N            takes the checkpoint of this step from the folder PATH\n"
    "  --tensors           list: the tensors of the checkpoint instead of the folder's checkpoints\n"
    "  --prefix TEXT       merge, convert: only tensors whose names begin so\n"
    "  --replace TEXT      merge, convert: what stands in place of the prefix\n"
    "  --dtype TYPE        merge, convert: makes F64, F32, BF16 and F16 tensors this type\n"
    "  --as-step N         convert: the step of the new checkpoint (default: that of PATH)\n"
    "  --json              one JSON object instead of text\n"
    "  --help, --version\n"
    "\n"
    "Try: weir-ckpt merge run7 model.safetensors --prefix master/ --replace '' --dtype BF16\n";

static const char advice_help[] = "'weir-ckpt --help' lists commands and options";

static int fail(const struct ckpt_options *o, const weir_error *err)
{
    char line[1200];
    if (o->json)
        ckpt_print_error(err, stdout);
    fprintf(stderr, "weir-ckpt: %s\n", wr_error_line(err, line, sizeof line));
    return err->status == WEIR_ERR_INVALID ? 2 : 1;
}

/* ---- the command line ---- */

enum { STEP = 256, AS_STEP, TENSORS, PREFIX, REPLACE, DTYPE, JSON };

static weir_status parse_step(const char *name, const char *text, uint64_t *step, weir_error *err)
{
    int64_t value;
    if (!wr_parse_int(text, &value) || value < 0)
        return wr_error_set(err, WEIR_ERR_INVALID, advice_help, "--%s %s is not a number from 0 on", name, text);
    *step = (uint64_t)value;
    return WEIR_OK;
}

/* One option; *code is set to an exit code when there is nothing more to do. */
static weir_status parse_option(int c, const char *arg, struct ckpt_options *o, int *code, weir_error *err)
{
    switch (c) {
    case STEP:
        return parse_step("step", arg, &o->step, err);
    case AS_STEP:
        return parse_step("as-step", arg, &o->as_step, err);
    case TENSORS:
        o->tensors = true;
        break;
    case PREFIX:
        o->filter.prefix = arg;
        break;
    case REPLACE:
        o->filter.replace = arg;
        break;
    case DTYPE:
        o->filter.dtype = arg;
        break;
    case JSON:
        o->json = true;
        break;
    case 'V':
        printf("weir-ckpt %s\n", weir_version());
        *code = 0;
        break;
    case 'h':
        fputs(usage_text, stdout);
        *code = 0;
        break;
    default:
        fprintf(stderr, "weir-ckpt: %s\n", advice_help);
        *code = 2;
    }
    return WEIR_OK;
}

/* Command and paths: list and verify have one, the others two. */
static weir_status parse_words(struct ckpt_options *o, int n, char **words, weir_error *err)
{
    static const char *const commands[] = {"list", "verify", "merge", "convert"};
    size_t c = 0;
    if (!n)
        return wr_error_set(err, WEIR_ERR_INVALID, advice_help, "which command?");
    while (c < WR_ARRAY_SIZE(commands) && strcmp(commands[c], words[0]))
        c++;
    if (c == WR_ARRAY_SIZE(commands))
        return wr_error_set(err, WEIR_ERR_INVALID, advice_help, "'%s' is no command", words[0]);
    o->command = commands[c];
    if (n != (c < 2 ? 2 : 3))
        return wr_error_set(err, WEIR_ERR_INVALID, advice_help, c < 2 ? "%s wants one path" : "%s wants two paths",
                            o->command);
    if (c < 2 && (o->filter.prefix || o->filter.replace || o->filter.dtype))
        return wr_error_set(err, WEIR_ERR_INVALID, advice_help,
                            "%s writes nothing: --prefix, --replace and --dtype are for merge and convert", o->command);
    if ((o->tensors && c) || (o->as_step != WEIR_CKPT_LATEST && c != 3))
        return wr_error_set(err, WEIR_ERR_INVALID, advice_help, "--tensors is for list, --as-step for convert");
    o->path = words[1];
    o->target = n > 2 ? words[2] : NULL;
    return WEIR_OK;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(struct ckpt_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"step", required_argument, NULL, STEP},
        {"as-step", required_argument, NULL, AS_STEP},
        {"tensors", no_argument, NULL, TENSORS},
        {"prefix", required_argument, NULL, PREFIX},
        {"replace", required_argument, NULL, REPLACE},
        {"dtype", required_argument, NULL, DTYPE},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    weir_error err;
    int c, code = -1;
    wr_error_clear(&err);
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (parse_option(c, optarg, o, &code, &err) != WEIR_OK)
            return fail(o, &err);
        if (code >= 0)
            return code;
    }
    return parse_words(o, argc - optind, argv + optind, &err) == WEIR_OK ? -1 : fail(o, &err);
}

/* ---- the commands ---- */

/* The checkpoints of a folder; *n is 0 when it is none. */
static weir_status list_folder(const char *folder, weir_ckpt_info **infos, size_t *n, weir_error *err)
{
    size_t room, found;
    *infos = NULL;
    *n = 0;
    if (weir_ckpt_list(folder, NULL, 0, &room, NULL) != WEIR_OK || !room)
        return WEIR_OK;
    weir_ckpt_info *list = calloc(room, sizeof *list);
    if (!list)
        return wr_error_memory(err, room * sizeof *list, "a list of checkpoints");
    for (size_t i = 0; i < room; i++)
        list[i].size = sizeof list[i];
    weir_status status = weir_ckpt_list(folder, list, room, &found, err);
    if (status != WEIR_OK) {
        free(list);
        return status;
    }
    *infos = list;
    *n = found < room ? found : room;
    return WEIR_OK;
}

/* What is done with an open source. */
static weir_status work(const struct ckpt_options *o, weir_ckpt_source *source, uint64_t *checked, weir_error *err)
{
    weir_ckpt_info info = {.size = sizeof info};
    if (!strcmp(o->command, "verify"))
        return weir_ckpt_source_verify(source, checked, err);
    if (!strcmp(o->command, "merge"))
        return weir_ckpt_export(source, o->target, &o->filter, err);
    if (!strcmp(o->command, "convert")) {
        weir_ckpt_source_info(source, &info);
        return weir_ckpt_import(source, o->target, o->as_step == WEIR_CKPT_LATEST ? info.step : o->as_step, &o->filter,
                                err);
    }
    return WEIR_OK;
}

static int run(const struct ckpt_options *o)
{
    weir_ckpt_source *source = NULL;
    weir_ckpt_info *infos = NULL;
    weir_error err;
    size_t n = 0;
    uint64_t checked = 0;
    bool ok = true, list = !strcmp(o->command, "list");
    wr_error_clear(&err);
    if (list && !o->tensors && o->step == WEIR_CKPT_LATEST && list_folder(o->path, &infos, &n, &err) != WEIR_OK)
        return fail(o, &err);
    if (n) {
        ok = ckpt_print_list(o, infos, n, stdout);
        free(infos);
        return ok ? 0 : 1;
    }
    weir_status status = weir_ckpt_source_open(o->path, o->step, &source, &err);
    if (status == WEIR_OK)
        status = work(o, source, &checked, &err);
    if (status == WEIR_OK)
        ok = list ? ckpt_print_source(o, source, stdout) : ckpt_print_done(o, source, checked, stdout);
    weir_ckpt_source_close(source);
    return status == WEIR_OK ? !ok : fail(o, &err);
}

int main(int argc, char **argv)
{
    struct ckpt_options options = {.step = WEIR_CKPT_LATEST,
                                   .as_step = WEIR_CKPT_LATEST,
                                   .filter = WEIR_CKPT_FILTER_INIT};
    int code = parse_options(&options, argc, argv);
    if (code < 0) {
        signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error with a sentence */
        code = run(&options);
    }
    if (fflush(stdout) || ferror(stdout)) {
        fputs("weir-ckpt: the standard output could not be written\n", stderr);
        code = code ? code : 1;
    }
    return code;
}
