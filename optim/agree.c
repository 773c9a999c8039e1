/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/agree.h"

#include <weir/coll.h>

#include "base/error.h"

uint64_t wr_agree_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

weir_status wr_agree_comm_error(const weir_comm *comm, weir_status status, weir_error *err)
{
    const weir_error *last = weir_last_error(weir_comm_ctx(comm));
    if (err && last)
        *err = *last;
    if (err)
        err->status = status;
    return status;
}

weir_status wr_agree(weir_comm *comm, weir_status mine, uint64_t hash, const char *what, weir_error *err)
{
    uint64_t all[3] = {mine != WEIR_OK, mine == WEIR_OK ? hash : 0, mine == WEIR_OK ? ~hash : 0};
    weir_status status = weir_allreduce(comm, WEIR_IN_PLACE, all, 3, WEIR_UINT64, WEIR_MAX);
    if (mine != WEIR_OK)
        return mine;
    if (status != WEIR_OK)
        return wr_agree_comm_error(comm, status, err);
    if (all[0])
        return wr_error_set(err, WEIR_ERR_CANCELED, "see the error of that rank", "another rank could not make its %s", what);
    if (all[1] != hash || all[2] != ~hash)
        return wr_error_set(err, WEIR_ERR_MISMATCH, "give the same options on every rank", "the ranks gave different options for their %s", what);
    return WEIR_OK;
}
