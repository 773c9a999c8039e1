/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_PMIX
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "comm/boot/pmix_impl.h"
#include "comm/boot/timed.h"

#define ADVICE "see whether the launcher reports an error; other ways are srun --mpi=pmi2 and weirrun"

/* ---- opening ---- */

static weir_status open_library(struct wr_pmix *p, const struct wr_config *config, weir_error *err)
{
    const char *name = config->pmix_lib ? config->pmix_lib : "libpmix.so.2";
    p->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!p->library)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install the PMIx client library, or set WEIR_PMIX_LIB to its path",
                            "the launcher offers PMIx, but its client library cannot be opened: %s", dlerror());
    const struct {
        const char *name;
        void *slot;
        bool needed;
    } functions[] = {
#define X(function, need) {"PMIx_" #function, &p->function, need},
        WR_PMIX_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < WR_ARRAY_SIZE(functions); i++) {
        void *symbol = dlsym(p->library, functions[i].name);
        if (!symbol && functions[i].needed) {
            dlclose(p->library);
            return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "set WEIR_PMIX_LIB to a PMIx client library", "%s has no function %s",
                                name, functions[i].name);
        }
        memcpy(functions[i].slot, &symbol, sizeof symbol);
    }
    return WEIR_OK;
}

/* ---- calls with an end ---- */

enum what { CALL_INIT, CALL_FENCE, CALL_GET };

struct call {
    struct wr_pmix *p;
    enum what what;
    pmix_status_t rc;
    pmix_proc_t proc;
    char key[128];
    pmix_value_t *value;
};

static pmix_info_t flag_info(const char *key)
{
    pmix_info_t info;
    memset(&info, 0, sizeof info);
    wr_str_copy(info.key, sizeof info.key, key);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    return info;
}

/*
 * The fence collects the values, into memory that the ranks of a node share. Fetching each from its owner when it is first
 * needed ("direct modex") would carry less, but was seen to lose requests under load (Slurm 22.05 with PMIx 4.2: not
 * found, or never answered). What only ranks of the same node want is put with local scope and not carried.
 */
static void call_run(void *arg)
{
    struct call *c = arg;
    pmix_info_t collect = flag_info(PMIX_COLLECT_DATA);
    switch (c->what) {
    case CALL_INIT:
        c->rc = c->p->Init(&c->proc, NULL, 0);
        break;
    case CALL_FENCE:
        c->rc = c->p->Fence(&c->proc, 1, &collect, 1);
        break;
    case CALL_GET:
        c->rc = c->p->Get(&c->proc, c->key, NULL, 0, &c->value);
        break;
    }
}

static struct call *call_new(struct wr_pmix *p, enum what what, weir_error *err)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call) {
        wr_error_memory(err, sizeof *call, "a call of PMIx");
        return NULL;
    }
    call->p = p;
    call->what = what;
    return call;
}

/* Makes the call; on success it may be read and must be freed. */
static weir_status call_timed(struct call *call, const char *name, weir_error *err)
{
    struct wr_pmix *p = call->p;
    char text[32];
    if (p->broken) {
        free(call);
        return wr_error_set(err, WEIR_ERR_LAUNCHER, "see why the earlier call failed", "an earlier call of PMIx has not returned");
    }
    if (!wr_timed_run(call_run, free, call, p->timeout_ns)) {
        p->broken = true;
        return wr_error_set(err, WEIR_ERR_TIMEOUT, "see whether all ranks run, or raise WEIR_BOOT_TIMEOUT",
                            "%s has not returned within %s", name, wr_format_time(p->timeout_ns, text, sizeof text));
    }
    pmix_status_t rc = call->rc;
    if (rc == PMIX_SUCCESS)
        return WEIR_OK;
    /* servers wait for a key that does not exist and give up after some seconds */
    bool missing = rc == PMIX_ERR_NOT_FOUND || (call->what == CALL_GET && rc == PMIX_ERR_TIMEOUT);
    free(call);
    return wr_error_set(err, missing ? WEIR_ERR_NOT_FOUND : WEIR_ERR_LAUNCHER, ADVICE, "%s: %s", name,
                        p->Error_string(rc));
}

static void set_proc(pmix_proc_t *proc, const char *nspace, pmix_rank_t rank)
{
    memset(proc, 0, sizeof *proc);
    wr_str_copy(proc->nspace, sizeof proc->nspace, nspace);
    proc->rank = rank;
}

