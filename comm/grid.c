/* SPDX-License-Identifier: BSD-3-Clause */
/* Grids of ranks: axes, placement, coordinates, communicators along axes. */
#include <weir/grid.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/comm.h"
#include "comm/mem/exchange.h"

enum { NAME_MAX_LEN = 15 };

struct axis {
    char name[NAME_MAX_LEN + 1];
    int64_t size;
};

struct weir_grid {
    int naxes;
    struct axis axis[WEIR_GRID_AXES];
    int stride[WEIR_GRID_AXES]; /* by how much the rank grows with the coordinate */
    weir_comm *comm;
    weir_comm *sub[1 << WEIR_GRID_AXES]; /* by set of axes; NULL until asked for */
};

/* ---- axes ---- */

/* What all ranks must say alike. */
struct grid_card {
    uint64_t flags;
    int64_t naxes;
    struct axis axis[WEIR_GRID_AXES];
};

static weir_status read_axes(int naxes, const weir_axis *axes, uint64_t flags, struct grid_card *card, weir_error *err)
{
    memset(card, 0, sizeof *card);
    if (naxes < 1 || naxes > WEIR_GRID_AXES || !axes)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a grid of %d axes; it has 1 to %d", naxes, WEIR_GRID_AXES);
    if (flags & ~(uint64_t)WEIR_GRID_KEEP_ORDER)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "unknown flags %#llx", (unsigned long long)flags);
    card->flags = flags;
    card->naxes = naxes;
    for (int i = 0; i < naxes; i++) {
        const char *name = axes[i].name ? axes[i].name : "";
        size_t len = strlen(name);
        for (size_t k = 0; k < len; k++)
            if (!isalnum((unsigned char)name[k]) && name[k] != '_')
                len = 0;
        if (!len || len > NAME_MAX_LEN)
            return wr_error_set(err, WEIR_ERR_INVALID, "use 1 to 15 letters, digits and underscores",
                                "'%.40s' cannot be the name of an axis", name);
        for (int k = 0; k < i; k++)
            if (!strcmp(card->axis[k].name, name))
                return wr_error_set(err, WEIR_ERR_INVALID, NULL, "two axes have the name %s", name);
        memcpy(card->axis[i].name, name, len);
        card->axis[i].size = axes[i].size;
    }
    return WEIR_OK;
}

/* "pp=2 dp=4 tp=2" */
static const char *write_axes(const struct grid_card *card, char *buf, size_t size)
{
    char number[40];
    buf[0] = '\0';
    for (int i = 0; i < card->naxes; i++) {
        snprintf(number, sizeof number, "%s%s=%lld", i ? " " : "", card->axis[i].name, (long long)card->axis[i].size);
        wr_str_append(buf, size, number);
    }
    return buf;
}

/* Finds the size that was left open, and checks the product. */
static weir_status fit_axes(struct grid_card *card, int ranks, weir_error *err)
{
    char text[256];
    int64_t product = 1;
    int open = -1;
    write_axes(card, text, sizeof text);
    for (int i = 0; i < card->naxes; i++) {
        int64_t size = card->axis[i].size;
        if (size < 0 || (!size && open >= 0))
            return wr_error_set(err, WEIR_ERR_INVALID, "give positive sizes; one of them may be 0, for what is left",
                                "the axes %s cannot be", text);
        if (!size)
            open = i;
        else if (product > INT32_MAX / size)
            product = INT64_MAX / size - 1; /* too many in any case */
        product *= size ? size : 1;
    }
    if (open >= 0 && product <= ranks && ranks % product == 0) {
        card->axis[open].size = ranks / product;
        return WEIR_OK;
    }
    if (open >= 0)
        return wr_error_set(err, WEIR_ERR_INVALID, "choose sizes whose product divides the number of ranks",
                            "the axes %s do not divide the %d ranks of the communicator", text, ranks);
    if (product != ranks)
        return wr_error_set(err, WEIR_ERR_INVALID, "choose sizes that multiply to the number of ranks, or 0 for one of them",
                            "the axes %s make %lld ranks, but the communicator has %d", text, (long long)product, ranks);
    return WEIR_OK;
}

