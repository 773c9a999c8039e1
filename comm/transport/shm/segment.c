/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments: memory of several ranks in one memfd, mapped once. */
#include "comm/transport/shm/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif

enum { PAGE = 4096, HUGE = 2 << 20, PREFERRED = 1 /* MPOL_PREFERRED of <numaif.h> */ };

/* Of a segment: a half of what a process can address. */
#define MOST_BYTES (UINT64_C(1) << 46)
/* From here on it is worth a look at how much there is. */
#define LARGE_BYTES (UINT64_C(64) << 20)

struct wr_shm_segment {
    struct wr_list link;
    struct wr_shm_mapping *mapping;
    int leader; /* rank that made it */
    uint64_t id, total, page;
    bool shared;
    int n;
    struct wr_shm_making { /* until wr_shm_segment_end() */
        int n, me, first; /* ranks; which one this is; the one that makes it */
        uint64_t tag;
        bool small; /* no huge pages are wanted */
        int fd;
    } making;
    uint64_t *offset, *bytes; /* of the parts */
    uint64_t *touched;        /* a bit for each HUGE bytes: page table entries were made */
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Large parts start where a huge page can; the gaps before them never get memory. */
static uint64_t lay_out(struct wr_shm_segment *seg)
{
    uint64_t at = 0, least = UINT64_MAX;
    for (int i = 0; i < seg->n; i++) {
        uint64_t bytes = seg->bytes[i];
        at = round_up(at, bytes >= HUGE ? HUGE : PAGE);
        seg->offset[i] = at;
        at += round_up(bytes, PAGE);
        if (bytes)
            least = WR_MIN(least, bytes);
    }
    seg->total = round_up(at ? at : PAGE, at >= HUGE ? HUGE : PAGE);
    return least;
}

static void destroy(struct wr_shm_segment *seg)
{
    wr_shm_unmap(seg->mapping);
    if (seg->making.fd >= 0)
        close(seg->making.fd);
    free(seg->offset);
    free(seg->bytes);
    free(seg->touched);
    free(seg);
}

static struct wr_shm_segment *new_segment(int n, const uint64_t *bytes, unsigned flags, uint64_t *least, weir_error *err)
{
    struct wr_shm_segment *seg = calloc(1, sizeof *seg);
    if (!seg)
        goto no_memory;
    wr_list_init(&seg->link);
    seg->making.fd = -1;
    seg->n = flags & WR_SHM_SEGMENT_SHARED ? 1 : n;
    seg->shared = seg->n != n || (flags & WR_SHM_SEGMENT_SHARED);
    seg->offset = calloc((size_t)seg->n, sizeof *seg->offset);
    seg->bytes = calloc((size_t)seg->n, sizeof *seg->bytes);
    if (!seg->offset || !seg->bytes)
        goto no_memory;
    for (int i = 0; i < seg->n; i++)
        seg->bytes[i] = bytes[i];
    *least = lay_out(seg);
    seg->touched = calloc((size_t)(seg->total / HUGE / 64 + 1), sizeof *seg->touched);
    if (!seg->touched)
        goto no_memory;
    return seg;
no_memory:
    if (seg)
        destroy(seg);
    wr_error_memory(err, sizeof *seg + (size_t)n * 16, "a segment of shared memory");
    return NULL;
}

/* Whether the kernel backs shared memory by huge pages, without a pool. */
static bool have_transparent(void)
{
    char text[128] = "";
    int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && (strstr(text, "[always]") || strstr(text, "[advise]") || strstr(text, "[within_size]") ||
                     strstr(text, "[force]"));
}

/* A descriptor of `total` bytes that is mapped: from the pool of huge pages if it has that many, else of small pages. */
static weir_status make(struct wr_shm_segment *seg, bool huge, int *fd_out, weir_error *err)
{
    int fd = huge ? memfd_create("weir-segment", MFD_CLOEXEC | MFD_HUGETLB | 21u << 26 /* log2(HUGE) << MFD_HUGE_SHIFT */) : -1;
    if (fd >= 0) {
        if (!ftruncate(fd, (off_t)seg->total) && wr_shm_map(fd, seg->total, HUGE, &seg->mapping, NULL) == WEIR_OK) {
            seg->page = HUGE;
            *fd_out = fd;
            return WEIR_OK;
        }
        close(fd);
    }
    fd = memfd_create("weir-segment", MFD_CLOEXEC);
    if (fd < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                              "cannot make shared memory (memfd_create)");
    weir_status status = ftruncate(fd, (off_t)seg->total)
                             ? wr_error_errno(err, WEIR_ERR_NO_MEMORY, errno, "raise the limit of file sizes (ulimit -f)",
                                              "cannot size shared memory to %llu bytes", (unsigned long long)seg->total)
                             : wr_shm_map(fd, seg->total, seg->total >= HUGE ? HUGE : PAGE, &seg->mapping, err);
    if (status != WEIR_OK) {
        close(fd);
        return status;
    }
    seg->page = PAGE;
    *fd_out = fd;
    return WEIR_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Memory that can be had without pushing others out; the kernel would rather kill than refuse. */
static uint64_t memory_available(void)
{
    char text[1024];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UINT64_MAX;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "MemAvailable:");
    return at ? strtoull(at + 13, NULL, 10) << 10 : UINT64_MAX;
}

static weir_status read_group(struct wr_shm *s, const int *ranks, int n, const uint64_t *bytes, unsigned flags,
                              uint64_t label, struct wr_shm_making *g, weir_error *err)
{
    *g = (struct wr_shm_making){.n = n, .me = -1, .first = ranks[0], .tag = mix(mix(flags, (uint64_t)n), label), .fd = -1};
    for (int i = 0; i < n; i++) {
        if (!wr_shm_peer_of(s, ranks[i]))
            return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d does not share memory with this one", ranks[i]);
        if (ranks[i] == s->base.params.rank)
            g->me = i;
        g->tag = mix(mix(g->tag, (uint64_t)ranks[i]), flags & WR_SHM_SEGMENT_SHARED && i ? 0 : bytes[i]);
    }
    uint64_t total = 0;
    for (int i = 0; i < (flags & WR_SHM_SEGMENT_SHARED ? 1 : n); i++) {
        total = bytes[i] > MOST_BYTES ? UINT64_MAX : total + bytes[i];
        if (total > MOST_BYTES)
            return wr_error_set(err, WEIR_ERR_NO_MEMORY, "ask for less memory", "a segment of more than %llu bytes",
                                (unsigned long long)MOST_BYTES);
    }
    if (g->me < 0 || (flags & ~(unsigned)(WR_SHM_SEGMENT_SHARED | WR_SHM_SEGMENT_SMALL_PAGES)) || !s->block)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL,
                            "a segment needs start(), this rank among its ranks and known flags (0x%x)", flags);
    return WEIR_OK;
}

