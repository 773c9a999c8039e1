/* SPDX-License-Identifier: BSD-3-Clause */
/* Started by a launcher with PMIx: srun --mpi=pmix, Open MPI's mpirun, PRRTE's prun, and others. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/boot/components.h"

static bool pmix_detect(const struct wr_boot_params *params, const char **why)
{
    if (!wr_env_get(params->env, "PMIX_NAMESPACE") || !wr_env_get(params->env, "PMIX_RANK"))
        return false;
    if (why)
        *why = "PMIX_NAMESPACE and PMIX_RANK are set";
    return true;
}

#ifdef HAVE_PMIX
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/str.h"
#include "comm/boot/mapping.h"
#include "comm/boot/pmix_impl.h"
#include "comm/boot/shared.h"

struct listener {
    struct wr_list link; /* in the connection's listeners */
    struct wr_pmix *p;
    uint32_t generation;
    int event_fd;
    struct wr_list events;       /* under the connection's events_lock, like what follows */
    struct wr_boot_event broken; /* the first of them */
};

struct queued_event {
    struct wr_list link;
    struct wr_boot_event event;
};

static struct wr_shared shared = WR_SHARED_INIT;
static struct wr_pmix *event_target; /* PMIx hands its handlers no pointer of ours; set once, before they are registered */

/* ---- events ---- */

static void tell_listeners(struct wr_pmix *p, const struct wr_boot_event *event)
{
    struct listener *l;
    uint64_t one = 1;
    pthread_mutex_lock(&p->events_lock);
    wr_list_for_each(l, &p->listeners, link) {
        struct queued_event *q = malloc(sizeof *q);
        if (l->broken.kind == WR_BOOT_EVENT_NONE)
            l->broken = *event;
        if (!q)
            continue; /* the fences fail all the same */
        q->event = *event;
        wr_list_push_back(&l->events, &q->link);
        if (write(l->event_fd, &one, sizeof one) < 0)
            continue; /* the counter is full: it is readable then */
    }
    pthread_mutex_unlock(&p->events_lock);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    struct wr_pmix *p = event_target;
    const pmix_proc_t *who = source;
    struct wr_boot_event event = {.kind = WR_BOOT_EVENT_RANK_LOST, .rank = -1};
    (void)id;
    (void)results;
    (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (!strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC && info[i].value.data.proc)
            who = info[i].value.data.proc;
    if (p && status == PMIX_ERR_LOST_CONNECTION) {
        event.kind = WR_BOOT_EVENT_JOB_ABORTED;
        wr_str_copy(event.reason, sizeof event.reason, "the connection to the launcher's PMIx server ended");
        tell_listeners(p, &event);
    } else if (p && who && !strcmp(who->nspace, p->me.nspace) && who->rank < (pmix_rank_t)p->size && who->rank != p->me.rank) {
        event.rank = (int)who->rank;
        snprintf(event.reason, sizeof event.reason, "the launcher reports %s", p->Error_string(status));
        tell_listeners(p, &event);
    }
    if (done)
        done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, data);
}

static void listen_for_events(struct wr_pmix *p)
{
    pmix_status_t codes[] = {
        PMIX_ERR_LOST_CONNECTION,
#ifdef PMIX_ERR_PROC_REQUESTED_ABORT
        PMIX_ERR_PROC_REQUESTED_ABORT,
#endif
#ifdef PMIX_ERR_PROC_TERM_WO_SYNC
        PMIX_ERR_PROC_TERM_WO_SYNC,
#endif
#ifdef PMIX_ERR_PROC_KILLED_BY_CMD
        PMIX_ERR_PROC_KILLED_BY_CMD,
#endif
#ifdef PMIX_ERR_PROC_ABORTED_BY_SIG
        PMIX_ERR_PROC_ABORTED_BY_SIG,
#endif
#ifdef PMIX_ERR_EXIT_NONZERO_TERM
        PMIX_ERR_EXIT_NONZERO_TERM,
#endif
    };
    event_target = p;
    if (p->Register_event_handler)
        p->Register_event_handler(codes, WR_ARRAY_SIZE(codes), NULL, 0, on_event, NULL, NULL);
}

/* ---- the connection of the process ---- */

static void finalize(void *connection)
{
    struct wr_pmix *p = connection;
    if (!p->broken) /* the struct stays: a handler may still run */
        p->Finalize(NULL, 0);
}