void wr_pmix_value_free(pmix_value_t *value)
{
    if (!value)
        return;
    if (value->type == PMIX_STRING)
        free(value->data.string);
    else if (value->type == PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
    free(value);
}

static weir_status get_from(struct wr_pmix *p, pmix_rank_t rank, const char *key, pmix_value_t **value, weir_error *err)
{
    struct call *call = call_new(p, CALL_GET, err);
    if (!call)
        return WEIR_ERR_NO_MEMORY;
    set_proc(&call->proc, p->me.nspace, rank);
    wr_str_copy(call->key, sizeof call->key, key);
    weir_status status = call_timed(call, "PMIx_Get", err);
    if (status != WEIR_OK)
        return status;
    *value = call->value;
    free(call);
    return WEIR_OK;
}

weir_status wr_pmix_get(struct wr_pmix *p, int rank, const char *key, pmix_value_t **value, weir_error *err)
{
    return get_from(p, (pmix_rank_t)rank, key, value, err);
}

weir_status wr_pmix_fence(struct wr_pmix *p, weir_error *err)
{
    struct call *call = call_new(p, CALL_FENCE, err);
    if (!call)
        return WEIR_ERR_NO_MEMORY;
    set_proc(&call->proc, p->me.nspace, PMIX_RANK_WILDCARD);
    weir_status status = call_timed(call, "PMIx_Fence", err);
    if (status == WEIR_OK)
        free(call);
    return status;
}

/* ---- joining ---- */

static weir_status learn_size(struct wr_pmix *p, weir_error *err)
{
    pmix_value_t *value = NULL;
    weir_status status = get_from(p, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &value, err);
    if (status == WEIR_OK && value->type == PMIX_UINT32)
        p->size = (int)value->data.uint32;
    wr_pmix_value_free(value);
    if (status == WEIR_OK && (p->size < 1 || p->me.rank >= (pmix_rank_t)p->size))
        status = wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "PMIx says rank %u of %d", p->me.rank, p->size);
    return status;
}

weir_status wr_pmix_join(struct wr_pmix **out, const struct wr_config *config, weir_error *err)
{
    struct wr_pmix *p = calloc(1, sizeof *p);
    if (!p)
        return wr_error_memory(err, sizeof *p, "the PMIx connection");
    p->timeout_ns = config->boot_timeout;
    pthread_mutex_init(&p->events_lock, NULL);
    wr_list_init(&p->listeners);
    weir_status status = open_library(p, config, err);
    if (status != WEIR_OK)
        goto free_pmix;
    struct call *call = call_new(p, CALL_INIT, err);
    status = call ? call_timed(call, "PMIx_Init", err) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        status = status == WEIR_ERR_NOT_FOUND ? WEIR_ERR_LAUNCHER : status;
        goto free_pmix;
    }
    p->me = call->proc;
    free(call);
    status = learn_size(p, err);
    if (status != WEIR_OK) {
        if (!p->broken)
            p->Finalize(NULL, 0);
        goto free_pmix;
    }
    *out = p;
    return WEIR_OK;
free_pmix:
    if (!p->broken) { /* else an abandoned call still uses it */
        pthread_mutex_destroy(&p->events_lock);
        free(p);
    }
    return status;
}

/* ---- nodes ---- */

/* What the server has told already, without asking it. */
static pmix_value_t *look_up(struct wr_pmix *p, int rank, const char *key)
{
    pmix_proc_t proc;
    pmix_info_t optional = flag_info(PMIX_OPTIONAL);
    pmix_value_t *value = NULL;
    set_proc(&proc, p->me.nspace, (pmix_rank_t)rank);
    return p->Get(&proc, key, &optional, 1, &value) == PMIX_SUCCESS ? value : NULL;
}

static bool nodes_by_id(struct wr_pmix *p, int *node_of)
{
    for (int rank = 0; rank < p->size; rank++) {
        pmix_value_t *value = look_up(p, rank, PMIX_NODEID);
        bool known = value && value->type == PMIX_UINT32;
        if (known)
            node_of[rank] = (int)value->data.uint32;
        wr_pmix_value_free(value);
        if (!known)
            return false;
    }
    return true;
}

/* The server knows the nodes and who runs on each. */
static bool nodes_by_peers(struct wr_pmix *p, int *node_of)
{
    char *names = NULL, *rest;
    int node = 0, placed = 0;
    if (!p->Resolve_nodes || !p->Resolve_peers || p->Resolve_nodes(p->me.nspace, &names) != PMIX_SUCCESS || !names)
        return false;
    for (int rank = 0; rank < p->size; rank++)
        node_of[rank] = -1;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest), node++) {
        pmix_proc_t *procs = NULL;
        size_t n = 0;
        if (p->Resolve_peers(name, p->me.nspace, &procs, &n) != PMIX_SUCCESS)
            break;
        for (size_t i = 0; i < n; i++) {
            if (procs[i].rank < (pmix_rank_t)p->size && node_of[procs[i].rank] < 0) {
                node_of[procs[i].rank] = node;
                placed++;
            }
        }
        free(procs);
    }
    free(names);
    return placed == p->size;
}

bool wr_pmix_nodes(struct wr_pmix *p, int *node_of)
{
    return nodes_by_id(p, node_of) || nodes_by_peers(p, node_of);
}

#else
typedef int wr_pmix_is_left_out; /* a file must declare something */
#endif
