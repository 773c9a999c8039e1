/* SPDX-License-Identifier: BSD-3-Clause */
/* Replicas are made the same as the first of them. */
#include <weir/zero_state.h>

#include <string.h>

#include "base/compiler.h"
#include "optim/zero_offload.h"

enum { CHUNK = 4096 }; /* entries that are moved at once from and to a disk */

/* `bytes` of the first replica. */
static weir_status from_first(weir_zero *zero, void *data, uint64_t bytes)
{
    if (zero->nreplica == 1 || !bytes)
        return WEIR_OK;
    weir_status status = weir_bcast(zero->replica, data, bytes, WEIR_UINT8, 0);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* A part that is on disk. */
static weir_status from_first_disk(weir_zero *zero, uint64_t index, const weir_zero_part *part)
{
    uint64_t values[CHUNK]; /* no entry is larger */
    weir_status status = WEIR_OK;
    for (uint64_t at = 0, n; zero->nreplica > 1 && status == WEIR_OK && at < part->count; at += n) {
        n = WR_MIN(part->count - at, (uint64_t)CHUNK);
        status = weir_zero_state_read(zero, index, at, n, values);
        if (status == WEIR_OK)
            status = from_first(zero, values, n * weir_type_size((weir_type)part->type));
        if (status == WEIR_OK)
            status = weir_zero_state_write(zero, index, at, n, values);
    }
    return status;
}

/* Each part of the state: parameters, or the others. */
static weir_status parts(weir_zero *zero, bool params)
{
    weir_zero_part part = {.size = sizeof part};
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && i < zero->nparts; i++)
        if ((zero->parts[i].state < 0) == params && (status = weir_zero_state_get(zero, i, &part)) == WEIR_OK)
            status = part.data ? from_first(zero, part.data, part.count * weir_type_size((weir_type)part.type)) : from_first_disk(zero, i, &part);
    return status;
}

weir_status weir_zero_sync_params(weir_zero *zero)
{
    weir_status status = weir_zero_flush(zero);
    if (status == WEIR_OK)
        status = wr_zero_quiet(zero);
    if (status == WEIR_OK)
        status = parts(zero, true);
    return status == WEIR_OK ? weir_zero_state_loaded(zero, NULL) : status;
}

weir_status weir_zero_sync_states(weir_zero *zero)
{
    weir_zero_counters counters = {.size = sizeof counters};
    weir_status status = weir_zero_flush(zero);
    if (status == WEIR_OK)
        status = wr_zero_quiet(zero);
    if (status == WEIR_OK)
        status = parts(zero, false);
    if (status != WEIR_OK)
        return status;
    weir_zero_state_counters(zero, &counters);
    if (zero->nranks > 1 && (status = weir_bcast(zero->all, &counters, sizeof counters, WEIR_UINT8, 0)) != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    wr_zero_set_counters(zero, &counters);
    return WEIR_OK;
}