static void finalize_at_exit(void)
{
    wr_shared_end(&shared, finalize);
}

static weir_status use_connection(const struct wr_boot_params *params, weir_error *err)
{
    struct wr_pmix *p;
    if (shared.connection)
        return WEIR_OK;
    if (!pmix_detect(params, NULL)) /* the library would make a job of one rank */
        return wr_error_set(err, WEIR_ERR_LAUNCHER, "start the program with srun --mpi=pmix or mpirun, or leave WEIR_BOOT unset",
                            "PMIX_NAMESPACE and PMIX_RANK are not set: no PMIx server started this process");
    weir_status status = wr_pmix_join(&p, params->config, err);
    if (status != WEIR_OK)
        return status;
    listen_for_events(p);
    wr_shared_keep(&shared, p, finalize_at_exit);
    return WEIR_OK;
}

/* ---- the ops ---- */

static weir_status fill_info(struct wr_boot *boot, struct wr_pmix *p, weir_error *err)
{
    size_t bytes = (size_t)p->size * sizeof(int);
    boot->info.rank = (int)p->me.rank;
    boot->info.size = p->size;
    wr_str_copy(boot->info.job, sizeof boot->info.job, p->me.nspace);
    int *node_of = malloc(bytes), *leader = malloc(bytes);
    if (!node_of || !leader) {
        free(node_of);
        free(leader);
        return wr_error_memory(err, 2 * bytes, "the node map");
    }
    if (wr_pmix_nodes(p, node_of) && wr_node_map_join(p->size, node_of, NULL, node_of, leader) > 0)
        boot->info.node_of = node_of;
    else
        free(node_of);
    free(leader);
    return WEIR_OK;
}

static weir_status pmix_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return wr_error_memory(err, sizeof *l, "the bootstrap");
    wr_list_init(&l->events);
    l->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->event_fd < 0) {
        free(l);
        return wr_error_set(err, WEIR_ERR_SYSTEM, "check the limit on open files", "cannot create an event descriptor");
    }
    pthread_mutex_lock(&shared.lock);
    weir_status status = use_connection(params, err);
    if (status == WEIR_OK)
        status = fill_info(boot, shared.connection, err);
    if (status == WEIR_OK) {
        l->p = shared.connection;
        l->generation = shared.generation++;
        pthread_mutex_lock(&l->p->events_lock);
        wr_list_push_back(&l->p->listeners, &l->link);
        pthread_mutex_unlock(&l->p->events_lock);
    }
    pthread_mutex_unlock(&shared.lock);
    if (status != WEIR_OK) {
        close(l->event_fd);
        free(l);
        return status;
    }
    boot->state = l;
    return WEIR_OK;
}

static void full_key(const struct listener *l, const char *key, char *out, size_t size)
{
    snprintf(out, size, "weir.%u.%s", l->generation, key);
}

static weir_status pmix_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope, weir_error *err)
{
    const struct listener *l = boot->state;
    pmix_value_t v;
    char name[128];
    memset(&v, 0, sizeof v);
    v.type = PMIX_BYTE_OBJECT;
    v.data.bo.bytes = (char *)value;
    v.data.bo.size = len;
    full_key(l, key, name, sizeof name);
    pthread_mutex_lock(&shared.lock);
    pmix_status_t rc = l->p->Put(scope == WR_BOOT_NODE && boot->info.node_of ? PMIX_LOCAL : PMIX_GLOBAL, name, &v);
    pthread_mutex_unlock(&shared.lock);
    if (rc == PMIX_SUCCESS)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_LAUNCHER, "see whether the launcher reports an error", "PMIx_Put of '%s': %s", key,
                        l->p->Error_string(rc));
}

/* A server may complete a fence without the ranks that have died. */
static weir_status check_broken(struct listener *l, weir_error *err)
{
    pthread_mutex_lock(&l->p->events_lock);
    struct wr_boot_event event = l->broken;
    pthread_mutex_unlock(&l->p->events_lock);
    if (event.kind == WR_BOOT_EVENT_NONE)
        return WEIR_OK;
    if (event.rank < 0)
        return wr_error_set(err, WEIR_ERR_LAUNCHER, "see why the launcher ended", "%s", event.reason);
    wr_error_set(err, WEIR_ERR_PEER_LOST, "look at the output of that rank for the reason", "rank %d was lost: %s", event.rank,
                 event.reason);
    wr_error_at(err, event.rank, NULL);
    return WEIR_ERR_PEER_LOST;
}

