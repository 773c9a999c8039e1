/* SPDX-License-Identifier: BSD-3-Clause */
/* The components of the bootstrap, one file each; comm/boot/detect.c has the table that orders them. */
#ifndef WR_BOOT_COMPONENTS_H
#define WR_BOOT_COMPONENTS_H

#include "comm/boot/boot.h"

extern const struct wr_boot_ops wr_boot_user;   /* the program's callbacks */
extern const struct wr_boot_ops wr_boot_id;     /* weir_unique_id */
extern const struct wr_boot_ops wr_boot_tcp;    /* weirrun */
extern const struct wr_boot_ops wr_boot_pmix;   /* PMIx client library */
extern const struct wr_boot_ops wr_boot_pmi2;   /* PMI-2 client library */
extern const struct wr_boot_ops wr_boot_pmi1;   /* PMI-1 text protocol */
extern const struct wr_boot_ops wr_boot_single; /* alone */

#endif
