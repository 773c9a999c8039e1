/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through the rings. The sender alone writes slots and data, the receiver alone writes `consumed`. */
#include "comm/transport/shm/impl.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

static inline uint64_t make_word(uint32_t sequence, size_t len, int kind, unsigned id)
{
    return sequence | (uint64_t)len << 32 | (uint64_t)kind << 48 | (uint64_t)id << 56;
}

static inline char *data_area(const struct wr_shm *s, const struct wr_shm_ring *ring)
{
    return (char *)(uintptr_t)&ring->slots[s->control->slots];
}

static inline uint64_t data_room(size_t len)
{
    return len > WR_SHM_INLINE ? (len + WR_CACHE_LINE - 1) & ~(uint64_t)(WR_CACHE_LINE - 1) : 0;
}

/* The number of slots is a power of two. */
static inline uint32_t slot_index(const struct wr_shm_control *c, uint32_t sequence)
{
    return sequence & (c->slots - 1);
}

void wr_shm_wake(struct wr_shm *s, struct wr_shm_peer *p)
{
    uint32_t *word = &p->block->sleeping;
    /* What was written before must be visible to a peer that falls asleep now, or its word be seen. Where the sleeper
     * asks the kernel for a barrier on every core, keeping the compiler from reordering is enough. */
    if (p->fence)
        wr_fence_full();
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (WR_LIKELY(wr_load_relaxed(word) == WR_SHM_AWAKE))
        return;
    switch (wr_exchange_acq_rel(word, WR_SHM_AWAKE)) {
    case WR_SHM_IN_FUTEX:
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
        break;
    case WR_SHM_IN_EPOLL:
        wr_mail_ring(&s->mail, &p->address.mail);
        break;
    default:
        break;
    }
}

static bool find_slot(struct wr_shm *s, struct wr_shm_peer *p)
{
    if (WR_LIKELY(p->sent - p->tx_seen < s->control->slots))
        return true;
    p->tx_seen = wr_load_acquire(&p->tx->consumed);
    return p->sent - p->tx_seen < s->control->slots;
}

/* Looks at how far the receiver is; true when a slot and `room` bytes in one piece are free, `*at` says where. */
static bool find_room(struct wr_shm *s, struct wr_shm_peer *p, uint64_t room, uint64_t *at)
{
    const struct wr_shm_control *c = s->control;
    if (!room) {
        *at = p->data_at;
        return find_slot(s, p);
    }
    uint64_t offset = p->data_at % c->data_bytes;
    *at = offset + room > c->data_bytes ? p->data_at + c->data_bytes - offset : p->data_at;
    for (int look = 0; look < 2; look++) {
        uint64_t tail = p->data_after[slot_index(c, p->tx_seen - 1)]; /* of slot 0's predecessor: 0 */
        if (p->sent == p->tx_seen) /* empty */
            tail = p->data_at;
        if (p->sent - p->tx_seen < c->slots && *at + room - tail <= c->data_bytes)
            return true;
        p->tx_seen = wr_load_acquire(&p->tx->consumed);
    }
    return false;
}

weir_status wr_shm_send(struct wr_shm *s, struct wr_shm_peer *p, int kind, unsigned id, const void *a, size_t alen,
                        const void *b, size_t blen, weir_error *err)
{
    size_t len = alen + blen;
    uint64_t room = data_room(len), at;
    if (WR_UNLIKELY(p->lost || !p->tx))
        return wr_shm_error_lost(p, err);
    if (WR_UNLIKELY(!find_room(s, p, room, &at))) {
        p->starved = true;
        return WEIR_ERR_BUSY;
    }
    uint32_t index = slot_index(s->control, p->sent);
    struct wr_shm_slot *slot = &p->tx->slots[index];
    unsigned char *to = slot->data;
    if (room) {
        uint32_t offset = (uint32_t)(at % s->control->data_bytes);
        memcpy(slot->data, &offset, sizeof offset);
        to = (unsigned char *)data_area(s, p->tx) + offset;
        p->data_at = at + room;
    }
    p->data_after[index] = p->data_at;
    if (alen)
        memcpy(to, a, alen);
    if (blen)
        memcpy(to + alen, b, blen);
    wr_store_release(&slot->word, make_word(++p->sent, len, kind, id));
    if (WR_UNLIKELY(p->sent == 1)) /* the receiver does not look at this ring yet */
        __atomic_fetch_or(&p->block->callers[s->me / 64], UINT64_C(1) << (s->me % 64), __ATOMIC_RELEASE);
    wr_shm_wake(s, p);
    return WEIR_OK;
}