static weir_status compare(const weir_comm *comm, const struct grid_card *cards, weir_error *err)
{
    char first[256], other[256];
    for (int r = 1; r < comm->size; r++)
        if (memcmp(&cards[r], &cards[0], sizeof *cards) != 0) {
            wr_error_set(err, WEIR_ERR_MISMATCH, "give the same axes and flags on all ranks",
                         "rank 0 gave the axes %s (flags %llu), rank %d %s (flags %llu)",
                         write_axes(&cards[0], first, sizeof first), (unsigned long long)cards[0].flags, r,
                         write_axes(&cards[r], other, sizeof other), (unsigned long long)cards[r].flags);
            err->rank = r;
            return WEIR_ERR_MISMATCH;
        }
    return WEIR_OK;
}

/* ---- placement ---- */

/*
 * The place of this rank in the grid. Each node fills as many whole rows of the innermost axis as it has ranks for; what is left
 * over makes the last rows, in the order of nodes.
 */
static weir_status place(const weir_comm *comm, int row, int *at, weir_error *err)
{
    size_t n = (size_t)comm->nnodes;
    int *seen = calloc(n, sizeof *seen), *size = calloc(n, sizeof *size), *before = calloc(n, sizeof *before);
    int *over = calloc(n, sizeof *over), rows = 0, left = 0, node = comm->node_of[comm->rank];
    weir_status status = WEIR_OK;
    if (!seen || !size || !before || !over) {
        status = wr_error_memory(err, n * 4 * sizeof *seen, "a grid");
        goto out;
    }
    for (int r = 0; r < comm->size; r++)
        size[comm->node_of[r]]++;
    for (size_t i = 0; i < n; i++) {
        before[i] = rows;
        over[i] = left;
        rows += size[i] / row;
        left += size[i] % row;
    }
    int index = comm->mate, whole = size[node] / row * row; /* among the ranks of the node */
    *at = index < whole ? before[node] * row + index : rows * row + over[node] + index - whole;
out:
    free(seen);
    free(size);
    free(before);
    free(over);
    return status;
}

static weir_status make(weir_comm *comm, weir_grid *grid, struct grid_card *card, weir_error *err)
{
    struct grid_card *cards = malloc((size_t)comm->size * sizeof *cards);
    weir_status status = cards ? wr_exchange_allgather(comm, card, cards, sizeof *card, err)
                               : wr_error_memory(err, (size_t)comm->size * sizeof *cards, "a grid");
    int at = comm->rank, stride = 1;
    if (!status)
        status = compare(comm, cards, err);
    if (!status)
        status = fit_axes(card, comm->size, err);
    free(cards);
    if (status)
        return status;
    grid->naxes = (int)card->naxes;
    for (int i = grid->naxes - 1; i >= 0; i--) {
        grid->axis[i] = card->axis[i];
        grid->stride[i] = stride;
        stride *= (int)card->axis[i].size;
    }
    if (!(card->flags & WEIR_GRID_KEEP_ORDER))
        status = place(comm, (int)grid->axis[grid->naxes - 1].size, &at, err);
    status = wr_exchange_agree(comm, status, err);
    return status ? status : wr_comm_split(comm, 0, at, &grid->comm, err);
}

weir_status weir_grid_create(weir_comm *comm, int naxes, const weir_axis *axes, uint64_t flags, weir_grid **out)
{
    weir_error err = {.rank = -1};
    struct grid_card card;
    weir_grid *grid = calloc(1, sizeof *grid);
    wr_engine_lock(comm->engine);
    weir_status status = wr_comm_check_alive(comm, &err);
    if (!status) {
        status = grid ? read_axes(naxes, axes, flags, &card, &err) : wr_error_memory(&err, sizeof *grid, "a grid");
        wr_comm_step(comm, "weir_grid_create");
        status = wr_exchange_agree(comm, status, &err);
    }
    if (!status)
        status = make(comm, grid, &card, &err);
    wr_engine_unlock(comm->engine);
    if (status) {
        free(grid);
        return wr_comm_fail(comm, &err, "weir_grid_create");
    }
    *out = grid;
    return WEIR_OK;
}

