/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the PMIx component: pmix_library.c opens and calls the library, pmix.c is the component. */
#ifndef WR_BOOT_PMIX_IMPL_H
#define WR_BOOT_PMIX_IMPL_H

#include <pmix.h>

#include "base/list.h"
#include "comm/boot/boot.h"

/* The functions that are used: X(NAME, needed). */
#define WR_PMIX_FUNCTIONS(X)                                                                                 \
    X(Init, true)                                                                                            \
    X(Finalize, true)                                                                                        \
    X(Put, true)                                                                                             \
    X(Commit, true)                                                                                          \
    X(Fence, true)                                                                                           \
    X(Get, true)                                                                                             \
    X(Abort, true)                                                                                           \
    X(Error_string, true)                                                                                    \
    X(Register_event_handler, false)                                                                         \
    X(Resolve_nodes, false)                                                                                  \
    X(Resolve_peers, false)

/* The library, and what it said. One a process. */
struct wr_pmix {
    void *library;
#define X(name, needed) __typeof__(&PMIx_##name) name;
    WR_PMIX_FUNCTIONS(X)
#undef X
    pmix_proc_t me;
    int size;
    bool broken; /* a call was abandoned and may still be inside the library */
    int64_t timeout_ns;
    pthread_mutex_t events_lock;
    struct wr_list listeners; /* contexts that want events; under events_lock */
};

/* Opens the library and joins the server. */
weir_status wr_pmix_join(struct wr_pmix **out, const struct wr_config *config, weir_error *err);

/* Calls that may wait, with an end. */
weir_status wr_pmix_fence(struct wr_pmix *p, weir_error *err);
weir_status wr_pmix_get(struct wr_pmix *p, int rank, const char *key, pmix_value_t **value, weir_error *err);
void wr_pmix_value_free(pmix_value_t *value);

/* Fills node_of with the server's node numbers, any numbers; false when it does not say. */
bool wr_pmix_nodes(struct wr_pmix *p, int *node_of);

#endif
