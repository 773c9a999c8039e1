/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks were started: launcher, PMI libraries, configuration. */
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "tools/launcher.h"
#include "tools/probe.h"
#include "tools/weir-doctor.h"

void doctor_check_launcher(struct doctor *d)
{
    char launcher[160];
    if (!d->ctx) {
        doctor_say(d, LEVEL_PROBLEM, SCOPE_JOB, "launcher", *d->error.advice ? d->error.advice : NULL, "%s", d->error.message);
        return;
    }
    doctor_say(d, LEVEL_OK, SCOPE_JOB, "launcher", NULL, "%d rank%s, %s; bootstrap %s", d->size,
               d->size == 1 ? "" : "s", launcher_describe(weir_boot_name(d->ctx), launcher, sizeof launcher),
               weir_boot_name(d->ctx));
    if (!d->topo)
        doctor_say(d, LEVEL_PROBLEM, SCOPE_JOB, "topology", *d->error.advice ? d->error.advice : NULL, "%s", d->error.message);
}

struct pmi {
    const char *name, *probe, *library, *symbol, *mark; /* mark: a variable of the environment that it is there */
};

static const struct pmi flavours[] = {
    {"PMIx", "pmix", "libpmix.so.2", "PMIx_Init", "PMIX_NAMESPACE"},
    {"PMI-2", "pmi2", "libpmi2.so.0", "PMI2_Init", NULL},
};

/* Opens the library and looks for its first function; answers "ok" or the reason. */
int doctor_probe_pmi(const char *name)
{
    for (size_t i = 0; i < WR_ARRAY_SIZE(flavours); i++) {
        struct wr_config config;
        if (strcmp(name, flavours[i].probe))
            continue;
        FILE *out = probe_begin();
        if (!out || wr_config_load(&config, NULL, NULL, NULL))
            return 2;
        const char *chosen = i == 0 ? config.pmix_lib : config.pmi2_lib;
        void *library = dlopen(chosen ? chosen : flavours[i].library, RTLD_NOW | RTLD_LOCAL);
        const char *why = library ? NULL : dlerror();
        if (library && !dlsym(library, flavours[i].symbol))
            why = "it has no function of that PMI";
        fprintf(out, "%s\t%s\n", chosen ? chosen : flavours[i].library, why ? why : "ok");
        wr_config_free(&config);
        return fclose(out) ? 2 : 0;
    }
    return -1;
}

static void say_pmi(struct doctor *d, const struct pmi *pmi, const char *library, const char *why)
{
    bool here = pmi->mark && wr_env_get(NULL, pmi->mark);
    bool used = d->ctx && !strcmp(weir_boot_name(d->ctx), pmi->probe);
    if (!why)
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "PMI", NULL, "%s would open (%s)%s", pmi->name, library,
                   used ? ", and started this job" : here ? ", and its launcher is here" : "");
    else if (here && !used)
        doctor_say(d, LEVEL_PROBLEM, SCOPE_NODE, "PMI",
                   "install the launcher's client library or name it in WEIR_PMIX_LIB, or use srun --mpi=pmi2",
                   "a launcher offers %s, but its library does not open: %s", pmi->name, why);
    else
        doctor_say(d, LEVEL_NOTE, SCOPE_NODE, "PMI", NULL, "%s does not open: %s", pmi->name, why);
}

void doctor_check_pmi(struct doctor *d)
{
    struct probe probes[WR_ARRAY_SIZE(flavours)];
    memset(probes, 0, sizeof probes);
    for (size_t i = 0; i < WR_ARRAY_SIZE(flavours); i++)
        wr_str_copy(probes[i].name, sizeof probes[i].name, flavours[i].probe);
    probes_run(probes, WR_ARRAY_SIZE(flavours), PROBE_TIMEOUT_MS);
    for (size_t i = 0; i < WR_ARRAY_SIZE(flavours); i++) {
        char failure[96], *text = probes[i].text.data, *field[2];
        if (probe_next_line(&text, field, 2) == 2)
            say_pmi(d, &flavours[i], field[0], strcmp(field[1], "ok") ? field[1] : NULL);
        else if (probe_failure(&probes[i], PROBE_TIMEOUT_MS, failure, sizeof failure))
            say_pmi(d, &flavours[i], flavours[i].library, failure);
        probe_free(&probes[i]);
    }
    if (wr_env_get(NULL, "PMI_FD") || wr_env_get(NULL, "PMI_PORT"))
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "PMI", NULL, "a launcher speaks the PMI-1 wire protocol, which needs no library");
}

static void say_unknown(void *arg, const char *name, const char *nearest)
{
    char fix[200];
    if (nearest)
        snprintf(fix, sizeof fix, "did you mean %s?", nearest);
    doctor_say(arg, LEVEL_WARNING, SCOPE_NODE, "configuration", nearest ? fix : "weir-info --config lists the variables",
               "%s is set, but weir has no such variable", name);
}

void doctor_check_config(struct doctor *d)
{
    wr_config_unknown(NULL, say_unknown, d);
}
