/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of the user in all collectives that combine; all-gather into a window of the node; averages of halves, unless
 * -c says that they are coarse, or alone with -a; and, with -p, only a number that is made of the bits of floating-point reductions whose order
 * shows.
 */
#include <getopt.h>

#include "tests/multi/multi.h"
#include "tests/multi/select_data.h"

/* 2 x 2 matrices of integers that wrap around: their product is associative, and not commutative. */
struct matrix {
    uint32_t a, b, c, d;
};

static struct matrix times(struct matrix x, struct matrix y)
{
    return (struct matrix){x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c,
                           x.c * y.b + x.d * y.d};
}

static void multiply(void *user, void *inout, const void *in, uint64_t n)
{
    struct matrix *to = inout;
    const struct matrix *from = in;
    for (uint64_t i = 0; i < n; i++)
        to[i] = times(to[i], from[i]);
    *(uint64_t *)user += n;
}

/* Commutative: the larger of two by absolute value. */
static void furthest(void *user, void *inout, const void *in, uint64_t n)
{
    int32_t *to = inout;
    const int32_t *from = in;
    (void)user;
    for (uint64_t i = 0; i < n; i++)
        to[i] = abs(from[i]) > abs(to[i]) ? from[i] : to[i];
}

static struct matrix matrix_of(int r, uint64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u + (uint64_t)r * 40503u);
    return (struct matrix){x | 1, x >> 3, x >> 7 & 15, (x >> 11) | 1};
}

static struct matrix product(int first, int last, uint64_t i)
{
    struct matrix m = matrix_of(first, i);
    for (int r = first + 1; r <= last; r++)
        m = times(m, matrix_of(r, i));
    return m;
}

static void compare(const struct matrix *got, uint64_t n, int first, int last, uint64_t start, const char *what)
{
    for (uint64_t i = 0; i < n; i++) {
        struct matrix want = product(first, last, start + i);
        CHECK(!memcmp(&got[i], &want, sizeof want), "%s of %llu matrices: element %llu is wrong", what,
              (unsigned long long)n, (unsigned long long)i);
    }
}

static void matrices(weir_op op, uint64_t n)
{
    uint64_t all = n * (uint64_t)size, mine = n * (uint64_t)rank;
    struct matrix *in = malloc((all + 1) * sizeof *in), *out = malloc((all + 1) * sizeof *out);
    weir_request *request;
    CHECK(in && out, "no memory");
    for (uint64_t i = 0; i < all; i++)
        in[i] = matrix_of(rank, i);
    OK(weir_allreduce(comm, in, out, n, WEIR_OPAQUE, op));
    compare(out, n, 0, size - 1, 0, "allreduce");
    OK(weir_reduce(comm, in, out, n, WEIR_OPAQUE, op, size - 1));
    if (rank == size - 1)
        compare(out, n, 0, size - 1, 0, "reduce");
    OK(weir_reduce_scatter_init(comm, in, out, n, WEIR_OPAQUE, op, &request));
    OK(weir_start(request));
    OK(weir_wait(&request));
    compare(out, n, 0, size - 1, mine, "reduce_scatter");
    OK(weir_request_free(&request));
    OK(weir_iscan(comm, in, out, n, WEIR_OPAQUE, op, &request));
    OK(weir_wait(&request));
    compare(out, n, 0, rank, 0, "scan");
    OK(weir_exscan(comm, in, out, n, WEIR_OPAQUE, op));
    if (rank)
        compare(out, n, 0, rank - 1, 0, "exscan");
    memcpy(out, in, n * sizeof *in);
    OK(weir_allreduce(comm, WEIR_IN_PLACE, out, n, WEIR_OPAQUE, op));
    compare(out, n, 0, size - 1, 0, "allreduce in place");
    free(in);
    free(out);
}

static void operations(void)
{
    uint64_t combined = 0;
    weir_op op, far;
    int32_t in[3] = {rank, -2 * rank, 7}, out[3];
    OK(weir_op_create(ctx, sizeof(struct matrix), multiply, &combined, WEIR_OP_ORDERED, &op));
    OK(weir_op_create(ctx, sizeof(int32_t), furthest, NULL, 0, &far));
    matrices(op, 1);
    matrices(op, 0);
    matrices(op, 777);
    matrices(op, 20000);
    CHECK(size == 1 || combined, "the function was not called");
    OK(weir_allreduce(comm, in, out, 3, WEIR_INT32, far));
    CHECK(out[0] == size - 1 && out[1] == -2 * (size - 1) && out[2] == 7, "furthest: %d %d %d", out[0], out[1], out[2]);
    CHECK(weir_allreduce(comm, in, out, 3, WEIR_INT64, far) == WEIR_ERR_INVALID, "an operation on a type of another size");
    CHECK(weir_allgather(comm, in, out, 1, WEIR_OPAQUE) == WEIR_ERR_INVALID, "opaque elements without an operation");
    CHECK(weir_op_create(ctx, 0, furthest, NULL, 0, &op) == WEIR_ERR_INVALID, "elements of no bytes");
    CHECK(weir_op_create(ctx, 4, furthest, NULL, 8, &op) == WEIR_ERR_INVALID, "unknown flags");
    OK(weir_op_free(ctx, op));
    CHECK(weir_op_free(ctx, op) == WEIR_ERR_INVALID, "freeing twice");
    CHECK(weir_allreduce(comm, in, out, 3, WEIR_OPAQUE, op) == WEIR_ERR_INVALID, "an operation that was freed");
    OK(weir_op_free(ctx, far));
}

