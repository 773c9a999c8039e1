/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/transport.h"

#include <string.h>

#include "comm/transport/components.h"

const struct wr_transport_ops *const wr_transports[] = {
    &wr_self_ops,
    &wr_shm_ops,
#ifdef HAVE_LIBFABRIC
    &wr_ofi_ops,
#endif
#ifdef HAVE_UCX
    &wr_ucx_ops,
#endif
    NULL,
};

const struct wr_transport_ops *wr_transport_find(const char *name)
{
    for (const struct wr_transport_ops *const *t = wr_transports; *t; t++)
        if (!strcmp((*t)->name, name))
            return *t;
    return NULL;
}
