/* SPDX-License-Identifier: BSD-3-Clause */
/* The ops tables of the transports; a component adds a line here and one in table.c. */
#ifndef WR_TRANSPORT_COMPONENTS_H
#define WR_TRANSPORT_COMPONENTS_H

#include "comm/transport/transport.h"

extern const struct wr_transport_ops wr_self_ops;
extern const struct wr_transport_ops wr_shm_ops;
extern const struct wr_transport_ops wr_ofi_ops;
extern const struct wr_transport_ops wr_ucx_ops;

#endif
