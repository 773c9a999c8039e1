/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job without a launcher: the id holds the addresses and the secret of a bootstrap server that runs in a thread of the
 * process that made the id.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/boot/client.h"
#include "comm/boot/components.h"
#include "comm/boot/sock.h"

#define MAGIC         "weir id"
enum { ID_VERSION = 1, ID_MAX_ADDRESSES = 8 };

/* What the 256 bytes hold. Numbers are in network order, so that ids may cross machines. */
struct id_content {
    char magic[8];
    uint8_t version, naddresses;
    uint16_t port;
    uint32_t nranks;
    uint8_t secret[WR_SECRET_BYTES];
    struct {
        uint8_t family; /* 4 or 6 */
        uint8_t bytes[16];
    } addresses[ID_MAX_ADDRESSES];
};
_Static_assert(sizeof(struct id_content) <= sizeof(weir_unique_id), "the id is too small");

/* ---- making one ---- */

static void add_address(struct id_content *id, const struct sockaddr *address)
{
    union wr_sockaddr a;
    if (id->naddresses == ID_MAX_ADDRESSES)
        return;
    uint8_t *bytes = id->addresses[id->naddresses].bytes;
    if (address->sa_family == AF_INET) {
        memcpy(&a.in, address, sizeof a.in);
        memcpy(bytes, &a.in.sin_addr, 4);
        id->addresses[id->naddresses++].family = 4;
    } else {
        memcpy(&a.in6, address, sizeof a.in6);
        memcpy(bytes, &a.in6.sin6_addr, 16);
        id->addresses[id->naddresses++].family = 6;
    }
}

/* The addresses of this host at which others can reach it: real interfaces first, loopback last. */
static void add_own_addresses(struct id_content *id)
{
    struct ifaddrs *list = NULL;
    union wr_sockaddr loopback;
    if (getifaddrs(&list))
        list = NULL;
    for (int family = AF_INET;; family = AF_INET6) {
        for (const struct ifaddrs *i = list; i && id->naddresses < ID_MAX_ADDRESSES - 1; i = i->ifa_next) {
            if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_RUNNING) ||
                i->ifa_flags & IFF_LOOPBACK)
                continue;
            struct sockaddr_in6 in6;
            if (family == AF_INET6) {
                memcpy(&in6, i->ifa_addr, sizeof in6);
                if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
                    continue;
            }
            add_address(id, i->ifa_addr);
        }
        if (family == AF_INET6)
            break;
    }
    freeifaddrs(list);
    wr_sock_numeric("127.0.0.1", &loopback);
    add_address(id, &loopback.any);
}

/* The thread owns the server, until every rank has said farewell or the process ends. */
static void *serve(void *arg)
{
    struct wr_server *server = arg;
    while (!wr_server_done(server)) {
        struct pollfd p = {.fd = wr_server_fd(server), .events = POLLIN};
        if (poll(&p, 1, wr_server_timeout_ms(server)) < 0 && errno != EINTR)
            break;
        wr_server_progress(server);
    }
    wr_server_destroy(server);
    return NULL;
}

static int start_thread(struct wr_server *server)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int rc = pthread_attr_init(&attributes);
    if (rc)
        return rc;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* signals are the program's threads' business */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attributes, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return rc;
}

weir_status weir_unique_id_create(int nranks, weir_unique_id *id)
{
    struct wr_server_options options = {.size = nranks};
    struct wr_server *server = NULL;
    struct id_content content = {.magic = MAGIC, .version = ID_VERSION};
    if (nranks < 1 || !id)
        return WEIR_ERR_INVALID;
    weir_status status = wr_server_create(&options, &server, NULL);
    if (status != WEIR_OK)
        return status;
    content.port = htons((uint16_t)wr_server_port(server));
    content.nranks = htonl((uint32_t)nranks);
    wr_secret_parse(wr_server_secret(server), content.secret);
    add_own_addresses(&content);
    if (start_thread(server)) {
        wr_server_destroy(server);
        return WEIR_ERR_SYSTEM;
    }
    memset(id, 0, sizeof *id);
    memcpy(id, &content, sizeof content);
    return WEIR_OK;
}

/* ---- joining by one ---- */

static bool id_detect(const struct wr_boot_params *params, const char **why)
{
    if (why)
        *why = "a unique id was given";
    return params->options->unique_id != NULL;
}

static bool format_addresses(const struct id_content *id, char *text, size_t size)
{
    for (int i = 0; i < id->naddresses; i++) {
        char address[INET6_ADDRSTRLEN], item[INET6_ADDRSTRLEN + 16];
        bool v4 = id->addresses[i].family == 4;
        if (!inet_ntop(v4 ? AF_INET : AF_INET6, id->addresses[i].bytes, address, sizeof address))
            return false;
        snprintf(item, sizeof item, v4 ? "%s%s:%d" : "%s[%s]:%d", i ? "," : "", address, ntohs(id->port));
        if (!wr_str_append(text, size, item))
            return false;
    }
    return id->naddresses > 0;
}

static weir_status id_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    const weir_init_options *options = params->options;
    struct id_content id;
    char addresses[ID_MAX_ADDRESSES * (INET6_ADDRSTRLEN + 16)] = "";
    memcpy(&id, options->unique_id, sizeof id);
    if (memcmp(id.magic, MAGIC, sizeof id.magic) || id.version != ID_VERSION || id.naddresses > ID_MAX_ADDRESSES ||
        !format_addresses(&id, addresses, sizeof addresses))
        return wr_error_set(err, WEIR_ERR_INVALID, "hand over all bytes of the id that weir_unique_id_create made",
                            "the unique id is damaged, or of another version of weir");
    if (options->nranks != (int64_t)ntohl(id.nranks) || options->rank < 0 || options->rank >= options->nranks)
        return wr_error_set(err, WEIR_ERR_INVALID, "give the number of ranks that the id was made for, and a rank below it",
                            "rank %lld of %lld does not fit an id for %u ranks", (long long)options->rank,
                            (long long)options->nranks, ntohl(id.nranks));
    struct wr_target target = {.addresses = addresses, .rank = (int)options->rank, .size = (int)options->nranks,
                               .node = -1};
    memcpy(target.secret, id.secret, sizeof target.secret);
    return wr_client_open(boot, params, &target, err);
}

const struct wr_boot_ops wr_boot_id = {
    .name = "id",
    .detect = id_detect,
    .open = id_open,
    .put = wr_client_put,
    .fence = wr_client_fence,
    .get = wr_client_get,
    .barrier = wr_client_fence,
    .abort = wr_client_abort,
    .event_fd = wr_client_event_fd,
    .poll_event = wr_client_poll_event,
    .close = wr_client_close,
};