/* An all-gather into one result a node. */
static void window(uint64_t bytes, bool in_place, bool persistent)
{
    weir_mem *mem;
    weir_request *request = NULL;
    uint64_t all = bytes * (uint64_t)size;
    unsigned char *in = malloc(bytes + 1);
    OK(weir_mem_alloc(comm, all + 64, WEIR_MEM_NODE_SHARED, &mem));
    unsigned char *out = (unsigned char *)weir_mem_ptr(mem) + 64;
    CHECK(in, "no memory");
    const void *from = in_place ? WEIR_IN_PLACE : in;
    if (persistent)
        OK(weir_allgather_init(comm, from, out, bytes, WEIR_UINT8, &request));
    for (uint64_t k = 0; k < 3; k++) {
        fill(in_place ? out + bytes * (uint64_t)rank : in, bytes, (uint64_t)rank * 7 + k);
        OK(weir_barrier(comm));
        if (persistent) {
            OK(weir_start(request));
            OK(weir_wait(&request));
        } else {
            OK(weir_allgather(comm, from, out, bytes, WEIR_UINT8));
        }
        for (int r = 0; r < size; r++)
            check(out + bytes * (uint64_t)r, bytes, (uint64_t)r * 7 + k, "window");
        OK(weir_barrier(comm));
    }
    OK(weir_request_free(&request));
    OK(weir_mem_free(mem));
    free(in);
}

/* One number of all bits of reductions that depend on their order. */
static uint64_t fold(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static void fingerprint(void)
{
    enum { N = 6000 };
    static float in[N], out[N];
    static uint16_t half[N], half_out[N];
    uint64_t hash = 0xcbf29ce484222325u, sum = 0;
    for (int i = 0; i < N; i++) {
        in[i] = (float)(pattern((uint64_t)i, (uint64_t)rank) - 100) * (i % 3 ? 1e-3f : 7.3f) / (float)(rank + 3);
        uint32_t bits;
        memcpy(&bits, &in[i], 4);
        half[i] = (uint16_t)(bits >> 16);
    }
    for (uint64_t n = 1; n <= N; n *= n < 100 ? 70 : N / 70) {
        OK(weir_allreduce(comm, in, out, n, WEIR_FP32, WEIR_SUM));
        hash = fold(hash, out, n * 4);
        OK(weir_allreduce(comm, half, half_out, n, WEIR_BF16, WEIR_AVG));
        hash = fold(hash, half_out, n * 2);
        OK(weir_scan(comm, in, out, n, WEIR_FP32, WEIR_SUM));
        hash = fold(hash, out, n * 4);
        uint64_t share = n / (uint64_t)size;
        OK(weir_reduce_scatter(comm, in, out, share, WEIR_FP32, WEIR_SUM));
        hash = fold(hash, out, share * 4);
        OK(weir_reduce(comm, in, out, n, WEIR_FP32, WEIR_SUM, 0));
        hash = fold(hash, out, rank ? 0 : n * 4);
    }
    OK(weir_allreduce(comm, &hash, &sum, 1, WEIR_UINT64, WEIR_SUM));
    if (rank == 0)
        printf("bits %016llx\n", (unsigned long long)sum);
}

/* Averages of halves are rounded once, although their sums do not fit either. */
static void averages(weir_type type)
{
    enum { N = 20000 };
    static uint16_t in[N], out[N];
    for (uint64_t i = 0; i < N; i++)
        number_store(&in[i], type, number_of(type, WEIR_AVG, rank, i, 1));
    OK(weir_allreduce(comm, in, out, N, type, WEIR_AVG));
    for (uint64_t i = 0; i < N; i++) {
        uint16_t want;
        struct number n = number_of(type, WEIR_AVG, 0, i, 1);
        for (int r = 1; r < size; r++)
            n = number_combine(WEIR_AVG, n, number_of(type, WEIR_AVG, r, i, 1), type);
        number_store(&want, type, number_end(WEIR_AVG, n, size, type));
        CHECK(out[i] == want, "average %llu of %s is %04x, not %04x", (unsigned long long)i, weir_type_name(type), out[i], want);
    }
}

/* Sums of halves whose partial sums are halves as well are still about right. */
static void coarse(void)
{
    enum { N = 3000 };
    static uint16_t in[N], out[N];
    for (int i = 0; i < N; i++) {
        float f = (float)(1 + (i + rank) % 5);
        uint32_t bits;
        memcpy(&bits, &f, 4);
        in[i] = (uint16_t)(bits >> 16);
    }
    OK(weir_allreduce(comm, in, out, N, WEIR_BF16, WEIR_SUM));
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)out[i] << 16;
        float got, want = 0;
        memcpy(&got, &bits, 4);
        for (int r = 0; r < size; r++)
            want += (float)(1 + (i + r) % 5);
        CHECK(got > want * 0.96f && got < want * 1.04f, "element %d of a coarse sum is %g, not %g", i, got, want);
    }
}

int main(int argc, char **argv)
{
    bool print = false, exact = true, only = false;
    int c;
    while ((c = getopt(argc, argv, "pca")) != -1) {
        if (c != 'p' && c != 'c' && c != 'a')
            return 2;
        print |= c == 'p';
        exact &= c != 'c';
        only |= c == 'a';
    }
    start();
    if (print) {
        fingerprint();
    } else if (only) {
        averages(WEIR_BF16);
        averages(WEIR_FP16);
    } else {
        operations();
        for (int k = 0; k < 4; k++)
            window(k < 2 ? 100000 : 1, k & 1, k > 1);
        window(30000, false, true);
        if (exact) {
            averages(WEIR_BF16);
            averages(WEIR_FP16);
        }
        coarse();
    }
    finish("operations and windows");
    return 0;
}
