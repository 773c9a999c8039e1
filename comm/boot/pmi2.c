/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Started by a launcher with a PMI-2 client library: srun --mpi=pmi2, Cray's PALS and srun --mpi=cray_shasta. The library
 * is opened at run time; its functions are few and declared here.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "comm/boot/components.h"
#include "comm/boot/launcher.h"
#include "comm/boot/store.h"
#include "comm/boot/timed.h"

enum {
    PMI2_KEY_MAX = 63,     /* of 64 */
    PMI2_VALUE_MAX = 1000, /* of 1024, with some room for the wire's own words */
    PMI2_ATTRIBUTE_MAX = 1024
};

/* The library, and what it said. */
struct pmi2 {
    void *library;
    int (*init)(int *spawned, int *size, int *rank, int *appnum);
    int (*initialized)(void);
    int (*finalize)(void);
    int (*abort)(int flag, const char message[]);
    int (*job_id)(char id[], int size);
    int (*job_rank)(int *rank);
    int (*put)(const char key[], const char value[]);
    int (*fence)(void);
    int (*get)(const char *job, int source, const char key[], char value[], int size, int *len);
    int (*job_attribute)(const char name[], char value[], int size, int *found);
    int rank, size;
    bool ours;   /* initialised by us, so finalized by us */
    bool broken; /* a call was abandoned and may still be inside the library */
    char job[128];
    int64_t timeout_ns;
};

static struct wr_shared shared = WR_SHARED_INIT;

#ifdef HAVE_PMI2
static const bool built_in = true;
#else
static const bool built_in = false; /* configure --without-pmi2 */
#endif

static bool pmi2_detect(const struct wr_boot_params *params, const char **why)
{
    const struct wr_env *env = params->env;
    const char *reason = NULL;
    if (wr_env_get(env, "PMI_FD") && wr_env_get(env, "PMI_JOBID") && wr_in_srun_step(env))
        reason = "PMI_FD and PMI_JOBID are set in a step of srun";
    else if (wr_env_get(env, "PMI_CONTROL_PORT") || wr_env_get(env, "PALS_RANKID"))
        reason = "the variables of Cray's PMI are set";
    if (why && reason)
        *why = reason;
    return reason != NULL;
}

/* ---- opening the library ---- */

static weir_status find_functions(struct pmi2 *p, const char *name, weir_error *err)
{
    const struct {
        const char *name;
        void *slot;
        bool needed;
    } functions[] = {
        {"PMI2_Init", &p->init, true},
        {"PMI2_Initialized", &p->initialized, false},
        {"PMI2_Finalize", &p->finalize, true},
        {"PMI2_Abort", &p->abort, true},
        {"PMI2_Job_GetId", &p->job_id, true},
        {"PMI2_Job_GetRank", &p->job_rank, false},
        {"PMI2_KVS_Put", &p->put, true},
        {"PMI2_KVS_Fence", &p->fence, true},
        {"PMI2_KVS_Get", &p->get, true},
        {"PMI2_Info_GetJobAttr", &p->job_attribute, false},
    };
    for (size_t i = 0; i < WR_ARRAY_SIZE(functions); i++) {
        void *symbol = dlsym(p->library, functions[i].name);
        if (!symbol && functions[i].needed)
            return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "set WEIR_PMI2_LIB to a PMI-2 client library",
                                "the library %s has no function %s", name, functions[i].name);
        memcpy(functions[i].slot, &symbol, sizeof symbol);
    }
    return WEIR_OK;
}

static weir_status open_library(struct pmi2 *p, const struct wr_config *config, weir_error *err)
{
    const char *const usual[] = {"libpmi2.so.0", "libpmi2.so", "libpmi.so.0", NULL}; /* the last is Cray's */
    const char *const given[] = {config->pmi2_lib, NULL};
    weir_status status = WEIR_OK;
    for (const char *const *name = config->pmi2_lib ? given : usual; *name; name++) {
        p->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (!p->library)
            continue;
        status = find_functions(p, *name, err);
        if (status == WEIR_OK)
            return WEIR_OK;
        dlclose(p->library);
        p->library = NULL;
    }
    if (status != WEIR_OK)
        return status;
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install Slurm's or Cray's PMI-2 client library, or set WEIR_PMI2_LIB to its path",
                        "the launcher offers PMI-2, but no client library can be opened: %s", dlerror());
}

