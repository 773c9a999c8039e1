/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-p2p: options, the ranks' roles, and how much is measured. */
#include "perf/weir-p2p.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM = 20, SAMPLES_MAX = 20000, BATCHES = 10, RATES = 15, WINDOW_BYTES = 16 << 20 };

double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_values(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
}

double quantile(double *sorted, int n, double q)
{
    return n ? sorted[(int)(q * (n - 1) + 0.5)] : 0;
}

bool check(struct bench *b, weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return true;
    const weir_error *err = weir_last_error(b->ctx);
    fprintf(stderr, "weir-p2p: rank %d: %s: %s%s%s\n", b->rank, what,
            err->message[0] ? err->message : weir_status_message(status), err->advice[0] ? "; " : "", err->advice);
    b->failed = true;
    return false;
}

static const char usage_text[] =
    "usage: weir-p2p [-b MIN] [-e MAX] [-f FACTOR] [--op LIST] [--transport LIST] [--buffers N] [--no-reference] "
    "[--time S]\n"
    "                [--json] [--weirrun PATH]\n"
    "\n"
    "Latency and bandwidth between two ranks, and beside them what the machine (on the node) or the bare tools of "
    "libfabric\n"
    "and UCX (between nodes) reach in the same run. Under a launcher, rank 0 measures with one rank of each transport "
    "that\n"
    "it uses; without one, weir-p2p starts two ranks for each transport by weirrun.\n"
    "\n"
    "  -b, --min BYTES     smallest size (8)\n"
    "  -e, --max BYTES     largest size (4194304); K, M and G are understood\n"
    "  -f, --factor N      ratio between sizes (8)\n"
    "      --op LIST       of message, put, get, and of latency, bandwidth; all of both by default\n"
    "      --transport LIST  of shm, ofi, ofi:PROVIDER, ucx, ucx:TLS (shm,ofi,ucx); under a launcher, one of them\n"
    "      --buffers N     that rotate (64 on the node, as far as they fit; one between nodes, as the tools have)\n"
    "      --no-reference  leave the references out\n"
    "      --time SECONDS  time for one number (0.1)\n"
    "      --weirrun PATH  the weirrun to use\n"
    "      --json          results as JSON\n";

static bool parse_bytes(const char *text, uint64_t *value)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    *value = (uint64_t)v << shift;
    return end != text && *text != '-' && !end[shift != 0] && *value >> shift == v;
}

/* Kinds and methods; what is not restricted stays. */
static bool parse_ops(struct options *o, const char *list)
{
    static const char *const names[] = {"message", "put", "get", "latency", "bandwidth", "all"};
    unsigned methods = 0, kinds = 0;
    char copy[128], *save = NULL;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        int i = 0;
        while (i < 6 && strcmp(word, names[i]))
            i++;
        if (i == 6)
            return false;
        if (i < METHODS)
            methods |= 1U << i;
        else if (i < 5)
            kinds |= i == 3 ? LATENCY : BANDWIDTH;
    }
    o->methods = methods ? methods : o->methods;
    o->kinds = kinds ? kinds : o->kinds;
    return true;
}