/* The group's first rank makes it and hands it to the others, its failure too. */
static weir_status lead(struct wr_shm *s, struct wr_shm_segment *seg, const int *ranks, bool huge, weir_error *err)
{
    weir_error other;
    weir_status made = make(seg, huge, &seg->making.fd, err), status = made;
    seg->leader = s->base.params.rank;
    seg->id = s->next_segment++;
    for (int i = 1; i < seg->making.n; i++) {
        struct wr_shm_peer *p = wr_shm_peer_of(s, ranks[i]);
        weir_status sent = wr_shm_hand_over(s, (int)(p - s->peers), WR_LETTER_SEGMENT, seg->making.tag,
                                            seg->id << 1 | (seg->page == HUGE), seg->making.fd, seg->mapping, made,
                                            status == WEIR_OK ? err : &other);
        if (status == WEIR_OK)
            status = sent;
    }
    return status;
}

static weir_status follow(struct wr_shm *s, struct wr_shm_segment *seg, weir_error *err)
{
    uint64_t value = 0;
    struct wr_shm_peer *leader = wr_shm_peer_of(s, seg->making.first);
    weir_status status = wr_shm_take_over(s, (int)(leader - s->peers), WR_LETTER_SEGMENT, seg->making.tag, &value,
                                          &seg->making.fd, &seg->mapping, err);
    if (status != WEIR_OK)
        return status;
    seg->leader = seg->making.first;
    seg->id = value >> 1;
    seg->page = value & 1 ? HUGE : PAGE;
    if (seg->mapping)
        return WEIR_OK;
    return wr_shm_map(seg->making.fd, seg->total, seg->total >= HUGE ? HUGE : PAGE, &seg->mapping, err);
}