/* ---- calls that may wait for other ranks ---- */

struct call {
    struct pmi2 *p;
    enum { CALL_INIT, CALL_FENCE, CALL_GET } what;
    int rc, rank, size, source, len;
    char job[128], key[64], value[PMI2_VALUE_MAX + 25];
};

static void call_run(void *arg)
{
    struct call *c = arg;
    int spawned, appnum;
    switch (c->what) {
    case CALL_INIT:
        c->rc = c->p->init(&spawned, &c->size, &c->rank, &appnum);
        break;
    case CALL_FENCE:
        c->rc = c->p->fence();
        break;
    case CALL_GET:
        c->rc = c->p->get(c->job, c->source, c->key, c->value, (int)sizeof c->value, &c->len);
        break;
    }
}

/* Makes the call; on success *call may be read and must be freed. */
static weir_status call_timed(struct pmi2 *p, struct call *call, const char *name, weir_error *err)
{
    char text[32];
    call->p = p;
    if (p->broken) {
        free(call);
        return wr_error_set(err, WEIR_ERR_LAUNCHER, "see why the earlier call failed", "an earlier call of PMI-2 has not returned");
    }
    if (!wr_timed_run(call_run, free, call, p->timeout_ns)) {
        p->broken = true;
        return wr_error_set(err, WEIR_ERR_TIMEOUT, "see whether all ranks run, or raise WEIR_BOOT_TIMEOUT",
                            "%s has not returned within %s", name, wr_format_time(p->timeout_ns, text, sizeof text));
    }
    int rc = call->rc;
    if (!rc)
        return WEIR_OK;
    free(call);
    return wr_error_set(err, WEIR_ERR_LAUNCHER, "see whether the launcher reports an error", "%s returned %d", name, rc);
}

static struct call *call_new(int what, weir_error *err)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        wr_error_memory(err, sizeof *call, "a call of PMI-2");
    else
        call->what = what;
    return call;
}

/* ---- the connection of the process ---- */

static void finalize(void *connection)
{
    struct pmi2 *p = connection;
    if (p->ours && !p->broken)
        p->finalize();
    free(p); /* the library stays open: it may have registered handlers of its own */
}

static void finalize_at_exit(void)
{
    wr_shared_end(&shared, finalize);
}

/* Joins, unless another part of the program (an MPI) has done so. */
static weir_status join(struct pmi2 *p, const struct wr_env *env, weir_error *err)
{
    p->ours = !p->initialized || !p->initialized();
    if (p->ours) {
        struct call *call = call_new(CALL_INIT, err);
        if (!call)
            return WEIR_ERR_NO_MEMORY;
        weir_status status = call_timed(p, call, "PMI2_Init", err);
        if (status != WEIR_OK)
            return status;
        p->rank = call->rank;
        p->size = call->size;
        free(call);
    } else {
        p->size = (int)wr_env_number(env, "PMI_SIZE", wr_env_number(env, "SLURM_STEP_NUM_TASKS", -1));
        p->rank = -1;
        if (p->job_rank)
            p->job_rank(&p->rank);
    }
    if (p->rank < 0 || p->size < 1 || p->rank >= p->size)
        return wr_error_set(err, WEIR_ERR_LAUNCHER, "see whether the launcher reports an error", "PMI-2 says rank %d of %d",
                            p->rank, p->size);
    if (p->job_id(p->job, (int)sizeof p->job))
        p->job[0] = 0;
    return WEIR_OK;
}

