/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening UCX's context. The user's UCX_ variables hold; where they say nothing, weir chooses:
 *  - UCX_TLS: everything but UCX's shared memory, which weir has itself (WEIR_UCX_TLS wins over both);
 *  - UCX_NET_DEVICES: the network interface that is near the rank, when one was found;
 *  - UCX_TCP_RX_SEG_SIZE: larger pieces, which raises tcp's bandwidth by half.
 * UCX's handlers of SIGSEGV and its like belong to the process (UCX_ERROR_SIGNALS, UCX_HANDLE_ERRORS): a library must
 * not change them for the program that it is part of.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/transport/ucx/ucx.h"

#define TCP_SEGMENT ((uint64_t)256 << 10)
#define HEADERS     1024 /* more than UCX and we put before the data of a message */

struct settings {
    struct ucx *u;
    ucp_config_t *config;
    bool tcp; /* tcp may be used */
};

static const char *user_has(const struct ucx *u, const char *name)
{
    return wr_env_get(u->base.params.env, name);
}

/* A setting of an environment that a test supplies: UCX itself only sees the process's. */
static bool apply_variable(void *arg, const char *entry)
{
    struct settings *s = arg;
    char name[64];
    const char *eq = strchr(entry, '=');
    if (eq && (size_t)(eq - entry) < sizeof name + 4) {
        snprintf(name, sizeof name, "%.*s", (int)(eq - entry - 4), entry + 4);
        ucp_config_modify(s->config, name, eq + 1);
    }
    return true;
}

/* How many words of a list of UCX_TLS are among `words` (ended by NULL), and how many are not. */
static void count_words(const char *tls, const char *const *words, int *among, int *others)
{
    char list[256], *save = NULL;
    *among = *others = 0;
    wr_str_copy(list, sizeof list, tls);
    for (char *w = strtok_r(list, ",^", &save); w; w = strtok_r(NULL, ",", &save)) {
        size_t i = 0;
        while (words[i] && strcmp(w, words[i]))
            i++;
        if (words[i])
            ++*among;
        else
            ++*others;
    }
}

static bool names_one(const char *tls, const char *const *words)
{
    int among, others;
    count_words(tls, words, &among, &others);
    return among > 0;
}

static bool names_other(const char *tls, const char *const *words)
{
    int among, others;
    count_words(tls, words, &among, &others);
    return others > 0;
}

/* Whether UCX_TLS allows tcp; without it, UCX warns of settings for it. */
static bool allows_tcp(const char *tls)
{
    static const char *const words[] = {"tcp", "all", NULL};
    return !tls || (tls[0] == '^') != names_one(tls, words);
}

static void choose_tls(struct settings *s)
{
    static const char *const shm[] = {"shm", "sm", "posix", "sysv", "cma", "mm", "xpmem", "knem", "all", NULL};
    static const char *const local[] = {"shm", "sm", "posix", "sysv", "cma", "mm", "xpmem", "knem", "self", NULL};
    struct ucx *u = s->u;
    const struct wr_config *config = u->base.params.config;
    const char *tls = config && config->ucx_tls ? config->ucx_tls : user_has(u, "UCX_TLS");
    if (!tls && UCP_API_VERSION >= UCP_VERSION(1, 12))
        tls = "^shm";
    if (tls)
        ucp_config_modify(s->config, "TLS", tls);
    u->own_shm = tls && tls[0] != '^' && names_one(tls, shm);
    u->only_shm = u->own_shm && !names_other(tls, local);
    s->tcp = allows_tcp(tls);
}

static void choose_device(struct settings *s)
{
    const char *nic = s->u->base.params.nic;
    char path[128], device[64];
    if (!nic || user_has(s->u, "UCX_NET_DEVICES"))
        return;
    snprintf(path, sizeof path, "/sys/class/infiniband/%s", nic);
    snprintf(device, sizeof device, access(path, F_OK) ? "%s" : "%s:1", nic);
    ucp_config_modify(s->config, "NET_DEVICES", device);
}

/* The largest message that stays in one piece over tcp. */
static void choose_segment(struct settings *s)
{
    uint64_t segment = TCP_SEGMENT;
    char text[32];
    const char *user = user_has(s->u, "UCX_TCP_RX_SEG_SIZE");
    if (user) {
        if (!wr_parse_bytes(user, &segment) || segment < 8192)
            segment = 8192;
    } else if (s->tcp) {
        unsigned major, minor, release;
        ucp_get_version(&major, &minor, &release);
        const char *name = major > 1 || minor > 13 ? "TCP_RX_SEG_SIZE" : "RX_SEG_SIZE"; /* only later with its prefix */
        snprintf(text, sizeof text, "%llu", (unsigned long long)segment);
        if (ucp_config_modify(s->config, name, text) != UCS_OK)
            segment = 64 << 10; /* what UCX has by itself */
    }
    s->u->fragment = WR_MIN(segment, (uint64_t)16 << 20) - HEADERS;
}

/*
 * What weir unmaps is to be unmapped: UCX's caches keep registrations, pin memory behind the user's back, hook the C library
 * to learn when memory goes, and after a refusal by RLIMIT_MEMLOCK refuse small parts of the same memory, too.
 */
static void refuse_caches(struct settings *s)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    if (!user_has(s->u, "UCX_RCACHE_ENABLE"))
        ucp_config_modify(s->config, "RCACHE_ENABLE", "no");
    /* devices have one of their own up to 1.14; without a device UCX warns of settings for it */
    if (major > 1 || minor > 14 || access("/sys/class/infiniband", F_OK) || user_has(s->u, "UCX_IB_REG_METHODS"))
        return;
    ucp_config_modify(s->config, minor > 13 ? "IB_REG_METHODS" : "REG_METHODS", "direct"); /* only later with its prefix */
}

weir_status wr_ucx_context_open(struct ucx *u, weir_error *err)
{
    struct settings s = {.u = u};
    const char *why = wr_ucx_load();
    if (why)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install UCX's libraries, or put their folder into LD_LIBRARY_PATH",
                            "UCX cannot be loaded: %s", why);
    ucs_status_t st = ucp_config_read(NULL, NULL, &s.config);
    if (st != UCS_OK)
        return wr_ucx_error(st, NULL, "reading UCX's configuration", err);
    if (u->base.params.env && u->base.params.env->vars)
        wr_env_each(u->base.params.env, "UCX_", apply_variable, &s);
    choose_tls(&s);
    choose_device(&s);
    choose_segment(&s);
    refuse_caches(&s);
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                           .estimated_num_eps = (size_t)WR_MIN(u->base.params.size, 64)};
    ucx_api_params(&params);
    st = ucp_init(&params, s.config, &u->context);
    if (st != UCS_OK && u->base.params.nic && !user_has(u, "UCX_NET_DEVICES")) {
        ucp_config_modify(s.config, "NET_DEVICES", "all");
        st = ucp_init(&params, s.config, &u->context);
    }
    ucp_config_release(s.config);
    if (st == UCS_ERR_NO_DEVICE)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "look at the output of ucx_info -d and at UCX_TLS, UCX_NET_DEVICES",
                            "UCX finds no device that its settings allow");
    return st == UCS_OK ? WEIR_OK : wr_ucx_error(st, NULL, "opening UCX", err);
}
