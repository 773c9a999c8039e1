/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of weir-startup's job: times weir_init() and the first weir_ctx_topo(), and weighs what they allocate. */
#include <stdio.h>

#include <weir/weir.h>

#include "perf/startup.h"

int main(void)
{
    weir_ctx *ctx;
    weir_error error;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    const weir_topo *topo;
    options.error = &error;

    long before = startup_pss_kib();
    double start = startup_now();
    if (weir_init(&options, &ctx)) {
        fprintf(stderr, "startup-weir: weir_init: %s; %s\n", error.message, error.advice);
        return 1;
    }
    double joined = startup_now();
    if (weir_ctx_topo(ctx, &topo)) {
        fprintf(stderr, "startup-weir: weir_ctx_topo: %s\n", weir_last_error(ctx)->message);
        weir_finalize(ctx);
        return 1;
    }
    double described = startup_now();
    /* all have arrived: what they share is divided among all of them */
    if (weir_boot_barrier(ctx)) {
        fprintf(stderr, "startup-weir: weir_boot_barrier: %s\n", weir_last_error(ctx)->message);
        weir_finalize(ctx);
        return 1;
    }
    int rc = startup_report(weir_rank(ctx), joined - start, described - joined, before, startup_pss_kib());
    return weir_finalize(ctx) || rc ? 1 : 0;
}