static void mark_touched(struct wr_shm_segment *seg, uint64_t offset, uint64_t len)
{
    for (uint64_t k = offset / HUGE; len && k <= (offset + len - 1) / HUGE; k++)
        seg->touched[k / 64] |= UINT64_C(1) << (k % 64);
}

/* Gets the memory of this rank's part (its share of a shared one), near its cores. */
static weir_status settle(struct wr_shm *s, struct wr_shm_segment *seg, weir_error *err)
{
    const struct wr_shm_making *g = &seg->making;
    uint64_t offset = seg->offset[seg->shared ? 0 : g->me], len = seg->bytes[seg->shared ? 0 : g->me];
    if (seg->shared) {
        uint64_t share = round_up(len / (uint64_t)g->n + 1, seg->total >= HUGE ? HUGE : PAGE);
        uint64_t from = WR_MIN(len, share * (uint64_t)g->me);
        offset += from;
        len = WR_MIN(share, len - from);
    }
    if (!len)
        return WEIR_OK;
    if (len >= LARGE_BYTES && len > memory_available())
        return wr_error_set(err, WEIR_ERR_NO_MEMORY, "ask for less memory, or use more nodes",
                            "%llu bytes of shared memory are more than this machine has left", (unsigned long long)len);
    char *base = seg->mapping->base + offset;
    int numa = s->base.params.numa;
    if (!g->small && seg->page == PAGE && len >= HUGE && have_transparent() && !madvise(base, len, MADV_HUGEPAGE))
        seg->page = HUGE;
    if (numa >= 0 && numa < 1024) { /* a wish: where it cannot be had, memory still comes from somewhere */
        unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {0};
        mask[(size_t)numa / (8 * sizeof mask[0])] = 1ul << ((size_t)numa % (8 * sizeof mask[0]));
        syscall(SYS_mbind, base, round_up(len, PAGE), PREFERRED, mask, 1024ul, 0ul);
    }
    weir_status status = wr_shm_populate(g->fd, base, offset, len, err);
    if (status == WEIR_OK && !seg->shared)
        mark_touched(seg, offset, len);
    return status;
}

weir_status wr_shm_segment_begin(struct wr_transport *t, const int *ranks, int n, const uint64_t *bytes, unsigned flags,
                                 uint64_t label, struct wr_shm_segment **segment, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct wr_shm_making making;
    uint64_t least;
    weir_status status = read_group(s, ranks, n, bytes, flags, label, &making, err);
    if (status != WEIR_OK)
        return status;
    struct wr_shm_segment *seg = new_segment(n, bytes, flags, &least, err);
    if (!seg)
        return WEIR_ERR_NO_MEMORY;
    making.small = (flags & WR_SHM_SEGMENT_SMALL_PAGES) || (t->params.config && t->params.config->huge_pages == 1);
    seg->making = making;
    if (making.me == 0)
        status = lead(s, seg, ranks, !making.small && least >= HUGE && least != UINT64_MAX, err);
    if (status != WEIR_OK)
        destroy(seg);
    else
        *segment = seg;
    return status;
}

weir_status wr_shm_segment_end(struct wr_transport *t, struct wr_shm_segment *seg, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    weir_status status = seg->making.me ? follow(s, seg, err) : WEIR_OK;
    if (status == WEIR_OK)
        status = settle(s, seg, err);
    if (status != WEIR_OK) {
        destroy(seg);
        return status;
    }
    if (seg->making.fd >= 0)
        close(seg->making.fd);
    seg->making.fd = -1;
    wr_list_push_back(&s->segments, &seg->link);
    return WEIR_OK;
}

weir_status wr_shm_segment_create(struct wr_transport *t, const int *ranks, int n, const uint64_t *bytes, unsigned flags,
                                  uint64_t label, struct wr_shm_segment **segment, weir_error *err)
{
    struct wr_shm_segment *seg;
    weir_status status = wr_shm_segment_begin(t, ranks, n, bytes, flags, label, &seg, err);
    if (status == WEIR_OK)
        status = wr_shm_segment_end(t, seg, err);
    if (status == WEIR_OK)
        *segment = seg;
    return status;
}

