/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking a memory handle, and counting what a context holds. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/mem/mem.h"
#include "comm/transport/shm/shm.h"

void *weir_mem_ptr(const weir_mem *mem)
{
    return mem->alive ? mem->addr : NULL;
}

uint64_t weir_mem_bytes(const weir_mem *mem, int rank)
{
    return mem->alive && rank >= 0 && rank < mem->comm->size ? mem->peer[rank].bytes : 0;
}

void *wr_mem_peer_address(struct weir_mem *mem, int rank)
{
    if (rank == mem->comm->rank)
        return mem->addr;
    if (rank < 0)
        return NULL;
    const struct wr_mem_peer *peer = &mem->peer[rank];
    if (!mem->segment || peer->segment_index < 0 || !peer->bytes)
        return NULL;
    wr_shm_segment_touch(mem->segment, peer->segment_index, 0, peer->bytes);
    return wr_shm_segment_base(mem->segment, peer->segment_index);
}

int wr_mem_member(const struct weir_mem *mem, const weir_comm *comm, int rank)
{
    return mem->comm == comm ? rank : wr_group_rank(&mem->comm->group, wr_comm_world_rank(comm, rank));
}

void *wr_mem_member_address(struct weir_mem *mem, const weir_comm *comm, int rank)
{
    return wr_mem_peer_address(mem, wr_mem_member(mem, comm, rank));
}

bool wr_mem_has_key(const struct weir_mem *mem, const weir_comm *comm, int rank)
{
    int member = wr_mem_member(mem, comm, rank);
    return member >= 0 && mem->peer[member].key;
}

void *weir_mem_peer_ptr(weir_mem *mem, int rank)
{
    if (!mem->alive || rank < 0 || rank >= mem->comm->size)
        return NULL;
    wr_engine_lock(mem->comm->engine);
    void *address = wr_mem_peer_address(mem, rank);
    wr_engine_unlock(mem->comm->engine);
    return address;
}

struct weir_mem *wr_mem_containing(struct wr_mem_state *s, const void *addr, uint64_t len, uint64_t *offset)
{
    struct weir_mem *mem;
    wr_list_for_each(mem, &s->alive, link)
    {
        uint64_t from = (uint64_t)((uintptr_t)addr - (uintptr_t)mem->addr);
        if ((uintptr_t)addr < (uintptr_t)mem->addr || from > mem->bytes || len > mem->bytes - from)
            continue;
        *offset = from;
        return mem;
    }
    return NULL;
}

/* The proportional set size of this process in bytes; 0 when the kernel does not tell. */
static uint64_t read_pss(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    unsigned long long kib = 0;
    char line[128];
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

weir_status weir_mem_usage(weir_ctx *ctx, weir_mem_info *info)
{
    weir_mem_info now = {.size = info->size, .pss = read_pss(), .limit = ctx->config.mem_limit};
    if (info->size < sizeof info->size) {
        weir_error err;
        wr_error_set(&err, WEIR_ERR_INVALID, "set size to sizeof(weir_mem_info)", "the info's size is %zu", info->size);
        return wr_ctx_fail(ctx, &err, "weir_mem_usage");
    }
    pthread_mutex_lock(&ctx->comms_lock);
    if (ctx->comms) {
        struct wr_engine *e = ctx->comms->engine;
        const struct wr_mem_state *s = ctx->comms->mem;
        wr_engine_lock(e);
        now.allocated = s->allocated;
        now.mapped = s->mapped;
        now.registered = s->registered;
        now.staging = wr_staged_bytes(s->staged) + wr_p2p_kept_bytes(ctx->comms->p2p);
        wr_engine_unlock(e);
    }
    pthread_mutex_unlock(&ctx->comms_lock);
    memcpy(info, &now, WR_MIN(info->size, sizeof now));
    return WEIR_OK;
}
