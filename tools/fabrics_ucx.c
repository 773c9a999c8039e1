/* SPDX-License-Identifier: BSD-3-Clause */
/* UCX: lists the transports, and makes a worker with one of them alone. */
#include "tools/fabrics_open.h"

#include <stdio.h>

#include "base/compiler.h"
#include "tools/fabrics.h"

#ifdef HAVE_UCX
#include "base/ucx.h"

static void list_domain(FILE *out, uct_component_h component, const char *name)
{
    uct_md_config_t *config = NULL;
    uct_md_h md = NULL;
    uct_tl_resource_desc_t *resources = NULL;
    unsigned n = 0;
    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK)
        return;
    if (uct_md_open(component, name, config, &md) == UCS_OK) {
        if (uct_md_query_tl_resources(md, &resources, &n) == UCS_OK) {
            for (unsigned i = 0; i < n; i++)
                fprintf(out, "%s\t\t%s\n", resources[i].tl_name, resources[i].dev_name);
            uct_release_tl_resource_list(resources);
        }
        uct_md_close(md);
    }
    uct_config_release(config);
}

void ucx_list(FILE *out)
{
    uct_component_h *components = NULL;
    unsigned n = 0;
    if (wr_ucx_load() || uct_query_components(&components, &n) != UCS_OK)
        return;
    for (unsigned i = 0; i < n; i++) {
        uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
        if (uct_component_query(components[i], &attr) != UCS_OK || attr.md_resource_count == 0 ||
            attr.md_resource_count > 256)
            continue;
        uct_md_resource_desc_t domains[256];
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attr.md_resources = domains;
        unsigned count = attr.md_resource_count;
        if (uct_component_query(components[i], &attr) != UCS_OK)
            continue;
        for (unsigned d = 0; d < count; d++)
            list_domain(out, components[i], domains[d].md_name);
    }
    uct_release_component_list(components);
}

/* Makes context and worker; returns what failed, with *status, or NULL. */
static const char *open_worker(const char *transport, ucs_status_t *status)
{
    ucp_config_t *config = NULL;
    ucp_context_h context = NULL;
    ucp_worker_h worker = NULL;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    const char *failed = NULL;

    if ((*status = ucp_config_read(NULL, NULL, &config)) != UCS_OK)
        return "ucp_config_read";
    if ((*status = ucp_config_modify(config, "TLS", transport)) != UCS_OK) {
        failed = "UCX_TLS";
        goto release_config;
    }
    if ((*status = ucp_init(&params, config, &context)) != UCS_OK) {
        failed = "ucp_init";
        goto release_config;
    }
    if ((*status = ucp_worker_create(context, &worker_params, &worker)) != UCS_OK)
        failed = "ucp_worker_create";
    else
        ucp_worker_destroy(worker);
    ucp_cleanup(context);
release_config:
    ucp_config_release(config);
    return failed;
}

void ucx_open(FILE *out, const char *transport)
{
    ucs_status_t status = UCS_OK;
    if (wr_ucx_load())
        return;
    fprintf(out, "try\t%s\t\n", transport);
    const char *failed = open_worker(transport, &status);
    if (failed)
        fprintf(out, "no\t%s\t\t%s: %s\n", transport, failed, ucs_status_string(status));
    else
        fprintf(out, "ok\t%s\t\n", transport);
}

static void version(char *buf, size_t size)
{
    unsigned major = 0, minor = 0, release = 0;
    if (wr_ucx_load()) {
        snprintf(buf, size, "cannot be loaded");
        return;
    }
    ucp_get_version(&major, &minor, &release);
    snprintf(buf, size, "%u.%u.%u", major, minor, release);
}
#else
void ucx_list(FILE *out WR_UNUSED)
{
}

void ucx_open(FILE *out WR_UNUSED, const char *transport WR_UNUSED)
{
}

static void version(char *buf, size_t size)
{
    snprintf(buf, size, "not built in");
}
#endif

const char *fabrics_version_ucx(char *buf, size_t size)
{
    version(buf, size);
    return buf;
}
