/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-info --json. */
#include "tools/weir-info.h"

#include "base/compiler.h"
#include "base/error.h"

#ifdef HAVE_JANSSON
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/launcher.h"

/* json_object_set_new() and its kin take NULL and fail; one look at `ok` in the end is enough. */
struct out {
    json_t *object;
    bool ok;
};

static void put(struct out *o, const char *name, json_t *value)
{
    if (json_object_set_new(o->object, name, value))
        o->ok = false;
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *index_or_null(int value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static void put_fact(void *arg, const char *name, const char *text)
{
    put(arg, name, json_string(text));
}

static json_t *build_json(void)
{
    struct out o = {json_object(), true};
    info_build_facts(put_fact, &o);
    return o.object;
}

static json_t *variable_json(const struct info *info, const struct wr_config_entry *e)
{
    static const char *const kinds[] = {"bool", "int", "bytes", "time", "enum", "text"};
    char value[1024];
    struct out o = {json_object(), true};
    put(&o, "name", json_string(e->name));
    put(&o, "type", json_string(kinds[e->kind]));
    put(&o, "value", info->config_ok ? json_string(wr_config_format(&info->config, e, value, sizeof value)) : json_null());
    put(&o, "default", json_string(e->default_text));
    put(&o, "allowed", text_or_null(e->allowed));
    put(&o, "set", json_boolean(wr_env_get(NULL, e->name) != NULL));
    put(&o, "scope", json_string(e->scope == WR_CONFIG_JOB ? "weirrun" : "user"));
    put(&o, "help", json_string(e->help));
    return o.object;
}

static void add_unknown(void *arg, const char *name, const char *nearest)
{
    struct out o = {json_object(), true};
    put(&o, "name", json_string(name));
    put(&o, "nearest", text_or_null(nearest));
    json_array_append_new(arg, o.object);
}

static json_t *config_json(const struct info *info)
{
    size_t n;
    const struct wr_config_entry *entries = wr_config_entries(&n);
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, variable_json(info, &entries[i]));
    return array;
}

static json_t *topo_json(const weir_topo *topo)
{
    char *text = NULL;
    size_t len = 0;
    json_t *value = NULL;
    FILE *stream = open_memstream(&text, &len);
    if (!stream)
        return NULL;
    weir_status status = weir_topo_write_json(topo, stream);
    if (!fclose(stream) && !status)
        value = json_loadb(text, len, 0, NULL);
    free(text);
    return value;
}

static json_t *rank_json(const weir_topo *topo, int rank)
{
    weir_rank_info info = {.size = sizeof info};
    weir_device nic = {.size = sizeof nic};
    struct out o = {json_object(), true};
    if (weir_topo_rank_info(topo, rank, &info))
        return o.object;
    int choice = weir_topo_nic_choice(topo, rank);
    bool has_nic = choice >= 0 && !weir_topo_nic(topo, info.node, choice, &nic);
    put(&o, "rank", json_integer(rank));
    put(&o, "node", json_integer(info.node));
    put(&o, "local_rank", json_integer(info.local_rank));
    put(&o, "host", json_string(info.host));
    put(&o, "pid", json_integer(info.pid));
    put(&o, "package", index_or_null(info.package));
    put(&o, "numa", index_or_null(info.numa));
    put(&o, "cache", index_or_null(info.cache));
    put(&o, "core", index_or_null(info.core));
    put(&o, "npus", json_integer(info.npus));
    put(&o, "cpus", json_string(info.cpuset));
    put(&o, "nic", has_nic ? json_string(nic.name) : json_null());
    put(&o, "nic_distance", has_nic ? index_or_null(weir_topo_nic_distance(topo, rank, choice)) : json_null());
    return o.object;
}

static json_t *ranks_json(const weir_topo *topo)
{
    json_t *array = json_array();
    for (int rank = 0; rank < weir_topo_nranks(topo); rank++)
        json_array_append_new(array, rank_json(topo, rank));
    return array;
}

static json_t *transports_json(const struct fabrics *fabrics)
{
    json_t *array = json_array();
    for (size_t i = 0; i < fabrics->n; i++) {
        const struct fabric *f = &fabrics->list[i];
        struct out o = {json_object(), true};
        put(&o, "library", json_string(f->library));
        put(&o, "name", json_string(f->name));
        put(&o, "endpoints", text_or_null(f->kind));
        put(&o, "devices", text_or_null(f->devices));
        put(&o, "opens", json_boolean(f->opens));
        put(&o, "why", text_or_null(f->why));
        json_array_append_new(array, o.object);
    }
    return array;
}

static json_t *launcher_json(const struct info *info)
{
    char name[160];
    struct out o = {json_object(), true};
    put(&o, "bootstrap", json_string(weir_boot_name(info->ctx)));
    put(&o, "description", json_string(launcher_describe(weir_boot_name(info->ctx), name, sizeof name)));
    put(&o, "ranks", json_integer(weir_size(info->ctx)));
    put(&o, "nodes", info->topo ? json_integer(weir_topo_nnodes(info->topo)) : json_null());
    return o.object;
}

weir_status info_print_json(const struct info *info, FILE *out, weir_error *err)
{
    struct out o = {json_object(), true};
    put(&o, "weir", json_string(weir_version()));
    if (info->sections & INFO_BUILD)
        put(&o, "build", build_json());
    if (info->sections & INFO_LAUNCHER)
        put(&o, "launcher", info->ctx ? launcher_json(info) : json_null());
    if (info->sections & INFO_CONFIG) {
        json_t *unknown = json_array();
        wr_config_unknown(NULL, add_unknown, unknown);
        put(&o, "config", config_json(info));
        put(&o, "unknown_variables", unknown);
    }
    if (info->sections & INFO_TOPO)
        put(&o, "topology", info->topo ? topo_json(info->topo) : json_null());
    if (info->sections & INFO_RANKS)
        put(&o, "ranks", info->topo ? ranks_json(info->topo) : json_null());
    if (info->sections & INFO_TRANSPORTS)
        put(&o, "transports", transports_json(&info->fabrics));
    if (*info->error.message)
        put(&o, "error", json_string(info->error.message));
    if (o.ok && (json_dumpf(o.object, out, JSON_INDENT(2)) || fputc('\n', out) == EOF))
        o.ok = false;
    json_decref(o.object);
    return o.ok ? WEIR_OK : wr_error_set(err, WEIR_ERR_IO, "see whether the disk is full or memory short",
                                         "the JSON object could not be made or written");
}
#else
weir_status info_print_json(const struct info *info WR_UNUSED, FILE *out WR_UNUSED, weir_error *err)
{
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install jansson's development package and build weir again",
                        "JSON output is not supported: weir was built without jansson");
}
#endif
