/* SPDX-License-Identifier: BSD-3-Clause */
/* The rank card: who this process is, and where it may run. */
#include "topo/card.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "topo/cpus.h"

void wr_host_id_put(struct wr_buf *buf, const struct wr_host_id *id)
{
    wr_buf_add(buf, id->boot_id, sizeof id->boot_id);
    wr_put_u(buf, id->ipc_namespace);
    wr_put_u(buf, id->shm_device);
}

void wr_host_id_get(struct wr_reader *reader, struct wr_host_id *id)
{
    const void *boot_id = wr_get_raw(reader, sizeof id->boot_id);
    memset(id, 0, sizeof *id);
    if (boot_id)
        memcpy(id->boot_id, boot_id, sizeof id->boot_id);
    id->ipc_namespace = wr_get_u(reader, UINT64_MAX);
    id->shm_device = wr_get_u(reader, UINT64_MAX);
}

void wr_rank_card_encode(const struct wr_rank_card *card, struct wr_buf *buf)
{
    wr_buf_str(buf, WR_RANK_CARD_MAGIC);
    wr_put_u(buf, WR_CARD_VERSION);
    wr_put_u(buf, (uint64_t)card->rank);
    wr_host_id_put(buf, &card->host_id);
    wr_put_text(buf, card->host);
    wr_put_u(buf, (uint64_t)card->pid);
    wr_put_u(buf, card->pid_namespace);
    wr_put_text(buf, card->address);
    wr_put_text(buf, card->pattern);
    wr_put_blob(buf, card->cpus, card->cpus_len);
}

bool wr_rank_card_decode(const void *data, size_t len, struct wr_rank_card *card)
{
    struct wr_reader reader = wr_reader(data, len);
    const void *magic = wr_get_raw(&reader, 3);
    if (!magic || memcmp(magic, WR_RANK_CARD_MAGIC, 3) || wr_get_u(&reader, UINT32_MAX) != WR_CARD_VERSION)
        return false;
    card->rank = (int)wr_get_u(&reader, INT32_MAX);
    wr_host_id_get(&reader, &card->host_id);
    wr_get_text(&reader, card->host, sizeof card->host);
    card->pid = (int64_t)wr_get_u(&reader, INT32_MAX);
    card->pid_namespace = wr_get_u(&reader, UINT64_MAX);
    wr_get_text(&reader, card->address, sizeof card->address);
    wr_get_text(&reader, card->pattern, sizeof card->pattern);
    card->cpus = wr_get_blob(&reader, &card->cpus_len);
    return !reader.bad && !wr_get_left(&reader) && wr_cpus_check(card->cpus, card->cpus_len, NULL);
}

/* Copies a launcher's variable; one that is too long or holds control characters counts as unset. */
static void copy_variable(const struct wr_env *env, const char *name, char *dst, size_t size)
{
    const char *value = wr_env_get(env, name);
    dst[0] = '\0';
    if (!value || strlen(value) >= size)
        return;
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return;
    wr_str_copy(dst, size, value);
}

static void copy_host_name(char *dst, size_t size)
{
    if (gethostname(dst, size))
        wr_str_copy(dst, size, "unknown");
    dst[size - 1] = '\0';
    for (char *c = dst; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

weir_status wr_topo_rank_card(const struct wr_config *config, const struct wr_env *env, int rank, struct wr_buf *buf,
                              weir_error *err)
{
    (void)config; /* a recorded machine takes effect in the node card */
    struct wr_rank_card card = {.rank = rank, .pid = getpid()};
    struct wr_buf cpus = {0};
    struct stat st;
    wr_host_id_self(&card.host_id);
    copy_host_name(card.host, sizeof card.host);
    if (!stat("/proc/self/ns/pid", &st))
        card.pid_namespace = (uint64_t)st.st_ino;
    copy_variable(env, "SLURM_TOPOLOGY_ADDR", card.address, sizeof card.address);
    copy_variable(env, "SLURM_TOPOLOGY_ADDR_PATTERN", card.pattern, sizeof card.pattern);
    if (wr_cpus_put_affinity(&cpus)) {
        card.cpus = cpus.data;
        card.cpus_len = cpus.len;
    }
    wr_rank_card_encode(&card, buf);
    wr_buf_free(&cpus);
    if (buf->failed)
        return wr_error_memory(err, 0, "this rank's card");
    return WEIR_OK;
}