static weir_status pmix_fence(struct wr_boot *boot, weir_error *err)
{
    struct listener *l = boot->state;
    weir_status status = check_broken(l, err);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&shared.lock);
    pmix_status_t rc = l->p->Commit();
    status = rc == PMIX_SUCCESS ? wr_pmix_fence(l->p, err)
                                            : wr_error_set(err, WEIR_ERR_LAUNCHER, "see whether the launcher reports an error",
                                                           "PMIx_Commit: %s", l->p->Error_string(rc));
    pthread_mutex_unlock(&shared.lock);
    return status == WEIR_OK ? check_broken(l, err) : status;
}

static weir_status pmix_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    const struct listener *l = boot->state;
    pmix_value_t *v = NULL;
    char name[128];
    full_key(l, key, name, sizeof name);
    pthread_mutex_lock(&shared.lock);
    weir_status status = wr_pmix_get(l->p, rank, name, &v, err);
    pthread_mutex_unlock(&shared.lock);
    if (status == WEIR_ERR_NOT_FOUND)
        return wr_error_set(err, status, "the rank must put the key before a fence", "rank %d has put nothing under the key '%s'",
                            rank, key);
    if (status != WEIR_OK)
        return status;
    if (v->type != PMIX_BYTE_OBJECT) {
        wr_pmix_value_free(v);
        return wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                            "the launcher's value of '%s' of rank %d has another type", key, rank);
    }
    char *copy = malloc(v->data.bo.size ? v->data.bo.size : 1);
    if (copy) {
        memcpy(copy, v->data.bo.bytes, v->data.bo.size);
        *value = copy;
        *len = v->data.bo.size;
    } else {
        status = wr_error_memory(err, v->data.bo.size, "a bootstrap value");
    }
    wr_pmix_value_free(v);
    return status;
}

static void pmix_abort(struct wr_boot *boot, int code, const char *message)
{
    const struct listener *l = boot->state;
    l->p->Abort(code, message ? message : "weir_abort was called", NULL, 0);
}

static int pmix_event_fd(struct wr_boot *boot)
{
    const struct listener *l = boot->state;
    return l->event_fd;
}

static bool pmix_poll_event(struct wr_boot *boot, struct wr_boot_event *event)
{
    struct listener *l = boot->state;
    uint64_t count;
    pthread_mutex_lock(&l->p->events_lock);
    bool found = !wr_list_empty(&l->events);
    if (found) {
        struct queued_event *q = wr_list_first(&l->events, struct queued_event, link);
        *event = q->event;
        wr_list_remove(&q->link);
        free(q);
    }
    if (wr_list_empty(&l->events) && read(l->event_fd, &count, sizeof count) < 0)
        count = 0; /* it was empty already */
    pthread_mutex_unlock(&l->p->events_lock);
    return found;
}

static weir_status pmix_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    struct listener *l = boot->state;
    struct queued_event *q, *next;
    weir_status status = goodbye ? pmix_fence(boot, err) : WEIR_OK;
    pthread_mutex_lock(&l->p->events_lock);
    wr_list_remove(&l->link);
    pthread_mutex_unlock(&l->p->events_lock);
    wr_list_for_each_safe(q, next, &l->events, link)
        free(q);
    close(l->event_fd);
    free(l);
    return status;
}

#else

static weir_status pmix_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    (void)boot;
    (void)params;
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "build weir with PMIx, or start the program with srun --mpi=pmi2 or weirrun",
                        "the launcher offers PMIx, which this build of weir was made without");
}

#define pmix_put        NULL
#define pmix_fence      NULL
#define pmix_get        NULL
#define pmix_abort      NULL
#define pmix_event_fd   NULL
#define pmix_poll_event NULL
#define pmix_close      NULL

#endif

const struct wr_boot_ops wr_boot_pmix = {
    .name = "pmix",
    .detect = pmix_detect,
    .open = pmix_open,
    .put = pmix_put,
    .fence = pmix_fence,
    .get = pmix_get,
    .barrier = pmix_fence,
    .abort = pmix_abort,
    .event_fd = pmix_event_fd,
    .poll_event = pmix_poll_event,
    .close = pmix_close,
};
