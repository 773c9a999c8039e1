/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-startup: how long a job takes to start, and what that costs in memory, beside Open MPI and MPICH on the same
 * machine. Runs of all are alternated, so that a noisy moment hits everybody; medians are reported.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <weir/weir.h>

#include "perf/startup-run.h"

enum { ARGS_MAX = 16, LAUNCHES_MAX = 32, PATH_LEN = 512 };

/* One way to start one program. */
struct series {
    const char *product, *launcher; /* for the table */
    const char *program;            /* what the ranks run, in the folder of such programs */
    const char *argv[ARGS_MAX];     /* the launcher; the number of ranks and the program are appended */
    bool slurm, with_topo;
    bool present;
    bool gave_up; /* failed at a smaller number of ranks */
};

#define BY(...) .argv = {__VA_ARGS__, NULL}

static struct series all_series[] = {
    {.product = "weir", .launcher = "weirrun", .program = "startup-weir", BY("weirrun", "-n"), .with_topo = true},
#ifdef OPENMPI_MPIEXEC
    {.product = "Open MPI",
     .launcher = "mpirun",
     .program = "startup-openmpi",
     BY(OPENMPI_MPIEXEC, "--oversubscribe", "--allow-run-as-root", "-n")},
#endif
#ifdef MPICH_MPIEXEC
    {.product = "MPICH", .launcher = "mpiexec", .program = "startup-mpich", BY(MPICH_MPIEXEC, "-n")},
#endif
    {.product = "weir",
     .launcher = "srun pmi2",
     .program = "startup-weir",
     BY("srun", "--overcommit", "--mpi=pmi2", "-n"),
     .slurm = true,
     .with_topo = true},
    {.product = "weir",
     .launcher = "srun pmix",
     .program = "startup-weir",
     BY("srun", "--overcommit", "--mpi=pmix", "-n"),
     .slurm = true,
     .with_topo = true},
#ifdef OPENMPI_MPIEXEC
    {.product = "Open MPI",
     .launcher = "srun pmix",
     .program = "startup-openmpi",
     BY("srun", "--overcommit", "--mpi=pmix", "-n"),
     .slurm = true},
#endif
#ifdef MPICH_MPIEXEC
    {.product = "MPICH",
     .launcher = "srun pmi2",
     .program = "startup-mpich",
     BY("srun", "--overcommit", "--mpi=pmi2", "-n"),
     .slurm = true},
#endif
};
enum { NSERIES = sizeof all_series / sizeof all_series[0] };

struct options {
    int max_ranks, launches;
    double timeout_s;
    bool json, no_srun;
    const char *weirrun;
};

struct result {
    int ranks, launches;
    const struct series *series;
    double wall_s, init_s, topo_s, pss_kib;
    char why[256];
};

static const char usage_text[] =
    "usage: weir-startup [--max N] [--launches K] [--timeout S] [--no-srun] [--weirrun PATH] [--json]\n"
    "\n"
    "Starts jobs of 1, 2, 4, ... N ranks and reports medians of: the time of the whole launch, the time that the "
    "slowest\n"
    "rank spends in the library's initialisation, and the memory that a rank grows by; for weir under weirrun and\n"
    "srun, beside Open MPI and MPICH where weir was built beside them.\n"
    "\n"
    "  --max N         largest number of ranks (64)\n"
    "  --launches K    launches of each kind (5)\n"
    "  --timeout S     seconds after which a launch is given up (60)\n"
    "  --no-srun       leave Slurm out even when it is reachable\n"
    "  --weirrun PATH  the weirrun to use\n"
    "  --json          results as JSON\n";

