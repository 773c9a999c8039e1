/* SPDX-License-Identifier: BSD-3-Clause */
/* Started by weirrun: its variables say where the bootstrap server is and which rank this is. */
#include "base/error.h"
#include "comm/boot/client.h"
#include "comm/boot/components.h"

static bool tcp_detect(const struct wr_boot_params *params, const char **why)
{
    if (!params->config->job_server)
        return false;
    if (why)
        *why = "WEIR_JOB_SERVER is set";
    return true;
}

static weir_status tcp_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    const struct wr_config *config = params->config;
    struct wr_target target = {.addresses = config->job_server, .rank = (int)config->job_rank, .size = (int)config->job_size,
                               .node = (int)config->job_node};
    const char *advice = "start the program with weirrun, or set the variables that weirrun sets";
    if (!config->job_server)
        return wr_error_set(err, WEIR_ERR_LAUNCHER, advice, "WEIR_JOB_SERVER is not set");
    if (target.rank < 0 || target.size < 1 || target.rank >= target.size)
        return wr_error_set(err, WEIR_ERR_LAUNCHER, advice, "WEIR_JOB_RANK=%d and WEIR_JOB_SIZE=%d do not name a rank of a job",
                            target.rank, target.size);
    if (!wr_secret_parse(config->job_secret, target.secret))
        return wr_error_set(err, WEIR_ERR_LAUNCHER, advice, "WEIR_JOB_SECRET is not set to 32 hexadecimal digits");
    return wr_client_open(boot, params, &target, err);
}

const struct wr_boot_ops wr_boot_tcp = {
    .name = "tcp",
    .detect = tcp_detect,
    .open = tcp_open,
    .put = wr_client_put,
    .fence = wr_client_fence,
    .get = wr_client_get,
    .barrier = wr_client_fence,
    .abort = wr_client_abort,
    .event_fd = wr_client_event_fd,
    .poll_event = wr_client_poll_event,
    .close = wr_client_close,
};