static const struct option long_options[] = {
    {"min", required_argument, NULL, 'b'},
    {"max", required_argument, NULL, 'e'},
    {"factor", required_argument, NULL, 'f'},
    {"op", required_argument, NULL, 'o'},
    {"transport", required_argument, NULL, 't'},
    {"buffers", required_argument, NULL, 'B'},
    {"reference", no_argument, NULL, 'r'},
    {"no-reference", no_argument, NULL, 'R'},
    {"time", required_argument, NULL, 's'},
    {"weirrun", required_argument, NULL, 'w'},
    {"json", no_argument, NULL, 'j'},
    {"part", no_argument, NULL, 'P'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* The exit code, or -1 to go on. */
static int parse_options(struct options *o, int argc, char **argv)
{
    uint64_t buffers = 0;
    bool ok = true;
    int c;
    while ((c = getopt_long(argc, argv, "b:e:f:hV", long_options, NULL)) != -1) {
        if (c == 'b')
            ok &= parse_bytes(optarg, &o->min);
        else if (c == 'e')
            ok &= parse_bytes(optarg, &o->max);
        else if (c == 'f')
            ok &= parse_bytes(optarg, &o->factor);
        else if (c == 'o')
            ok &= parse_ops(o, optarg);
        else if (c == 't')
            o->transports = optarg;
        else if (c == 'r' || c == 'R')
            o->reference = c == 'r';
        else if (c == 'B')
            ok &= parse_bytes(optarg, &buffers) && buffers >= 1;
        else if (c == 's')
            o->point_s = atof(optarg);
        else if (c == 'w')
            o->weirrun = optarg;
        else if (c == 'j')
            o->json = true;
        else if (c == 'P')
            o->part = true;
        else if (c == 'h')
            return fputs(usage_text, stdout) < 0;
        else if (c == 'V')
            return printf("weir-p2p %s\n", weir_version()) < 0;
        else
            ok = false;
    }
    o->buffers = buffers > WINDOW_MAX ? WINDOW_MAX : (unsigned)buffers;
    if (ok && optind == argc && o->min >= 1 && o->max >= o->min && o->max <= UINT64_C(1) << 32 && o->factor >= 2 &&
        o->point_s > 0 && o->point_s <= 60)
        return -1;
    fputs("weir-p2p: wrong option or value (1 <= MIN <= MAX <= 4G, FACTOR >= 2); 'weir-p2p --help' lists the options\n",
          stderr);
    return 2;
}

/* ---- rank 0 ---- */

static unsigned buffers_of(struct bench *b, const struct options *o)
{
    return o->buffers ? o->buffers : has_bare(b) ? WINDOW_MAX : 1;
}

static bool order(struct bench *b, struct command *c, double *results)
{
    c->stamp = b->stamp;
    b->stamp += (uint64_t)c->iterations + 1;
    return check(b, weir_send(b->comm, c, sizeof *c, b->peer, TAG_COMMAND), "weir_send") && carry_out(b, c, results);
}

static bool measure_latency(struct bench *b, const struct options *o, struct row *row)
{
    static double ours[SAMPLES_MAX], bare[SAMPLES_MAX], warm[WARM];
    struct command c = {.method = (int32_t)row->method,
                        .bytes = row->bytes,
                        .action = DO_LATENCY,
                        .iterations = WARM,
                        .buffers = buffers_of(b, o)};
    bool with_bare = o->reference && has_bare(b);
    if (!order(b, &c, warm))
        return false;
    sort_values(warm, WARM);
    double n = o->point_s * 1e6 / (2 * BATCHES * (quantile(warm, WARM, 0.5) + 0.1));
    int each = n < 3 ? 3 : n > SAMPLES_MAX / BATCHES ? SAMPLES_MAX / BATCHES : (int)n;
    c.iterations = each;
    for (int i = 0; i < BATCHES; i++) {
        c.action = DO_LATENCY;
        if (!order(b, &c, ours + i * each))
            return false;
        c.action = DO_BARE_LATENCY;
        if (with_bare && !order(b, &c, bare + i * each))
            return false;
    }
    sort_values(ours, BATCHES * each);
    row->weir.latency_us = quantile(ours, BATCHES * each, 0.5);
    row->weir.p99_us = quantile(ours, BATCHES * each, 0.99);
    if (with_bare) {
        sort_values(bare, BATCHES * each);
        row->reference.latency_us = quantile(bare, BATCHES * each, 0.5);
        row->reference.p99_us = quantile(bare, BATCHES * each, 0.99);
    }
    return true;
}

static bool measure_bandwidth(struct bench *b, const struct options *o, struct row *row)
{
    double ours[RATES], bare[RATES], rate = 0;
    struct command c = {.method = (int32_t)row->method,
                        .bytes = row->bytes,
                        .action = DO_BANDWIDTH,
                        .iterations = 1,
                        .buffers = buffers_of(b, o)};
    bool with_bare = o->reference && has_bare(b);
    uint64_t window = WINDOW_BYTES / row->bytes;
    b->buffers = WINDOW_MAX;
    unsigned most = c.buffers > 1 ? slots_of(b, row->bytes) : WINDOW_MAX; /* with one, all have to do with it */
    c.window = (int32_t)(window < 4 ? 4 : window > most ? most : window);
    if (!order(b, &c, &rate) || !order(b, &c, &rate)) /* the first is a warm-up */
        return false;
    double n = o->point_s * 1e9 / RATES * rate / ((double)row->bytes * c.window);
    c.iterations = n < 1 ? 1 : n > 2000 ? 2000 : (int32_t)n;
    for (int i = 0; i < RATES; i++) {
        c.action = DO_BANDWIDTH;
        if (!order(b, &c, &ours[i]))
            return false;
        c.action = DO_BARE_BANDWIDTH;
        if (with_bare && !order(b, &c, &bare[i]))
            return false;
    }
    sort_values(ours, RATES);
    row->weir.gb_s = quantile(ours, RATES, 0.5);
    if (with_bare) {
        sort_values(bare, RATES);
        row->reference.gb_s = quantile(bare, RATES, 0.5);
    }
    return true;
}

static bool measure_peer(struct bench *b, const struct options *o)
{
    for (uint64_t bytes = o->min; bytes <= o->max; bytes *= o->factor)
        for (int m = 0; m < METHODS; m++) {
            struct row row = {.transport = weir_comm_transport(b->comm, b->peer),
                              .provider = weir_comm_provider(b->comm, b->peer),
                              .bytes = bytes,
                              .method = (enum method)m};
            if (!(o->methods >> m & 1))
                continue;
            if ((o->kinds & LATENCY && !measure_latency(b, o, &row)) ||
                (o->kinds & BANDWIDTH && !measure_bandwidth(b, o, &row)))
                return false;
            if (o->reference && has_bare(b))
                snprintf(row.reference_name, sizeof row.reference_name, "flag, memcpy");
            else if (o->reference && !tool_reference(b, o, &row))
                return false;
            print_row(o, &row);
        }
    return true;
}

/* ---- all ranks ---- */

/* Rank 0 measures with the first rank of each transport; tells every rank whether it is one. */
static bool find_peers(struct bench *b, char *is_peer)
{
    bool ok = true;
    for (int r = 1; r < b->size && b->rank == 0 && ok; r++) {
        const char *name = weir_comm_transport(b->comm, r);
        is_peer[r] = name != NULL;
        for (int before = 1; before < r && name; before++)
            if (is_peer[before] && !strcmp(weir_comm_transport(b->comm, before), name))
                is_peer[r] = 0;
        ok = check(b, weir_send(b->comm, &is_peer[r], 1, r, TAG_COMMAND), "weir_send");
    }
    if (b->rank)
        ok = check(b, weir_recv(b->comm, &is_peer[b->rank], 1, 0, TAG_COMMAND, NULL), "weir_recv");
    else
        is_peer[0] = 1;
    return ok;
}

static bool serve(struct bench *b)
{
    struct command c;
    for (;;) {
        if (!check(b, weir_recv(b->comm, &c, sizeof c, 0, TAG_COMMAND, NULL), "weir_recv"))
            return false;
        if (c.action == DO_QUIT)
            return true;
        if (!carry_out(b, &c, NULL))
            return false;
    }
}

static bool lead(struct bench *b, const struct options *o, const char *is_peer)
{
    struct command quit = {.action = DO_QUIT};
    bool ok = true;
    print_head(o);
    for (int r = 1; r < b->size && ok; r++) {
        b->peer = r;
        if (is_peer[r])
            ok = measure_peer(b, o);
    }
    print_foot(o);
    for (int r = 1; r < b->size; r++)
        ok &= check(b, weir_send(b->comm, &quit, sizeof quit, r, TAG_COMMAND), "weir_send");
    return ok;
}

/* The cheapest of some readings. */
static double cost_of_clock(void)
{
    double least = 1;
    for (int i = 0; i < 1000; i++) {
        double start = now_us(), end = now_us();
        least = end - start < least ? end - start : least;
    }
    return least;
}

static bool run(struct bench *b, const struct options *o)
{
    char *is_peer = calloc((size_t)b->size, 1);
    uint64_t stride = (o->max + 63) / 64 * 64;
    bool ok = is_peer && find_peers(b, is_peer);
    if (!ok)
        goto out;
    b->area = stride * ROTATION < 64 << 10 ? 64 << 10 : stride * ROTATION;
    uint64_t bytes = is_peer[b->rank] ? FLAGS + 2 * b->area : 0;
    ok = check(b, weir_mem_alloc(b->comm, bytes, 0, &b->mem), "weir_mem_alloc");
    if (!ok)
        goto out;
    b->clock_us = cost_of_clock();
    b->stamp = 1;
    if (bytes)
        memset(weir_mem_ptr(b->mem), 0, bytes);
    ok = b->rank ? serve(b) : lead(b, o, is_peer);
    ok = ok && check(b, weir_mem_free(b->mem), "weir_mem_free");
out:
    free(is_peer);
    return ok;
}

/* What --transport asks for, for this process and what it starts. */
static void choose_transport(const char *list)
{
    char name[8];
    const char *colon = list ? strchr(list, ':') : NULL;
    if (!list || strchr(list, ','))
        return;
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - list) : (int)strlen(list), list);
    setenv("WEIR_TRANSPORT", name, 1);
    if (colon)
        setenv(!strcmp(name, "ucx") ? "UCX_TLS" : "WEIR_OFI_PROVIDER", colon + 1, 1);
}

