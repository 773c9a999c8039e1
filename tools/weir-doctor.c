/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-doctor: looks for what will hurt a job on these hosts, and says how to mend it. */
#include "tools/weir-doctor.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/fabrics.h"
#include "tools/launcher.h"

static const char usage_text[] =
    "usage: weir-doctor [--json]\n"
    "\n"
    "Looks for what will hurt a job on this host: limits, shared memory, copies between processes, huge pages,\n"
    "binding, network interfaces, PMI libraries, libfabric providers and UCX transports that do not open, clocks.\n"
    "Started as several ranks it looks at all their hosts, and rank 0 speaks for all.\n"
    "\n"
    "  --json     the findings as one JSON object\n"
    "  --help     this text\n"
    "  --version  the version\n"
    "\n"
    "Exit code: 0, 1 when there is a PROBLEM, 2 for a wrong command line.\n"
    "Try: weirrun -n 2 weir-doctor\n";

/* Returns -1 to go on, or the exit code. */
static int parse_options(bool *json, int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        switch (c) {
        case 'j':
            *json = true;
            break;
        case 'h':
            fputs(usage_text, stdout);
            return 0;
        case 'V':
            printf("weir-doctor %s\n", weir_version());
            return 0;
        default:
            fputs("weir-doctor: 'weir-doctor --help' lists the options\n", stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "weir-doctor: unexpected argument '%s'; 'weir-doctor --help' lists the options\n", argv[optind]);
        return 2;
    }
    return -1;
}

static void join(struct doctor *d)
{
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    wr_error_clear(&d->error);
    options.error = &d->error;
    options.config = launcher_quiet_config();
    d->config_ok = wr_config_load(&d->config, NULL, NULL, &d->error) == WEIR_OK;
    d->size = 1;
    if (!d->config_ok || weir_init(&options, &d->ctx)) {
        d->ctx = NULL;
        d->rank = launcher_reports(&d->error) ? 0 : launcher_guess_rank();
        return;
    }
    d->rank = weir_rank(d->ctx);
    d->size = weir_size(d->ctx);
    if (weir_ctx_topo(d->ctx, &d->topo)) {
        d->topo = NULL;
        d->error = *weir_last_error(d->ctx);
    }
}

/* The checks that need no other rank. */
static void look(struct doctor *d)
{
    if (d->rank == 0)
        doctor_check_launcher(d);
    if (d->topo ? weir_topo_local_rank(d->topo, d->rank) == 0 : d->rank == 0) {
        doctor_check_pmi(d);
        doctor_check_config(d);
        doctor_check_memory_host(d);
        doctor_check_kernel(d);
        doctor_check_fabrics(d);
    }
    doctor_check_memory_process(d);
    doctor_check_limits(d);
    doctor_check_cpus(d);
    doctor_check_nics(d);
    if (d->rank == 0)
        doctor_check_binding(d);
}

/* Brings the findings together; whoever fails in it says so and keeps its own. */
static void confer(struct doctor *d)
{
    weir_status status = WEIR_OK;
    if (d->ctx && d->size > 1)
        status = doctor_check_clocks(d);
    if (!status)
        status = doctor_gather(d);
    if (status)
        doctor_say(d, LEVEL_PROBLEM, SCOPE_JOB, "launcher", *d->error.advice ? d->error.advice : NULL,
                   "the ranks could not confer: %s", d->error.message);
}

/* Returns the exit code. */
static int report(const struct doctor *d, bool json)
{
    weir_error error;
    wr_error_clear(&error);
    if (json && doctor_print_json(d, stdout, &error)) {
        char line[1200];
        fprintf(stderr, "weir-doctor: %s\n", wr_error_line(&error, line, sizeof line));
        return 1;
    }
    if (!json)
        doctor_print(d, stdout);
    if (fflush(stdout) || ferror(stdout) || d->failed) {
        fprintf(stderr, "weir-doctor: %s\n", d->failed ? "out of memory, findings are missing" : "the standard output could not be written");
        return 1;
    }
    return doctor_count(d, LEVEL_PROBLEM) ? 1 : 0;
}

static int run_probe(const char *name)
{
    int rc = fabrics_probe(name);
    if (rc < 0)
        rc = doctor_probe_kernel(name);
    if (rc < 0)
        rc = doctor_probe_pmi(name);
    return rc < 0 ? 2 : rc;
}

int main(int argc, char **argv)
{
    struct doctor doctor;
    bool json = false;
    memset(&doctor, 0, sizeof doctor);
    if (argc == 3 && !strcmp(argv[1], "--probe")) /* started by probes_run(), never by people */
        return run_probe(argv[2]);
    int code = parse_options(&json, argc, argv);
    if (code >= 0)
        return code;
    join(&doctor);
    /* without a job every rank would say the same: the first one does */
    if (doctor.ctx || doctor.rank == 0) {
        look(&doctor);
        confer(&doctor);
    }
    code = doctor.rank == 0 ? report(&doctor, json) : doctor.ctx ? 0 : 1;
    weir_finalize(doctor.ctx);
    free(doctor.list);
    if (doctor.config_ok)
        wr_config_free(&doctor.config);
    return code;
}
