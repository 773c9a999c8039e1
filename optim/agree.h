/* SPDX-License-Identifier: BSD-3-Clause */
/* Making something on all ranks or on none. */
#ifndef WR_OPTIM_AGREE_H
#define WR_OPTIM_AGREE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>

/* Adds bytes to a hash, which begins with WR_AGREE_HASH. */
#define WR_AGREE_HASH ((uint64_t)0xcbf29ce484222325u)
uint64_t wr_agree_hash(uint64_t hash, const void *data, size_t bytes);

/*
 * Ends the same way on all ranks. mine: what this rank alone has come to, with err filled in when that is an error; hash: of what must
 * be the same on all; what: "ZeRO engine". Returns mine where that is an error, WEIR_ERR_CANCELED where another rank has one,
 * WEIR_ERR_MISMATCH on all ranks when hashes differ, or an error of communication.
 */
weir_status wr_agree(weir_comm *comm, weir_status mine, uint64_t hash, const char *what, weir_error *err);

/* The error of a call on a communicator that failed with `status`; returns it. */
weir_status wr_agree_comm_error(const weir_comm *comm, weir_status status, weir_error *err);

#endif