static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"max", required_argument, NULL, 'n'},
        {"launches", required_argument, NULL, 'k'},
        {"timeout", required_argument, NULL, 't'},
        {"no-srun", no_argument, NULL, 's'},
        {"weirrun", required_argument, NULL, 'w'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        switch (c) {
        case 'n':
            o->max_ranks = atoi(optarg);
            break;
        case 'k':
            o->launches = atoi(optarg);
            break;
        case 't':
            o->timeout_s = atof(optarg);
            break;
        case 's':
            o->no_srun = true;
            break;
        case 'w':
            o->weirrun = optarg;
            break;
        case 'j':
            o->json = true;
            break;
        case 'h':
            fputs(usage_text, stdout);
            return 0;
        case 'V':
            printf("weir-startup %s\n", weir_version());
            return 0;
        default:
            fputs("weir-startup: 'weir-startup --help' lists the options\n", stderr);
            return 2;
        }
    }
    if (optind < argc || o->max_ranks < 1 || o->max_ranks > 65536 || o->launches < 1 || o->launches > LAUNCHES_MAX ||
        o->timeout_s <= 0) {
        fprintf(stderr,
                "weir-startup: --max is 1 to 65536, --launches 1 to %d, --timeout above 0, and nothing else is taken\n",
                LAUNCHES_MAX);
        return 2;
    }
    return -1;
}

/* The folder of this program; programs that libtool has not installed yet lie in .libs below theirs. */
static void own_folder(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    if ((slash = strrchr(path, '/')) && !strcmp(slash, "/.libs"))
        *slash = '\0';
}

/* Finds a file beside this program, or where it is installed; false when it is in neither place. */
static bool find(const char *folder, const char *relative, const char *installed, const char *name, char *path,
                 size_t size)
{
    snprintf(path, size, "%s/%s%s", folder, relative, name);
    if (!access(path, X_OK))
        return true;
    snprintf(path, size, "%s/%s", installed, name);
    return !access(path, X_OK);
}

