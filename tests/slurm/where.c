/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests under real launchers run: joins the job and says in one line, in a form for scripts, where this rank
 * sits. Public headers only; no MPI. Exit status 3 when joining failed.
 *
 * rank=R size=N boot=NAME node=K nodes=M host=H pid=P levels=KIND:GROUPS/GROUP,...
 */
#include <stdio.h>

#include <weir/weir.h>

static int failed(const weir_error *error)
{
    fprintf(stderr, "where: %s: %s\nwhere: %s\n", weir_status_name(error->status), error->message, error->advice);
    return 3;
}

int main(void)
{
    weir_error error;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    options.error = &error;
    weir_ctx *ctx;
    if (weir_init(&options, &ctx) != WEIR_OK)
        return failed(&error);

    int rank = weir_rank(ctx);
    const weir_topo *topo;
    weir_rank_info info = {.size = sizeof info};
    if (weir_boot_barrier(ctx) != WEIR_OK || weir_ctx_topo(ctx, &topo) != WEIR_OK ||
        weir_topo_rank_info(topo, rank, &info) != WEIR_OK) {
        failed(weir_last_error(ctx));
        weir_abort(ctx, 3, "where: no topology");
        return 3;
    }

    char line[1024];
    int len = snprintf(line, sizeof line, "rank=%d size=%d boot=%s node=%d nodes=%d host=%s pid=%lld levels=", rank,
                       weir_size(ctx), weir_boot_name(ctx), info.node, weir_topo_nnodes(topo), info.host,
                       (long long)info.pid);
    for (int i = 0; i < weir_topo_nlevels(topo) && len < (int)sizeof line - 64; i++) {
        weir_level level = {.size = sizeof level};
        if (weir_topo_level(topo, i, &level) != WEIR_OK)
            continue;
        len += snprintf(line + len, sizeof line - (size_t)len, "%s%s:%d/%d", i ? "," : "",
                        weir_level_kind_name(level.kind), level.ngroups, weir_topo_group(topo, i, rank));
    }
    puts(line);
    fflush(stdout);
    return weir_finalize(ctx) == WEIR_OK ? 0 : 4;
}
