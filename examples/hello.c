/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest whole program: join the job, say where this rank sits, leave. Run it by: weirrun -n 4 ./hello */
#include <stdio.h>

#include <weir/weir.h>

static int failed(const weir_error *error)
{
    fprintf(stderr, "hello: %s: %s\n%s\n", weir_status_name(error->status), error->message, error->advice);
    return 1;
}

int main(void)
{
    weir_error error;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    options.error = &error;

    weir_ctx *ctx;
    if (weir_init(&options, &ctx) != WEIR_OK)
        return failed(&error);

    const weir_topo *topo;
    weir_rank_info info = {.size = sizeof info};
    int rank = weir_rank(ctx);
    if (weir_ctx_topo(ctx, &topo) != WEIR_OK || weir_topo_rank_info(topo, rank, &info) != WEIR_OK) {
        failed(weir_last_error(ctx));
        weir_abort(ctx, 1, "hello: no topology");
    }
    printf("rank %d of %d: node %d of %d, host %s, processors %s\n", rank, weir_size(ctx), info.node,
           weir_topo_nnodes(topo), info.host, info.cpuset);

    return weir_finalize(ctx) == WEIR_OK ? 0 : 1;
}