weir_status weir_grid_free(weir_grid *grid)
{
    weir_status status = WEIR_OK;
    if (!grid)
        return WEIR_OK;
    for (int set = 1; set < 1 << WEIR_GRID_AXES && !status; set++) {
        status = grid->sub[set] == grid->comm ? WEIR_OK : weir_comm_free(grid->sub[set]);
        if (!status)
            grid->sub[set] = NULL;
    }
    if (!status)
        status = weir_comm_free(grid->comm);
    if (!status)
        free(grid);
    return status;
}

/* ---- asking ---- */

weir_comm *weir_grid_comm(const weir_grid *grid)
{
    return grid->comm;
}

int weir_grid_naxes(const weir_grid *grid)
{
    return grid->naxes;
}

const char *weir_grid_axis_name(const weir_grid *grid, int index)
{
    return index >= 0 && index < grid->naxes ? grid->axis[index].name : NULL;
}

/* The index of the axis of this name (`len` characters), -1 when there is none. */
static int find_axis(const weir_grid *grid, const char *name, size_t len)
{
    for (int i = 0; i < grid->naxes; i++)
        if (strlen(grid->axis[i].name) == len && !memcmp(grid->axis[i].name, name, len))
            return i;
    return -1;
}

int weir_grid_axis_size(const weir_grid *grid, const char *name)
{
    int i = find_axis(grid, name, strlen(name));
    return i < 0 ? -1 : (int)grid->axis[i].size;
}

static int coord(const weir_grid *grid, int rank, int axis)
{
    return rank / grid->stride[axis] % (int)grid->axis[axis].size;
}

int weir_grid_coord(const weir_grid *grid, int rank, const char *name)
{
    int i = find_axis(grid, name, strlen(name));
    return i < 0 || rank < 0 || rank >= grid->comm->size ? -1 : coord(grid, rank, i);
}

weir_status weir_grid_coords(const weir_grid *grid, int rank, int *coords)
{
    if (rank < 0 || rank >= grid->comm->size)
        return WEIR_ERR_INVALID;
    for (int i = 0; i < grid->naxes; i++)
        coords[i] = coord(grid, rank, i);
    return WEIR_OK;
}

int weir_grid_rank(const weir_grid *grid, const int *coords)
{
    int rank = 0;
    for (int i = 0; i < grid->naxes; i++) {
        if (coords[i] < 0 || coords[i] >= grid->axis[i].size)
            return -1;
        rank += coords[i] * grid->stride[i];
    }
    return rank;
}

/* ---- communicators along axes ---- */

static weir_status read_set(const weir_grid *grid, const char *axes, unsigned *set, weir_error *err)
{
    *set = 0;
    for (const char *name = axes; *name;) {
        size_t len = strcspn(name, ",");
        int i = find_axis(grid, name, len);
        if (i < 0)
            return wr_error_set(err, WEIR_ERR_INVALID, "name axes as weir_grid_create() got them, separated by commas",
                                "the grid has no axis '%.*s'", (int)WR_MIN(len, (size_t)40), name);
        *set |= 1u << i;
        name += len;
        name += *name == ',';
    }
    return *set ? WEIR_OK : wr_error_set(err, WEIR_ERR_INVALID, NULL, "no axis is named");
}

weir_status weir_grid_sub(weir_grid *grid, const char *axes, weir_comm **comm)
{
    weir_error err = {.rank = -1};
    unsigned set;
    weir_status status = read_set(grid, axes, &set, &err);
    if (status)
        return wr_comm_fail(grid->comm, &err, "weir_grid_sub");
    if (!grid->sub[set] && set == (1u << grid->naxes) - 1)
        grid->sub[set] = grid->comm;
    if (!grid->sub[set]) {
        int color = 0; /* the coordinates on the other axes */
        for (int i = 0; i < grid->naxes; i++)
            if (!(set >> i & 1))
                color += coord(grid, grid->comm->rank, i) * grid->stride[i];
        wr_engine_lock(grid->comm->engine);
        wr_comm_step(grid->comm, "weir_grid_sub");
        status = wr_comm_split(grid->comm, color, grid->comm->rank, &grid->sub[set], &err);
        wr_engine_unlock(grid->comm->engine);
    }
    if (status)
        return wr_comm_fail(grid->comm, &err, "weir_grid_sub");
    *comm = grid->sub[set];
    return WEIR_OK;
}
