/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings, and the control segment of the node. */
#include "comm/transport/shm/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096 };

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

weir_status wr_shm_map(int fd, uint64_t len, uint64_t align, struct wr_shm_mapping **out, weir_error *err)
{
    struct wr_shm_mapping *m = calloc(1, sizeof *m);
    if (!m)
        return wr_error_memory(err, sizeof *m, "a mapping");
    m->refs = 1;
    m->len = len;
    m->reserved_len = align > PAGE ? len + align : len;
    m->reserved = mmap(NULL, m->reserved_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->reserved == MAP_FAILED)
        goto free_mapping;
    m->base = (char *)round_up((uintptr_t)m->reserved, align > PAGE ? align : PAGE);
    if (mmap(m->base, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        goto unmap;
    *out = m;
    return WEIR_OK;
unmap:;
    int e = errno;
    munmap(m->reserved, m->reserved_len);
    errno = e;
free_mapping:
    e = errno;
    free(m);
    return wr_error_errno(err, WEIR_ERR_NO_MEMORY, e, "look at the limits of address space (ulimit -v) and of mappings",
                          "cannot map %llu bytes of shared memory", (unsigned long long)len);
}

void wr_shm_unmap(struct wr_shm_mapping *m)
{
    if (!m || wr_add_acq_rel(&m->refs, -1) != 1)
        return;
    munmap(m->reserved, m->reserved_len);
    free(m);
}

/* Makes page table entries; kernels before 5.14 take a fault a page. */
static int populate_entries(char *addr, uint64_t len)
{
    char *from = (char *)((uintptr_t)addr / PAGE * PAGE);
    uint64_t n = round_up((uint64_t)(addr - from) + len, PAGE);
    int rc;
    do
        rc = madvise(from, n, MADV_POPULATE_WRITE);
    while (rc && (errno == EINTR || errno == EAGAIN));
    if (!rc || errno != EINVAL)
        return rc;
    for (uint64_t i = 0; i < n; i += PAGE)
        __atomic_fetch_or((unsigned char *)from + i, 0, __ATOMIC_RELAXED);
    return 0;
}

weir_status wr_shm_populate(int fd, char *addr, uint64_t at, uint64_t len, weir_error *err)
{
    int rc = 0;
    if (!len)
        return WEIR_OK;
    if (fd >= 0) {
        do
            rc = fallocate(fd, 0, (off_t)at, (off_t)len);
        while (rc && errno == EINTR);
        if (rc && errno == EOPNOTSUPP)
            rc = 0;
    }
    if (!rc)
        rc = populate_entries(addr, len);
    if (!rc)
        return WEIR_OK;
    return wr_error_errno(err, WEIR_ERR_NO_MEMORY, errno, "ask for less memory, or raise the job's memory limit",
                          "cannot have %llu bytes of shared memory", (unsigned long long)len);
}

weir_status wr_shm_hand_over(struct wr_shm *s, int index, int kind, uint64_t tag, uint64_t value, int fd,
                             struct wr_shm_mapping *mapping, weir_status failure, weir_error *err)
{
    struct wr_shm_peer *p = &s->peers[index];
    struct wr_letter letter = {.kind = (uint16_t)kind, .status = (int16_t)failure, .sender = s->base.params.rank, .tag = tag};
    weir_status status = wr_shm_find_address(s, index, err);
    if (status != WEIR_OK)
        return status;
    letter.value[0] = value;
    if (failure == WEIR_OK && p->same_process) {
        wr_add_acq_rel(&mapping->refs, 1);
        letter.value[1] = (uintptr_t)mapping;
        fd = -1;
    }
    status = wr_mail_send(&p->address.mail, &letter, failure == WEIR_OK ? fd : -1, wr_deadline(s->base.params.timeout_ns), err);
    if (status != WEIR_OK && letter.value[1])
        wr_shm_unmap(mapping);
    if (status != WEIR_OK)
        wr_error_at(err, p->rank, NULL);
    return status;
}

weir_status wr_shm_take_over(struct wr_shm *s, int index, int kind, uint64_t tag, uint64_t *value, int *fd,
                             struct wr_shm_mapping **mapping, weir_error *err)
{
    struct wr_letter letter;
    struct wr_shm_peer *p = &s->peers[index];
    weir_status status = wr_shm_find_address(s, index, err);
    if (status != WEIR_OK)
        return status;
    status = wr_mail_take(&s->mail, &p->address.mail, kind, p->rank, tag, wr_deadline(s->base.params.timeout_ns), &letter,
                          fd, err);
    if (status != WEIR_OK) {
        wr_error_at(err, p->rank, NULL);
        return status;
    }
    if (letter.status != WEIR_OK) {
        wr_error_set(err, letter.status, "look at that rank's output", "rank %d could not make the shared memory", p->rank);
        wr_error_at(err, p->rank, NULL);
        return letter.status;
    }
    *value = letter.value[0];
    *mapping = NULL;
    if (*fd < 0 && letter.value[1] && p->same_process && letter.pid == getpid())
        *mapping = (struct wr_shm_mapping *)(uintptr_t)letter.value[1];
    if (*fd < 0 && !*mapping)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, "raise the limit of open files (ulimit -n)",
                            "the letter of rank %d brought no descriptor", p->rank);
    return WEIR_OK;
}

weir_status wr_shm_find_address(struct wr_shm *s, int index, weir_error *err)
{
    struct wr_shm_peer *p = &s->peers[index];
    const struct wr_transport_params *params = &s->base.params;
    const void *blob;
    size_t len;
    if (p->known)
        return WEIR_OK;
    weir_status status = params->peer_address(params->arg, p->rank, &blob, &len, err);
    if (status != WEIR_OK)
        return status;
    if (len == sizeof p->address)
        memcpy(&p->address, blob, len);
    if (len != sizeof p->address || p->address.magic != WR_SHM_MAGIC || p->address.rank != p->rank) {
        wr_error_set(err, WEIR_ERR_PROTOCOL, "start all ranks with the same weir",
                     "the address of rank %d is not one of shared memory (%zu bytes)", p->rank, len);
        wr_error_at(err, p->rank, NULL);
        return WEIR_ERR_PROTOCOL;
    }
    p->known = true;
    p->same_process = p->address.pid == s->address.pid && p->address.pid_namespace == s->address.pid_namespace;
    return WEIR_OK;
}

uint64_t wr_shm_block_bytes(void)
{
    return round_up(sizeof(struct wr_shm_block), PAGE);
}

/* Sizes by the number of ranks: a ring holds dozens of messages, and many ranks get smaller ones. */
static void lay_out(int n, struct wr_shm_control *c)
{
    uint64_t total = n <= 16 ? 65536 : 32768;
    c->magic = WR_SHM_MAGIC;
    c->nranks = (uint32_t)n;
    c->slots = n <= 16 ? 256 : 64;
    c->data_bytes = (uint32_t)(total - sizeof(struct wr_shm_ring) - c->slots * sizeof(struct wr_shm_slot));
    c->ring_bytes = total;
    c->rings_at = PAGE + (uint64_t)n * wr_shm_block_bytes();
}

static weir_status make_control(struct wr_shm *s, int *fd_out, weir_error *err)
{
    struct wr_shm_control c;
    lay_out(s->n, &c);
    uint64_t len = c.rings_at + (uint64_t)s->n * (uint64_t)s->n * c.ring_bytes;
    int fd = memfd_create("weir-node", MFD_CLOEXEC);
    if (fd < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "cannot make the node's shared memory (memfd_create)");
    weir_status status = ftruncate(fd, (off_t)len)
                             ? wr_error_errno(err, WEIR_ERR_NO_MEMORY, errno, NULL, "cannot size the node's shared memory")
                             : wr_shm_map(fd, len, PAGE, &s->mapping, err);
    if (status == WEIR_OK)
        status = wr_shm_populate(fd, s->mapping->base, 0, PAGE, err);
    if (status != WEIR_OK) {
        close(fd);
        return status;
    }
    memcpy(s->mapping->base, &c, sizeof c);
    *fd_out = fd;
    return WEIR_OK;
}

/* The node's first rank makes the segment and hands it to the others, its failure too. */
static weir_status lead(struct wr_shm *s, int *fd, weir_error *err)
{
    weir_error other;
    weir_status made = make_control(s, fd, err), status = made;
    for (int i = 1; i < s->n; i++) {
        weir_status sent = wr_shm_hand_over(s, i, WR_LETTER_CONTROL, 0, s->mapping ? s->mapping->len : 0, *fd, s->mapping,
                                            made, status == WEIR_OK ? err : &other);
        if (status == WEIR_OK)
            status = sent;
    }
    return status;
}

static weir_status follow(struct wr_shm *s, int *fd, weir_error *err)
{
    uint64_t len;
    weir_status status = wr_shm_take_over(s, 0, WR_LETTER_CONTROL, 0, &len, fd, &s->mapping, err);
    if (status == WEIR_OK && !s->mapping)
        status = wr_shm_map(*fd, len, PAGE, &s->mapping, err);
    if (status != WEIR_OK)
        return status;
    const struct wr_shm_control *c = (const void *)s->mapping->base;
    struct wr_shm_control mine;
    lay_out(s->n, &mine);
    if (memcmp(c, &mine, sizeof mine))
        return wr_error_set(err, WEIR_ERR_MISMATCH, "start all ranks with the same weir",
                            "the node's first rank laid out shared memory for %u ranks, this one for %d", c->nranks, s->n);
    return WEIR_OK;
}

static void announce(struct wr_shm *s)
{
    struct wr_shm_block *b = s->block;
    b->pid = s->address.pid;
    b->expedited = s->expedited;
    b->barriers = s->barriers;
    b->probe = (uintptr_t)s->nonce;
    memcpy(b->nonce, s->nonce, sizeof b->nonce);
    wr_store_release(&b->joined, 1);
}

weir_status wr_shm_join(struct wr_shm *s, weir_error *err)
{
    int fd = -1;
    weir_status status = s->me ? follow(s, &fd, err) : lead(s, &fd, err);
    if (status != WEIR_OK)
        goto out;
    s->control = (void *)s->mapping->base;
    for (int i = 0; i < s->n; i++)
        s->peers[i].block = (void *)(s->mapping->base + PAGE + (uint64_t)i * wr_shm_block_bytes());
    s->block = s->peers[s->me].block;
    s->data_after = calloc((size_t)s->n * s->control->slots, sizeof *s->data_after);
    if (!s->data_after) {
        status = wr_error_memory(err, (size_t)s->n * s->control->slots * sizeof *s->data_after, "the rings of the node");
        goto out;
    }
    for (int i = 0; i < s->n; i++)
        s->peers[i].data_after = s->data_after + (size_t)i * s->control->slots;
    status = wr_shm_populate(fd, (char *)s->block, (uint64_t)((char *)s->block - s->mapping->base), PAGE, err);
    if (status == WEIR_OK)
        announce(s);
out:
    if (fd >= 0)
        close(fd);
    return status;
}

weir_status wr_shm_open_ring(struct wr_shm *s, struct wr_shm_peer *p, weir_error *err)
{
    if (p->tx)
        return WEIR_OK;
    uint64_t index = (uint64_t)s->me * (uint64_t)s->n + (uint64_t)(p - s->peers);
    char *ring = s->mapping->base + s->control->rings_at + index * s->control->ring_bytes;
    weir_status status = wr_shm_populate(-1, ring, 0, s->control->ring_bytes, err);
    if (status == WEIR_OK)
        p->tx = (void *)ring;
    return status;
}
