/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement on who is left of a communicator, for comm/world.c. With the engine's lock held. */
#ifndef WR_SHRINK_H
#define WR_SHRINK_H

#include "comm/comm.h"

/* Goes on, while comm->shrink is there. */
void wr_shrink_progress(struct weir_comm *comm);

/* A message has come from a rank; the first thing in it is the id of its communicator. */
void wr_shrink_on_message(struct weir_comm *comm, int rank, const void *data, size_t len);

#endif
