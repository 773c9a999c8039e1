/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-tune: options, the ranks' roles, and the file. */
#include "perf/weir-tune.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct options {
    const char *output; /* NULL: where weir looks for it; "-": the standard output only */
    double seconds;
};

/* What was measured; 0: it was not (of the levels' -1). */
struct costs {
    double step, flag, copy, reduce, memory, overhead, latency, gap, bandwidth;
    double hop[LEVELS], uplink[LEVELS];
    int rails, ack, levels;
};

double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

bool check(struct tune *t, weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return true;
    const weir_error *err = weir_last_error(t->ctx);
    fprintf(stderr, "weir-tune: rank %d: %s: %s%s%s\n", t->rank, what, err->message[0] ? err->message : weir_status_message(status),
            err->advice[0] ? "; " : "", err->advice);
    return false;
}

bool share(struct tune *t, double mine)
{
    return check(t, weir_allgather(t->comm, &mine, t->all, 1, WEIR_FP64), "weir_allgather");
}

int rank_of(const struct tune *t, int node, int l)
{
    return weir_topo_node_rank(t->topo, node, l);
}

static const char usage_text[] =
    "usage: weirrun -n N [..] weir-tune [-o FILE] [--time S]\n"
    "\n"
    "Measures what the steps of collectives cost on these hosts, and writes the tuning file by which weir chooses algorithms.\n"
    "Two ranks on a node measure the node; ranks on two nodes also the network. What cannot be measured keeps its default.\n"
    "Nothing else should run meanwhile.\n"
    "\n"
    "  -o, --output FILE   instead of where weir looks for it; - writes to the standard output only\n"
    "      --time SECONDS  time for one number (0.1)\n"
    "  -h, --help, --version\n";

/* The exit code, or -1 to go on. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'}, {"time", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},         {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        if (c == 'o')
            o->output = optarg;
        else if (c == 't')
            o->seconds = atof(optarg);
        else if (c == 'h')
            return fputs(usage_text, stdout) < 0;
        else if (c == 'V')
            return printf("weir-tune %s\n", weir_version()) < 0;
        else
            o->seconds = -1;
    }
    if (optind == argc && o->seconds > 0 && o->seconds <= 60)
        return -1;
    fputs("weir-tune: wrong option or value; 'weir-tune --help' lists the options\n", stderr);
    return 2;
}

/* ---- the file ---- */

static void put(FILE *out, const char *key, double value, const char *help)
{
    if (value > 0)
        fprintf(out, "%-10s %-10.4g # %s\n", key, value, help);
}

