/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs inside a probe of a network library; see fabrics.c for the lines that are written. */
#ifndef WR_TOOLS_FABRICS_OPEN_H
#define WR_TOOLS_FABRICS_OPEN_H

#include <stdio.h>

void ofi_list(FILE *out);
void ofi_open(FILE *out, const char *provider);
void ucx_list(FILE *out);
void ucx_open(FILE *out, const char *transport);

#endif