static weir_status pmi2_connect(const struct wr_boot_params *params, void **connection, weir_error *err)
{
    struct pmi2 *p = calloc(1, sizeof *p);
    if (!p)
        return wr_error_memory(err, sizeof *p, "the PMI-2 connection");
    p->timeout_ns = params->config->boot_timeout;
    weir_status status = open_library(p, params->config, err);
    if (status == WEIR_OK)
        status = join(p, params->env, err);
    if (status != WEIR_OK) {
        if (!p->broken) /* else an abandoned call still uses it */
            free(p);
        return status;
    }
    *connection = p;
    return WEIR_OK;
}

static void pmi2_describe(const void *connection, struct wr_boot_info *info, struct wr_split *split)
{
    const struct pmi2 *p = connection;
    split->key_max = PMI2_KEY_MAX;
    split->value_max = PMI2_VALUE_MAX;
    info->rank = p->rank;
    info->size = p->size;
    wr_str_copy(info->job, sizeof info->job, p->job);
}

static weir_status pmi2_mapping(void *connection, char *text, size_t size, weir_error *err)
{
    const struct pmi2 *p = connection;
    int found = 0;
    (void)err;
    size = WR_MIN(size, (size_t)PMI2_ATTRIBUTE_MAX);
    if (!p->job_attribute || p->job_attribute("PMI_process_mapping", text, (int)size, &found) || !found)
        return WEIR_ERR_NOT_FOUND;
    text[size - 1] = 0;
    return WEIR_OK;
}

/* ---- the store ---- */

static weir_status pmi2_put(void *connection, const char *key, const char *text, weir_error *err)
{
    const struct pmi2 *p = connection;
    int rc = p->put(key, text);
    if (!rc)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_LAUNCHER, "see whether the launcher reports an error", "PMI2_KVS_Put of '%s' returned %d",
                        key, rc);
}

static weir_status pmi2_get(void *connection, int rank, const char *key, char *text, size_t size, weir_error *err)
{
    struct pmi2 *p = connection;
    struct call *call = call_new(CALL_GET, err);
    weir_error e;
    if (!call)
        return WEIR_ERR_NO_MEMORY;
    call->source = rank;
    wr_str_copy(call->key, sizeof call->key, key);
    wr_str_copy(call->job, sizeof call->job, p->job);
    weir_status status = call_timed(p, call, "PMI2_KVS_Get", &e);
    if (status == WEIR_ERR_LAUNCHER && !p->broken)
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, "the rank must put the key before a fence",
                            "nobody has put '%s' into the launcher's store", key);
    if (status != WEIR_OK) {
        if (err)
            *err = e;
        return status;
    }
    bool fits = wr_str_copy(text, size, call->value);
    free(call);
    return fits ? WEIR_OK
                : wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                               "the launcher's value of '%s' is too long", key);
}

static weir_status pmi2_fence(void *connection, weir_error *err)
{
    struct call *call = call_new(CALL_FENCE, err);
    if (!call)
        return WEIR_ERR_NO_MEMORY;
    weir_status status = call_timed(connection, call, "PMI2_KVS_Fence", err);
    if (status == WEIR_OK)
        free(call);
    return status;
}

/* ---- the component ---- */

static weir_status pmi2_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    static const struct wr_store_kind kind = {.shared = &shared, .finalize_at_exit = finalize_at_exit, .connect = pmi2_connect,
                                              .describe = pmi2_describe, .mapping = pmi2_mapping, .put = pmi2_put,
                                              .get = pmi2_get, .fence = pmi2_fence};
    if (!built_in)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "build weir with PMI-2, or use WEIR_BOOT=pmi1, or weirrun",
                            "this build of weir was made without PMI-2");
    return wr_store_open(boot, params, &kind, err);
}

static void pmi2_abort(struct wr_boot *boot, int code, const char *message)
{
    const struct pmi2 *p = wr_store_connection(boot);
    (void)code;
    p->abort(1, message ? message : "weir_abort was called");
}

const struct wr_boot_ops wr_boot_pmi2 = {
    .name = "pmi2",
    .detect = pmi2_detect,
    .open = pmi2_open,
    .put = wr_store_put,
    .fence = wr_store_fence,
    .get = wr_store_get,
    .barrier = wr_store_fence,
    .abort = pmi2_abort,
    .close = wr_store_close,
};
