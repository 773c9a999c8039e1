/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric, loaded when it is first used. Linking it would cost every process of every job a fifth of a second before main():
 * its providers' libraries are initialised then, used or not. All but six of its functions are inline calls through tables, so
 * those six get names of ours that load the library and forward. Include this instead of <rdma/fabric.h>.
 *
 * When the library cannot be loaded, fi_getinfo() and fi_fabric() fail and fi_strerror() of that failure says why.
 * Thread safe.
 */
#ifndef WR_LIBFABRIC_H
#define WR_LIBFABRIC_H

#define fi_getinfo  wr_fi_getinfo
#define fi_freeinfo wr_fi_freeinfo
#define fi_dupinfo  wr_fi_dupinfo
#define fi_fabric   wr_fi_fabric
#define fi_strerror wr_fi_strerror
#define fi_version  wr_fi_version

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#endif
