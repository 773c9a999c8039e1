/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing the loops for this machine, and reductions of any number of operands in blocks that stay in the first cache. */
#include "comm/kernel/kernel.h"

#include <string.h>

#include "base/compiler.h"
#include "base/copy.h"
#include "base/isa.h"
#include "comm/kernel/loops_table.h"

enum {
    BLOCK_BYTES = 4096,       /* of the accumulator */
    STREAMING_MIN = 32 << 20  /* results that no cache holds; below, storing past the caches takes longer */
};

size_t weir_type_size(weir_type type)
{
    switch (type) {
#define X(name, value, text, bytes)                                                                          \
    case name:                                                                                               \
        return bytes;
        WEIR_TYPE_TABLE(X)
#undef X
    case WEIR_OPAQUE:
        break;
    }
    return 0;
}

const char *weir_type_name(weir_type type)
{
    switch (type) {
#define X(name, value, text, bytes)                                                                          \
    case name:                                                                                               \
        return text;
        WEIR_TYPE_TABLE(X)
#undef X
    case WEIR_OPAQUE:
        break;
    }
    return NULL;
}

const char *weir_op_name(weir_op op)
{
    switch (op) {
#define X(name, value, text)                                                                                 \
    case name:                                                                                               \
        return text;
        WEIR_OP_TABLE(X)
#undef X
    case WEIR_OP_USER:
        break;
    }
    return NULL;
}

/* ---- choosing ---- */

typedef const struct wr_kernel_loops loops_table[WR_KERNEL_OPS];

static loops_table *const tables[WR_ISA_COUNT] = {
    [WR_ISA_GENERIC] = wr_loops_generic,
#if defined(__x86_64__)
    [WR_ISA_AVX2] = wr_loops_avx2,
    [WR_ISA_AVX512] = wr_loops_avx512,
#endif
};

const char *wr_kernel_isa(void)
{
    return wr_isa_name(wr_isa_best());
}

bool wr_kernel_exists(weir_type type, weir_op op)
{
    return weir_type_size(type) && weir_op_name(op) && wr_loops_generic[type][op].combine;
}

size_t wr_kernel_partial_size(weir_type type)
{
    return type == WEIR_FP16 || type == WEIR_BF16 ? sizeof(float) : weir_type_size(type);
}

bool wr_kernel_find(weir_type type, weir_op op, const char *want, struct wr_kernel *kernel)
{
    enum wr_isa isa;
    if (!wr_kernel_exists(type, op) || !wr_isa_find(want, &isa))
        return false;
    *kernel = (struct wr_kernel){.type = type,
                                 .op = op,
                                 .size = weir_type_size(type),
                                 .partial_size = wr_kernel_partial_size(type),
                                 .loops = tables[isa][type][op],
                                 .stream_bytes = STREAMING_MIN};
    return true;
}

/* ---- reducing ---- */

static void combine(const struct wr_kernel *k, void *acc, const struct wr_operand *src, uint64_t at, size_t n)
{
    if (k->user)
        k->user(k->user_arg, acc, (const char *)src->data + at * k->size, n);
    else if (src->partial)
        k->loops.combine_partial(acc, (const char *)src->data + at * k->partial_size, n);
    else
        k->loops.combine(acc, (const char *)src->data + at * k->size, n);
}

static const void *operand_at(const struct wr_kernel *k, const struct wr_operand *src, uint64_t at)
{
    return (const char *)src->data + at * (src->partial ? k->partial_size : k->size);
}

/* acc = the first operands combined; returns how many. An accumulator that is the first operand is started already. */
static unsigned start(const struct wr_kernel *k, void *acc, const struct wr_operand *src, unsigned nsrc, uint64_t at, size_t n)
{
    const void *first = operand_at(k, src, at);
    bool plain = k->size == k->partial_size;
    if (nsrc >= 2 && !k->user && (plain || (src[0].partial && src[1].partial))) {
        k->loops.pair(acc, first, operand_at(k, &src[1], at), n);
        return 2;
    }
    if (acc != first) {
        if (plain || src[0].partial)
            memcpy(acc, first, n * k->partial_size);
        else
            k->loops.load(acc, first, n);
    }
    return 1;
}

void wr_kernel_reduce(const struct wr_kernel *k, void *dst, bool dst_partial, const struct wr_operand *src, unsigned nsrc, uint64_t n,
                      uint64_t divide_by)
{
    WR_ALIGNED(64) unsigned char block[BLOCK_BYTES];
    size_t dst_size = dst_partial ? k->partial_size : k->size;
    size_t per_block = sizeof block / k->partial_size;
    bool in_dst = k->size == k->partial_size || dst_partial; /* the destination can be the accumulator */
    bool streams = n * dst_size >= k->stream_bytes;
    for (unsigned s = 1; s < nsrc; s++) /* it cannot while it is still to be read as a later operand */
        in_dst &= src[s].data != dst;
    for (uint64_t at = 0; at < n; at += per_block) {
        size_t m = (size_t)WR_MIN(n - at, per_block);
        char *to = (char *)dst + at * dst_size;
        void *acc = in_dst && !streams ? (void *)to : block;
        for (unsigned s = start(k, acc, src, nsrc, at, m); s < nsrc; s++)
            combine(k, acc, &src[s], at, m);
        if (divide_by > 1 && k->loops.divide)
            k->loops.divide(acc, divide_by, m);
        if (acc == to)
            continue;
        if (dst_partial || k->size == k->partial_size) {
            if (streams)
                wr_copy_streaming(to, acc, m * dst_size);
            else
                memcpy(to, acc, m * dst_size);
        } else {
            k->loops.store(to, acc, m);
        }
    }
}
