/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same program against every transport: does it keep the rules of comm/transport/transport.h?
 * Exit status 0 passed, 1 failed, 2 wrong use, 77 the transport cannot be opened here (with the reason).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "tests/multi/conf_cases.h"
#include "tests/multi/descriptors.h"

static const struct conf_case cases[] = {
    {"am_sizes", conf_am_sizes},     {"am_order", conf_am_order},       {"am_reply", conf_am_reply},
    {"blocking", conf_blocking},     {"put_sizes", conf_put_sizes},     {"get_sizes", conf_get_sizes},
    {"put_signal", conf_put_signal}, {"bare_signal", conf_bare_signal}, {"outstanding", conf_outstanding},
    {"fence", conf_fence},           {"regions", conf_regions},         {"am_long", conf_am_long},
};

static void run_cases(struct conf_rank *r)
{
    conf_open(r);
    for (size_t i = 0; i < WR_ARRAY_SIZE(cases); i++) {
        if (r->options->only && strcmp(r->options->only, cases[i].name))
            continue;
        cases[i].run(r);
        conf_barrier(r);
        if (!r->rank)
            printf("ok %s %s %s\n", r->options->transport, cases[i].name,
                   r->t->caps.provider ? r->t->caps.provider : "");
    }
    CONF_ASSERT(r, !r->lost, "%d peers were reported lost", r->lost);
    conf_close(r);
}

/* Opens, talks and closes again and again: neither memory nor descriptors may grow. Memory is judged from so many openings on
 * that the libraries below have reached their pools' sizes at half time. */
enum { LIFETIMES_FOR_MEMORY = 20 };
static void run_lifetimes(struct conf_rank *r)
{
    long fds = 0;
    long rss = 0;
    struct rusage u;
    for (int i = 0; i < r->options->lifetimes; i++) {
        conf_open(r);
        r->random = (uint64_t)i;
        conf_bare_signal(r);
        conf_close(r);
        getrusage(RUSAGE_SELF, &u);
        if (i == r->options->lifetimes / 2) {
            fds = count_descriptors();
            rss = u.ru_maxrss;
        }
    }
    if (r->options->threads) /* one process: others are at other places */
        conf_barrier(r);
    long now = count_descriptors();
    bool ours = !strcmp(r->options->transport, "shm") || !strcmp(r->options->transport, "self");
    long slack = 4096 + (ours ? 0 : 8L * r->options->lifetimes); /* KiB; the libraries below keep some */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    slack += 64 << 10; /* they keep what was freed; the former finds what was not */
#endif
    CONF_ASSERT(r, r->options->threads || now <= fds, "%ld descriptors at half time, %ld at the end", fds, now);
    CONF_ASSERT(r, r->options->lifetimes < LIFETIMES_FOR_MEMORY || u.ru_maxrss <= rss + slack,
                "peak memory grew from %ld to %ld KiB in the second half", rss, u.ru_maxrss);
}

static int probe(const struct conf_options *o)
{
    struct wr_transport *t;
    struct wr_config config;
    weir_error err;
    int self = 0;
    const struct wr_transport_ops *ops = wr_transport_find(o->transport);
    if (!ops) {
        printf("SKIP: the transport %s is not built in\n", o->transport);
        return 77;
    }
    if (wr_config_load(&config, NULL, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    struct wr_transport_params p = {.config = &config,
                                    .size = 1,
                                    .node_size = 1,
                                    .node_ranks = &self,
                                    .numa = -1,
                                    .timeout_ns = 10 * INT64_C(1000000000)};
    weir_status status = ops->open(&p, &t, &err);
    if (!status)
        t->ops->close(t);
    wr_config_free(&config);
    if (!status)
        return 0;
    printf("%s: %s does not open: %s\n", status == WEIR_ERR_UNSUPPORTED ? "SKIP" : "FAIL", o->transport,
           err.message);
    return status == WEIR_ERR_UNSUPPORTED ? 77 : 1;
}

/* In a process of its own: what libraries open in it (verbs devices) is of no use to ranks that are forked later. */
static int probe_apart(const struct conf_options *o)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    if (!pid)
        exit(probe(o));
    if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}

static void usage(FILE *to)
{
    fprintf(to, "usage: transport_conformance -t TRANSPORT [-n RANKS] [-T (threads)] [-l LAYER,...] [-b "
                "MAXBYTES] [-r ROUNDS]\n"
                "                             [-L LIFETIMES] [-s SEED] [-c CASE]\ncases:");
    for (size_t i = 0; i < WR_ARRAY_SIZE(cases); i++)
        fprintf(to, " %s", cases[i].name);
    fprintf(to, "\n");
}

int main(int argc, char **argv)
{
    struct conf_options o = {.layers = "", .ranks = 2, .max_bytes = 4 << 20, .rounds = 50, .seed = 1};
    int c;
    while ((c = getopt(argc, argv, "t:n:Tl:b:r:L:s:c:h")) != -1) {
        int64_t number = 0;
        if (strchr("nrLs", c) && !wr_parse_int(optarg, &number))
            return usage(stderr), 2;
        switch (c) {
        case 't':
            o.transport = optarg;
            break;
        case 'n':
            o.ranks = (int)number;
            break;
        case 'T':
            o.threads = true;
            break;
        case 'l':
            o.layers = optarg;
            break;
        case 'b':
            if (!wr_parse_bytes(optarg, &o.max_bytes))
                return usage(stderr), 2;
            break;
        case 'r':
            o.rounds = (int)number;
            break;
        case 'L':
            o.lifetimes = (int)number;
            break;
        case 's':
            o.seed = (uint64_t)number;
            break;
        case 'c':
            o.only = optarg;
            break;
        default:
            usage(c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (!o.transport || o.ranks < 1 || o.ranks > CONF_RANKS)
        return usage(stderr), 2;
    int status = probe_apart(&o);
    if (status)
        return status;
    int failed = conf_run(&o, o.lifetimes ? run_lifetimes : run_cases);
    printf("%s %s%s%s: %d ranks as %s, %s\n", failed ? "FAIL" : "PASS", o.transport, *o.layers ? "+" : "",
           o.layers, o.ranks, o.threads ? "threads" : "processes", o.lifetimes ? "lifetimes" : "cases");
    return failed ? 1 : 0;
}