bool wr_shm_has_room(struct wr_shm *s, struct wr_shm_peer *p, size_t len)
{
    uint64_t at;
    if (find_room(s, p, data_room(len), &at))
        return true;
    p->starved = true;
    return false;
}

bool wr_shm_has_credit(struct wr_shm *s, struct wr_shm_peer *p)
{
    uint32_t consumed = wr_load_acquire(&p->tx->consumed);
    (void)s;
    if (consumed == p->tx_seen)
        return false;
    p->tx_seen = consumed;
    p->starved = false;
    return true;
}

bool wr_shm_has_record(const struct wr_shm *s, const struct wr_shm_peer *p)
{
    uint64_t word = wr_load_acquire(&p->rx->slots[slot_index(s->control, p->received)].word);
    return (uint32_t)word == p->received + 1;
}

static void count_signal(struct wr_shm *s, struct wr_shm_peer *p, const char *data, size_t len)
{
    uint32_t slot = 0;
    if (len == sizeof slot)
        memcpy(&slot, data, sizeof slot);
    if (len == sizeof slot && slot < s->base.params.nsignals)
        s->base.params.signals[slot]++;
    else
        wr_error(s->base.params.log, TRANSPORT, "shm: rank %d sent signal %u, there are %u: dropped", p->rank, slot,
                 s->base.params.nsignals);
}

static void handle(struct wr_shm *s, struct wr_shm_peer *p, uint64_t word, const struct wr_shm_slot *slot)
{
    size_t len = word >> 32 & 0xffff;
    int kind = word >> 48 & 0xff;
    unsigned id = (unsigned)(word >> 56);
    const char *data = (const char *)slot->data;
    if (len > WR_SHM_INLINE) {
        uint32_t offset;
        memcpy(&offset, slot->data, sizeof offset);
        if (offset + len > s->control->data_bytes) {
            wr_error(s->base.params.log, TRANSPORT, "shm: rank %d sent a record outside its ring: dropped", p->rank);
            return;
        }
        data = data_area(s, p->rx) + offset;
    }
    if (WR_LIKELY(kind == WR_SHM_MESSAGE)) {
        if (WR_LIKELY(id < WR_AM_HANDLERS && s->base.params.am[id]))
            s->base.params.am[id](s->base.params.am_arg, p->rank, data, len);
        else
            wr_error(s->base.params.log, TRANSPORT, "shm: rank %d sent a message for handler %u, which there is not: dropped",
                     p->rank, id);
    } else if (kind == WR_SHM_SIGNAL) {
        count_signal(s, p, data, len);
    } else {
        wr_shm_staged_record(s, p, kind, data, len);
    }
}

/* Gives slots back. A sender that waits for room may sleep. */
static void publish(struct wr_shm *s, struct wr_shm_peer *p)
{
    p->published = p->received;
    p->unpublished_bytes = 0;
    wr_store_release(&p->rx->consumed, p->received);
    wr_shm_wake(s, p);
}

int wr_shm_receive(struct wr_shm *s, struct wr_shm_peer *p, int budget)
{
    const struct wr_shm_control *c = s->control;
    int n = 0;
    p->receiving = true;
    while (n < budget) {
        const struct wr_shm_slot *slot = &p->rx->slots[slot_index(c, p->received)];
        uint64_t word = wr_load_acquire(&slot->word);
        if ((uint32_t)word != p->received + 1)
            break;
        handle(s, p, word, slot);
        p->received++;
        p->unpublished_bytes += (uint32_t)data_room(word >> 32 & 0xffff);
        n++;
        /* Seldom, because it takes the line from the sender; but it must not be left without room for a message. */
        if (p->received - p->published >= c->slots / 4 || p->unpublished_bytes >= c->data_bytes / 4)
            publish(s, p);
    }
    p->receiving = false;
    return n;
}