int main(int argc, char **argv)
{
    struct options o = {.min = 8,
                        .max = 4 << 20,
                        .factor = 8,
                        .methods = 7,
                        .kinds = LATENCY | BANDWIDTH,
                        .point_s = 0.1,
                        .reference = true};
    weir_init_options init = WEIR_INIT_OPTIONS_INIT;
    weir_error err;
    struct bench b = {0};
    int code = parse_options(&o, argc, argv);
    if (code >= 0)
        return code;
    choose_transport(o.transports);
    init.error = &err;
    if (weir_init(&init, &b.ctx)) {
        fprintf(stderr, "weir-p2p: %s%s%s\n", err.message, err.advice[0] ? "; " : "", err.advice);
        return 1;
    }
    b.rank = weir_rank(b.ctx);
    b.size = weir_size(b.ctx);
    if (b.size == 1) {
        weir_finalize(b.ctx);
        return drive(&o, argv);
    }
    bool ok = check(&b, weir_comm_world(b.ctx, &b.comm), "weir_comm_world") && run(&b, &o);
    if (b.failed && ok)
        fprintf(stderr, "weir-p2p: rank %d received wrong data\n", b.rank);
    if (!ok)
        return 1; /* the others may be somewhere else: no leaving together */
    return weir_finalize(b.ctx) || b.failed || fflush(stdout) || ferror(stdout) ? 1 : 0;
}
