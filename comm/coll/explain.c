/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls of weir/plan.h. */
#include <weir/plan.h>

#include <string.h>

#include "base/str.h"
#include "comm/plan/tuning.h"

weir_status weir_tuning_path(const weir_ctx *ctx, char *path, size_t size)
{
    char found[512];
    if (!wr_tuning_path(ctx, found, sizeof found) || strlen(found) >= size)
        return WEIR_ERR_UNSUPPORTED;
    wr_str_copy(path, size, found);
    return WEIR_OK;
}
