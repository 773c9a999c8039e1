/* SPDX-License-Identifier: BSD-3-Clause */
/* Replicas are made the same as the first of them. */
#include <weir/zero_state.h>

#include <string.h>

#include "base/compiler.h"
#include "optim/zero.h"

/* `bytes` of the first replica. */
static weir_status from_first(weir_zero *zero, void *data, uint64_t bytes)
{
    if (zero->nreplica == 1 || !bytes)
        return WEIR_OK;
    weir_status status = weir_bcast(zero->replica, data, bytes, WEIR_UINT8, 0);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* Each part of the state: parameters, or the others. */
static weir_status parts(weir_zero *zero, bool params)
{
    weir_zero_part part = {.size = sizeof part};
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && i < zero->nparts; i++)
        if ((zero->parts[i].state < 0) == params && (status = weir_zero_state_get(zero, i, &part)) == WEIR_OK)
            status = from_first(zero, part.data, part.count * weir_type_size((weir_type)part.type));
    return status;
}

weir_status weir_zero_sync_params(weir_zero *zero)
{
    weir_status status = wr_zero_quiet(zero);
    if (status == WEIR_OK)
        status = parts(zero, true);
    return status == WEIR_OK ? weir_zero_state_loaded(zero, NULL) : status;
}

weir_status weir_zero_sync_states(weir_zero *zero)
{
    weir_zero_counters counters = {.size = sizeof counters};
    weir_status status = wr_zero_quiet(zero);
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