void *wr_shm_segment_base(const struct wr_shm_segment *seg, int index)
{
    return seg->mapping->base + seg->offset[seg->shared ? 0 : index];
}

uint64_t wr_shm_segment_bytes(const struct wr_shm_segment *seg, int index)
{
    return seg->bytes[seg->shared ? 0 : index];
}

uint64_t wr_shm_segment_page(const struct wr_shm_segment *seg)
{
    return seg->page;
}

/* The end of the memory of the part in which `offset` lies. */
static uint64_t part_end(const struct wr_shm_segment *seg, uint64_t offset)
{
    for (int i = seg->n - 1; i >= 0; i--)
        if (seg->bytes[i] && seg->offset[i] <= offset)
            return seg->offset[i] + round_up(seg->bytes[i], PAGE);
    return offset;
}

static void make_entries(struct wr_shm_segment *seg, uint64_t from, uint64_t to)
{
    while (from < to) {
        uint64_t end = part_end(seg, from), stop = WR_MIN(to, end);
        if (stop <= from) /* in a gap, which has no memory */
            stop = WR_MIN(to, from + PAGE);
        else
            wr_shm_populate(-1, seg->mapping->base + from, 0, stop - from, NULL); /* where not, faults do it */
        from = stop;
    }
}

void wr_shm_segment_prepare(struct wr_shm_segment *seg, uint64_t offset, uint64_t len)
{
    for (uint64_t k = offset / HUGE; len && k <= (offset + len - 1) / HUGE; k++) {
        if (WR_LIKELY(seg->touched[k / 64] >> (k % 64) & 1))
            continue;
        make_entries(seg, k * HUGE, WR_MIN((k + 1) * (uint64_t)HUGE, seg->total));
        seg->touched[k / 64] |= UINT64_C(1) << (k % 64);
    }
}

void wr_shm_segment_touch(struct wr_shm_segment *seg, int index, uint64_t offset, uint64_t len)
{
    wr_shm_segment_prepare(seg, seg->offset[seg->shared ? 0 : index] + offset, len);
}

void wr_shm_segment_free(struct wr_transport *t, struct wr_shm_segment *seg)
{
    struct wr_shm *s = wr_shm_of(t);
    struct wr_rkey *k;
    struct wr_region *r;
    if (!seg)
        return;
    wr_list_for_each(k, &s->rkeys, link) {
        if (k->segment == seg) {
            k->stale = true;
            k->mapped = NULL;
            k->segment = NULL;
        }
    }
    wr_list_for_each(r, &s->regions, link) {
        if (r->segment == seg)
            r->segment = NULL;
    }
    wr_list_remove(&seg->link);
    destroy(seg);
}

void wr_shm_segments_close(struct wr_shm *s)
{
    while (!wr_list_empty(&s->segments))
        wr_shm_segment_free(&s->base, wr_list_first(&s->segments, struct wr_shm_segment, link));
}

struct wr_shm_segment *wr_shm_segment_of(struct wr_shm *s, const void *addr, uint64_t len, uint64_t *offset)
{
    struct wr_shm_segment *seg;
    wr_list_for_each(seg, &s->segments, link) {
        uint64_t at = (uintptr_t)addr - (uintptr_t)seg->mapping->base;
        if ((const char *)addr >= seg->mapping->base && at <= seg->total && len <= seg->total - at) {
            *offset = at;
            return seg;
        }
    }
    return NULL;
}

struct wr_shm_segment *wr_shm_segment_find(struct wr_shm *s, int leader, uint64_t id, uint64_t offset, uint64_t len)
{
    struct wr_shm_segment *seg;
    wr_list_for_each(seg, &s->segments, link) {
        if (seg->leader == leader && seg->id == id && offset <= seg->total && len <= seg->total - offset)
            return seg;
    }
    return NULL;
}

void wr_shm_segment_name(const struct wr_shm_segment *seg, int *leader, uint64_t *id)
{
    *leader = seg->leader;
    *id = seg->id;
}

char *wr_shm_segment_at(const struct wr_shm_segment *seg, uint64_t offset)
{
    return seg->mapping->base + offset;
}