static void write_costs(const struct tune *t, const struct costs *c, FILE *out)
{
    char date[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (gmtime_r(&now, &tm))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
    fprintf(out, "weir-tuning 1\n# weir-tune %s, %s, %d ranks on %d nodes", weir_version(), date, t->size, weir_topo_nnodes(t->topo));
    if (t->far >= 0)
        fprintf(out, ", between nodes %s (%s)", weir_comm_transport(t->comm, t->far), weir_comm_provider(t->comm, t->far));
    fputs("\n", out);
    put(out, "step", c->step, "ns for any step of a plan");
    put(out, "flag", c->flag, "ns from setting a flag until another core sees it");
    put(out, "copy", c->copy, "ns a byte that one core copies");
    put(out, "reduce", c->reduce, "ns a byte of each operand that one core combines");
    put(out, "memory", c->memory, "GB/s of loads and stores of a node");
    put(out, "overhead", c->overhead, "ns to start a message");
    put(out, "latency", c->latency, "ns from node to node");
    put(out, "gap", c->gap, "ns for which a message holds an interface, besides its bytes");
    put(out, "bandwidth", c->bandwidth, "GB/s of an interface");
    put(out, "rails", c->rails, "interfaces that help each other");
    if (t->far >= 0)
        fprintf(out, "%-10s %-10d # 1: the source of a put is free when its acknowledgement is back\n", "ack", c->ack);
    for (int l = 0; l < c->levels; l++) {
        if (c->hop[l] >= 0)
            fprintf(out, "hop%-7d %-10.4g # ns more for leaving a group of this level, and for entering one\n", l, c->hop[l]);
        if (c->uplink[l] >= 0)
            fprintf(out, "uplink%-4d %-10.4g # GB/s out of a group of this level; 0: as its nodes can send\n", l, c->uplink[l]);
    }
    fputs("end\n", out);
}

/* Makes the folders that the path stands in. */
static void make_folders(const char *path)
{
    char part[4096];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
        if (snprintf(part, sizeof part, "%.*s", (int)(slash - path), path) < (int)sizeof part)
            mkdir(part, 0700);
}

/* Whole or not at all: a job may be reading it. */
static bool replace(const struct tune *t, const struct costs *c, const char *path)
{
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    make_folders(path);
    FILE *out = fopen(temporary, "w");
    bool ok = out != NULL;
    if (ok) {
        write_costs(t, c, out);
        ok = !ferror(out);
        ok = !fclose(out) && ok && !rename(temporary, path);
    }
    if (!ok) {
        fprintf(stderr, "weir-tune: %s: %s; choose another place with -o\n", path, strerror(errno));
        unlink(temporary);
    }
    return ok;
}

static bool write_file(const struct tune *t, const struct options *o, const struct costs *c)
{
    char found[512];
    const char *path = o->output;
    write_costs(t, c, stdout);
    if (path && !strcmp(path, "-"))
        return true;
    if (!path && weir_tuning_path(t->ctx, found, sizeof found)) {
        fputs("weir-tune: there is no place for a tuning file (WEIR_TUNING_FILE, WEIR_CACHE_DIR); give one with -o\n", stderr);
        return false;
    }
    path = path ? path : found;
    if (!replace(t, c, path))
        return false;
    printf("# written to %s\n", path);
    return true;
}

/* ---- the ranks ---- */

/* Of ranks on other nodes one of the nearest. */
static void find_partners(struct tune *t)
{
    int node = weir_topo_node(t->topo, 0);
    t->mate = t->far = -1;
    for (int r = t->size - 1; r > 0; r--)
        if (weir_topo_node(t->topo, r) == node)
            t->mate = r;
        else if (t->far < 0 || weir_topo_common_level(t->topo, 0, r) <= weir_topo_common_level(t->topo, 0, t->far))
            t->far = r;
}

static bool measure(struct tune *t, struct costs *c)
{
    memset(c, 0, sizeof *c);
    if (!measure_step(t, &c->step) || !measure_copy(t, &c->copy, &c->reduce, &c->memory))
        return false;
    if (t->mate >= 0 && !measure_flag(t, &c->flag))
        return false;
    if (t->far < 0)
        return true;
    return measure_network(t, &c->overhead, &c->latency, &c->gap, &c->bandwidth, &c->rails, &c->ack) &&
           measure_levels(t, c->bandwidth, c->hop, c->uplink, &c->levels);
}

static bool run(struct tune *t, const struct options *o)
{
    struct costs costs;
    bool ok = check(t, weir_comm_world(t->ctx, &t->comm), "weir_comm_world") &&
              check(t, weir_ctx_topo(t->ctx, &t->topo), "weir_ctx_topo") &&
              check(t, weir_mem_alloc(t->comm, FLAGS + 2 * (uint64_t)AREA, 0, &t->mem), "weir_mem_alloc");
    if (!ok)
        return false;
    memset((char *)weir_mem_ptr(t->mem) + FLAGS, 1, 2 * (size_t)AREA);
    find_partners(t);
    ok = measure(t, &costs) && check(t, weir_mem_free(t->mem), "weir_mem_free");
    if (ok && t->rank == 0)
        ok = write_file(t, o, &costs);
    return ok;
}

int main(int argc, char **argv)
{
    struct options o = {.seconds = 0.1};
    weir_init_options init = WEIR_INIT_OPTIONS_INIT;
    weir_error err;
    struct tune t = {0};
    int code = parse_options(&o, argc, argv);
    if (code >= 0)
        return code;
    init.error = &err;
    if (weir_init(&init, &t.ctx)) {
        fprintf(stderr, "weir-tune: %s%s%s\n", err.message, err.advice[0] ? "; " : "", err.advice);
        return 1;
    }
    t.rank = weir_rank(t.ctx);
    t.size = weir_size(t.ctx);
    t.all = calloc((size_t)t.size, sizeof *t.all);
    bool ok = t.all && run(&t, &o);
    free(t.all);
    if (!ok && t.rank != 0)
        return 1; /* the others may be somewhere else: no leaving together */
    return weir_finalize(t.ctx) || !ok || fflush(stdout) || ferror(stdout) ? 1 : 0;
}
