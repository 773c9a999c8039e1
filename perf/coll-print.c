/* SPDX-License-Identifier: BSD-3-Clause */
/* The set-up, and a line for each size: a table in the manner of nccl-tests, or JSON. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "perf/coll-loop.h"

static const char *const memory_names[] = {"heap", "registered", "node-shared"};

static const char *combined(const struct coll_options *o)
{
    return coll_reduces(o->coll) ? coll_op_name(o->op) : "none";
}

/* On how many hardware threads each rank may run, and the first of them; to rank 0. */
static bool find_pinning(const struct coll_backend *be, double *threads, double *first)
{
    cpu_set_t set;
    memset(threads, 0, sizeof *threads * (size_t)be->size);
    memset(first, 0, sizeof *first * (size_t)be->size);
    if (!sched_getaffinity(0, sizeof set, &set)) {
        threads[be->rank] = CPU_COUNT(&set);
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &set)) {
                first[be->rank] = i;
                break;
            }
    }
    return be->combine(be->self, threads, be->size, true) && be->combine(be->self, first, be->size, true);
}

static void print_pinning(const struct coll_backend *be, const double *threads, const double *first)
{
    int shown = be->size < 16 ? be->size : 16;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    printf("# cpus of the ranks:");
    for (int r = 0; r < shown; r++) {
        if (threads[r] == 1)
            printf(" %.0f", first[r]);
        else
            printf(" %s(%.0f)", threads[r] >= (double)all ? "any" : "several", threads[r]);
    }
    puts(shown < be->size ? " ..." : "");
}

bool coll_print_head(const struct coll_backend *be, const struct coll_options *o, bool by_clock)
{
    double *threads = malloc(2 * sizeof *threads * (size_t)be->size);
    struct utsname name = {0};
    bool ok = threads && find_pinning(be, threads, threads + be->size);
    if (ok && be->rank == 0 && !o->json) {
        uname(&name);
        printf("# %s: %s; %s\n# %d rank%s on %d node%s, transport %s; Linux %s %s, %ld cpus\n", be->program,
               coll_name(o->coll), be->version, be->size, be->size == 1 ? "" : "s", be->nodes,
               be->nodes == 1 ? "" : "s", be->transport, name.release, name.machine, sysconf(_SC_NPROCESSORS_ONLN));
        print_pinning(be, threads, threads + be->size);
        printf("# %s memory, %s calls%s; the root is rank 0\n", memory_names[o->memory],
               o->reference    ? "no"
               : o->persistent ? "persistent"
                               : "blocking",
               o->reference ? " but loops that move the same bytes" : "");
        printf("# A sample is the slowest rank's time after all %s. stream: a batch of calls on buffers of their own, "
               "divided by\n"
               "# their number; sync: one call. Every call has new data in another buffer. Sizes: what a rank gives; "
               "for scatter what\n"
               "# the root gives. algbw: size, for (all)gather times the ranks, by time.\n",
               by_clock ? "begin at one moment (one clock)" : "left a barrier");
        printf("%12s %12s %7s %5s %7s %10s %10s %10s %8s %8s %7s\n", "size(B)", "count", "type", "op", "method",
               "median(us)", "min(us)", "p99(us)", "algbw", "busbw", "wrong");
        fflush(stdout);
    }
    free(threads);
    return ok;
}

void coll_print_row(const struct coll_backend *be, const struct coll_options *o, const struct coll_row *row)
{
    const char *method = row->stream ? "stream" : "sync";
    char wrong[32];
    if (row->checked)
        snprintf(wrong, sizeof wrong, "%.0f", row->wrong);
    else
        snprintf(wrong, sizeof wrong, "%s", o->json ? "null" : "-");
    if (o->json)
        printf("{\"coll\":\"%s\",\"bytes\":%llu,\"count\":%llu,\"type\":\"%s\",\"op\":\"%s\",\"ranks\":%d,\"nodes\":%d,"
               "\"algo\":\"%s\","
               "\"median_us\":%.4f,\"min_us\":%.4f,\"p99_us\":%.4f,\"algbw\":%.4f,\"busbw\":%.4f,\"wrong\":%s,"
               "\"library\":\"%s\","
               "\"transport\":\"%s\",\"memory\":\"%s\",\"persistent\":%s,\"method\":\"%s\",\"samples\":%d}\n",
               coll_name(o->coll), (unsigned long long)row->bytes, (unsigned long long)row->count,
               coll_type_name(o->type), combined(o), be->size, be->nodes, o->reference ? "reference" : "auto",
               row->median_us, row->min_us, row->p99_us, row->algbw, row->busbw, wrong, be->version, be->transport,
               memory_names[o->memory], o->persistent ? "true" : "false", method, row->iterations);
    else
        printf("%12llu %12llu %7s %5s %7s %10.2f %10.2f %10.2f %8.2f %8.2f %7s\n", (unsigned long long)row->bytes,
               (unsigned long long)row->count, coll_type_name(o->type), combined(o), method, row->median_us,
               row->min_us, row->p99_us, row->algbw, row->busbw, wrong);
    fflush(stdout);
}
