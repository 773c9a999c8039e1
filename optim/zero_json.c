/* SPDX-License-Identifier: BSD-3-Clause */
/* A step report as a line of JSON. */
#include <weir/zero_trace.h>

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/str.h"

static void whole(struct wr_buf *out, const char *name, uint64_t value)
{
    wr_buf_printf(out, ", \"%s\": %llu", name, (unsigned long long)value);
}

/* JSON has no number that is none. */
static void real(struct wr_buf *out, const char *name, double value)
{
    if (isfinite(value))
        wr_buf_printf(out, ", \"%s\": %.9g", name, value);
    else
        wr_buf_printf(out, ", \"%s\": null", name);
}

static void milliseconds(struct wr_buf *out, const char *name, int64_t ns)
{
    wr_buf_printf(out, ", \"%s\": %.4f", name, (double)ns * 1e-6);
}

/* Levels of the same kind are told apart by their number. */
static void levels(struct wr_buf *out, const char *name, const weir_zero_report *r, const uint64_t *bytes)
{
    wr_buf_printf(out, ", \"%s\": {", name);
    for (uint64_t l = 0; l < WR_MIN(r->levels, (uint64_t)WEIR_ZERO_LEVELS); l++) {
        bool more = false;
        for (uint64_t k = 0; k < r->levels; k++)
            more |= k != l && r->level_kind[k] == r->level_kind[l];
        wr_buf_printf(out, "%s\"%s", l ? ", " : "", weir_level_kind_name((weir_level_kind)r->level_kind[l]));
        if (more)
            wr_buf_printf(out, "%llu", (unsigned long long)l);
        wr_buf_printf(out, "\": %llu", (unsigned long long)bytes[l]);
    }
    wr_buf_str(out, "}");
}

static void fill(struct wr_buf *out, const weir_zero_report *r)
{
    wr_buf_printf(out, "{\"step\": %llu, \"skipped\": %s", (unsigned long long)r->step, r->skipped ? "true" : "false");
    real(out, "norm", r->norm);
    real(out, "clip", r->clip);
    real(out, "loss", r->loss);
    real(out, "loss_scale", r->loss_scale);
    real(out, "lr", r->lr);
    milliseconds(out, "step_ms", r->total_ns);
    milliseconds(out, "compute_ms", r->compute_ns);
    milliseconds(out, "exposed_ms", r->exposed_ns);
    milliseconds(out, "hidden_ms", r->hidden_ns);
    milliseconds(out, "update_ms", r->update_ns);
    whole(out, "gather_bytes", r->gather_bytes);
    levels(out, "gather_level_bytes", r, r->gather_level_bytes);
    whole(out, "gather_node_bytes", r->gather_node_bytes);
    whole(out, "reduce_bytes", r->reduce_bytes);
    levels(out, "reduce_level_bytes", r, r->reduce_level_bytes);
    whole(out, "mem", r->memory_bytes);
    whole(out, "mem_peak", r->memory_peak);
    whole(out, "mem_formula", r->memory_formula);
    whole(out, "live_peak", r->live_peak);
    whole(out, "gathers", r->gathers);
    whole(out, "prefetched", r->prefetched);
    wr_buf_printf(out, ", \"differs_unit\": %lld", (long long)r->differs_unit);
    whole(out, "stop", r->stop);
    wr_buf_str(out, "}");
}

weir_status weir_zero_report_json(const weir_zero_report *report, char *text, size_t size)
{
    weir_zero_report r = {.norm = NAN, .loss = NAN, .differs_unit = -1};
    struct wr_buf out = {0};
    if (!report || !text || !size)
        return WEIR_ERR_INVALID;
    memcpy(&r, report, WR_MIN(report->size, sizeof r));
    fill(&out, &r);
    weir_status status = out.failed ? WEIR_ERR_NO_MEMORY : out.len >= size ? WEIR_ERR_LIMIT : WEIR_OK;
    if (status == WEIR_OK)
        memcpy(text, out.data, out.len + 1);
    wr_buf_free(&out);
    return status;
}