static bool has_slurm(void)
{
    static const char *const sinfo[] = {"sinfo", "--noheader", "--states=idle,mixed,allocated", NULL};
    char line[256] = "";
    return launch_quiet((char *const *)sinfo, line, sizeof line) && *line;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    if (!n)
        return 0;
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static bool launch_once(const struct series *s, const char *program, int ranks, double timeout_s, struct launch *launch)
{
    char count[16];
    const char *argv[ARGS_MAX + 3];
    int n = 0;
    snprintf(count, sizeof count, "%d", ranks);
    while (s->argv[n]) {
        argv[n] = s->argv[n];
        n++;
    }
    argv[n++] = count;
    argv[n++] = program;
    argv[n] = NULL;
    return launch_run((char *const *)argv, ranks, timeout_s, launch);
}

/* All series with `ranks` ranks, alternating. Fills in results[NSERIES]. */
static void measure(const struct options *o, char programs[][PATH_LEN], int ranks, struct result *results)
{
    static double wall[NSERIES][LAUNCHES_MAX], init[NSERIES][LAUNCHES_MAX], topo[NSERIES][LAUNCHES_MAX],
        pss[NSERIES][LAUNCHES_MAX];
    for (int i = 0; i < NSERIES; i++)
        results[i] = (struct result){.ranks = ranks, .series = &all_series[i]};
    for (int k = 0; k < o->launches; k++)
        for (int i = 0; i < NSERIES; i++) {
            struct series *s = &all_series[i];
            struct launch launch;
            if (!s->present || s->gave_up)
                continue;
            if (!launch_once(s, programs[i], ranks, o->timeout_s, &launch)) {
                s->gave_up = true;
                memcpy(results[i].why, launch.why, sizeof results[i].why);
                fprintf(stderr, "weir-startup: %s by %s with %d ranks: %s\n", s->product, s->launcher, ranks,
                        launch.why);
                continue;
            }
            int n = results[i].launches++;
            wall[i][n] = launch.wall_s;
            init[i][n] = launch.init_s;
            topo[i][n] = launch.topo_s;
            pss[i][n] = launch.pss_kib;
        }
    for (int i = 0; i < NSERIES; i++) {
        int n = results[i].launches;
        results[i].wall_s = median(wall[i], n);
        results[i].init_s = median(init[i], n);
        results[i].topo_s = median(topo[i], n);
        results[i].pss_kib = median(pss[i], n);
    }
}

static void print_rows(const struct options *o, const struct result *results, bool *first)
{
    for (int i = 0; i < NSERIES; i++) {
        const struct result *r = &results[i];
        if (!r->launches)
            continue;
        if (o->json) {
            printf("%s\n    {\"ranks\": %d, \"library\": \"%s\", \"launcher\": \"%s\", \"launches\": %d, "
                   "\"launch_ms\": %.3f, "
                   "\"init_ms\": %.3f, ",
                   *first ? "" : ",", r->ranks, r->series->product, r->series->launcher, r->launches, r->wall_s * 1e3,
                   r->init_s * 1e3);
            if (r->series->with_topo)
                printf("\"topo_ms\": %.3f, ", r->topo_s * 1e3);
            printf("\"pss_growth_kib\": %.0f}", r->pss_kib);
            *first = false;
            continue;
        }
        char topo[32] = "-";
        if (r->series->with_topo)
            snprintf(topo, sizeof topo, "%.2f", r->topo_s * 1e3);
        printf("%5d  %-8s  %-9s  %10.1f  %9.2f  %9s  %12.2f\n", r->ranks, r->series->product, r->series->launcher,
               r->wall_s * 1e3, r->init_s * 1e3, topo, r->pss_kib / 1024);
    }
    if (!o->json)
        puts("");
    fflush(stdout);
}

static void print_head(const struct options *o)
{
    struct utsname name;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool known = !uname(&name);
    if (o->json) {
        printf(
            "{\n  \"weir\": \"%s\",\n  \"kernel\": \"%s\",\n  \"machine\": \"%s\",\n  \"cpus\": %ld,\n  \"results\": [",
            weir_version(), known ? name.release : "", known ? name.machine : "", cores);
        return;
    }
    printf("# weir-startup %s on %ld cpus, Linux %s %s; medians of %d launches, all kinds in turn\n", weir_version(),
           cores, known ? name.release : "", known ? name.machine : "", o->launches);
    puts("# launch: the launcher's start to its end; init: the slowest rank's weir_init or MPI_Init; topo: its first\n"
         "# weir_ctx_topo; memory: growth of a rank's PSS (without pages of files) by these, mean");
    puts("ranks  library   launcher   launch(ms)   init(ms)   topo(ms)  memory(MiB)\n");
}

int main(int argc, char **argv)
{
    struct options o = {.max_ranks = 64, .launches = 5, .timeout_s = 60};
    static char programs[NSERIES][PATH_LEN];
    char folder[PATH_LEN - 64], weirrun[PATH_LEN];
    int code = parse_options(&o, argc, argv);
    if (code >= 0)
        return code;
    own_folder(folder, sizeof folder);
    if (!o.weirrun && find(folder, "../tools/", WEIR_BINDIR, "weirrun", weirrun, sizeof weirrun))
        o.weirrun = weirrun;
    if (o.weirrun)
        all_series[0].argv[0] = o.weirrun;
    bool slurm = !o.no_srun && has_slurm(), ok = true, first = true;
    for (int i = 0; i < NSERIES; i++) {
        struct series *s = &all_series[i];
        s->present =
            find(folder, "", WEIR_LIBEXECDIR, s->program, programs[i], sizeof programs[i]) && (!s->slurm || slurm);
    }
    if (!all_series[0].present) {
        fprintf(stderr, "weir-startup: its program startup-weir is neither in %s nor in %s: was weir installed?\n",
                folder, WEIR_LIBEXECDIR);
        return 1;
    }
    print_head(&o);
    for (int ranks = 1; ranks <= o.max_ranks; ranks *= 2) {
        struct result results[NSERIES];
        measure(&o, programs, ranks, results);
        print_rows(&o, results, &first);
        for (int i = 0; i < NSERIES; i++)
            ok &= !*results[i].why || strcmp(results[i].series->product, "weir") != 0;
    }
    if (o.json)
        puts("\n  ]\n}");
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "weir-startup: the standard output could not be written\n");
        return 1;
    }
    return ok ? 0 : 1; /* a peer's failure is reported, but is not ours */
}
