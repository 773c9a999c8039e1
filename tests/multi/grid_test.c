/* SPDX-License-Identifier: BSD-3-Clause */
/* Grids: coordinates, placement on nodes, communicators along axes, what is refused. Run by weirrun with 4 or 6 ranks. */
#include "tests/multi/multi.h"

static int64_t sum_on(weir_comm *c, int64_t value)
{
    int64_t sum = 0;
    OK(weir_allreduce(c, &value, &sum, 1, WEIR_INT64, WEIR_SUM));
    return sum;
}

static void coordinates(const weir_grid *grid)
{
    int naxes = weir_grid_naxes(grid), coords[WEIR_GRID_AXES], before[WEIR_GRID_AXES] = {0};
    for (int r = 0; r < size; r++) {
        OK(weir_grid_coords(grid, r, coords));
        CHECK(weir_grid_rank(grid, coords) == r, "the rank of the coordinates of rank %d", r);
        for (int i = 0; i < naxes; i++)
            CHECK(weir_grid_coord(grid, r, weir_grid_axis_name(grid, i)) == coords[i], "coordinate %d of rank %d", i, r);
        /* row-major: the first coordinate that differs has grown by one, those after it have begun again */
        int i = 0;
        while (r && i < naxes && coords[i] == before[i])
            i++;
        CHECK(!r || coords[i] == before[i] + 1, "rank %d does not follow", r);
        memcpy(before, coords, sizeof before);
    }
    coords[0] = weir_grid_axis_size(grid, weir_grid_axis_name(grid, 0));
    CHECK(weir_grid_rank(grid, coords) == -1, "a coordinate out of range");
    CHECK(weir_grid_coords(grid, size, coords) == WEIR_ERR_INVALID, "a rank out of range");
    CHECK(weir_grid_coord(grid, 0, "nothing") == -1 && weir_grid_axis_size(grid, "nothing") == -1, "an unknown axis");
    CHECK(!weir_grid_axis_name(grid, naxes), "an axis too many");
}

/* As many rows of the innermost axis are inside a node as the nodes have room for. */
static void placement(weir_grid *grid, const char *innermost)
{
    const weir_topo *topo;
    weir_comm *row;
    int inside = 1, most = 0, length = weir_grid_axis_size(grid, innermost);
    OK(weir_ctx_topo(ctx, &topo));
    for (int node = 0; node < weir_topo_nnodes(topo); node++)
        most += weir_topo_node_size(topo, node) / length;
    OK(weir_grid_sub(grid, innermost, &row));
    for (int r = 0; r < length; r++)
        inside &= weir_topo_node(topo, weir_comm_world_rank(row, r)) == weir_topo_node(topo, weir_rank(ctx));
    int64_t have = sum_on(weir_grid_comm(grid), weir_comm_rank(row) == 0 && inside);
    CHECK(have == most, "%lld of %d rows of %s are inside a node", (long long)have, most, innermost);
}

static void along(weir_grid *grid)
{
    weir_comm *all = weir_grid_comm(grid), *again;
    int me = weir_comm_rank(all);
    static const char *const sets[] = {"pp", "dp", "tp", "dp,tp", "tp,pp", "pp,dp,tp"};
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        weir_comm *c;
        int64_t want = 0, n = 0;
        OK(weir_grid_sub(grid, sets[s], &c));
        for (int r = 0; r < size; r++) {
            bool member = true;
            for (int i = 0; i < 3; i++) {
                const char *name = weir_grid_axis_name(grid, i);
                member &= strstr(sets[s], name) || weir_grid_coord(grid, r, name) == weir_grid_coord(grid, me, name);
            }
            if (member) {
                CHECK(weir_comm_world_rank(c, (int)n) == weir_comm_world_rank(all, r), "rank %lld along %s", (long long)n,
                      sets[s]);
                want += r * r + 1;
                n++;
            }
        }
        CHECK(weir_comm_size(c) == n, "%d ranks along %s", weir_comm_size(c), sets[s]);
        int64_t got = sum_on(c, me * me + 1);
        CHECK(got == want, "the sum along %s is %lld, not %lld", sets[s], (long long)got, (long long)want);
    }
    OK(weir_grid_sub(grid, "tp,dp", &again));
    weir_comm *plane;
    OK(weir_grid_sub(grid, "dp,tp", &plane));
    CHECK(plane == again, "the same axes in another order made another communicator");
    CHECK(weir_grid_sub(grid, "dp,xx", &again) == WEIR_ERR_INVALID, "an unknown axis");
    CHECK(strstr(weir_last_error(ctx)->message, "'xx'"), "the reason is: %s", weir_last_error(ctx)->message);
}

static void refused(int naxes, const weir_axis *axes, weir_status status, const char *text)
{
    weir_grid *grid = NULL;
    weir_status got = weir_grid_create(comm, naxes, axes, 0, &grid);
    CHECK(got == status && !grid, "%s: %s", text, weir_status_name(got));
    CHECK(strstr(weir_last_error(ctx)->message, text), "'%s' is not in: %s", text, weir_last_error(ctx)->message);
}

static void refusals(void)
{
    char many[64];
    snprintf(many, sizeof many, "make %d ranks, but the communicator has %d", 2 * size, size);
    refused(2, (weir_axis[]){{"dp", 2}, {"tp", size}}, WEIR_ERR_INVALID, many);
    refused(2, (weir_axis[]){{"dp", 0}, {"tp", size + 1}}, WEIR_ERR_INVALID, "do not divide");
    refused(2, (weir_axis[]){{"dp", 0}, {"tp", 0}}, WEIR_ERR_INVALID, "cannot be");
    refused(2, (weir_axis[]){{"dp", -1}, {"tp", -size}}, WEIR_ERR_INVALID, "cannot be");
    refused(2, (weir_axis[]){{"dp", INT64_MAX}, {"tp", INT64_MAX}}, WEIR_ERR_INVALID, "ranks");
    refused(2, (weir_axis[]){{"dp", 1}, {"dp", size}}, WEIR_ERR_INVALID, "two axes");
    refused(1, (weir_axis[]){{"a,b", size}}, WEIR_ERR_INVALID, "name of an axis");
    refused(1, (weir_axis[]){{NULL, size}}, WEIR_ERR_INVALID, "name of an axis");
    refused(0, NULL, WEIR_ERR_INVALID, "axes");
    refused(1, (weir_axis[]){{rank == 1 ? "x" : "y", size}}, WEIR_ERR_MISMATCH, "rank 0 gave the axes y=");
}

int main(void)
{
    weir_grid *grid;
    start();
    weir_axis axes[] = {{"pp", size == 6 ? 1 : 2}, {"dp", 0}, {"tp", size == 6 ? 3 : 2}};
    OK(weir_grid_create(comm, 3, axes, 0, &grid));
    CHECK(weir_grid_axis_size(grid, "dp") == (size == 6 ? 2 : 1), "the open axis is %d", weir_grid_axis_size(grid, "dp"));
    coordinates(grid);
    placement(grid, "tp");
    along(grid);
    OK(weir_grid_free(grid));
    OK(weir_grid_create(comm, 2, (weir_axis[]){{"a", size / 2}, {"b", 2}}, 0, &grid)); /* where it need not fit */
    placement(grid, "b");
    OK(weir_grid_free(grid));
    OK(weir_grid_create(comm, 2, (weir_axis[]){{"a", size / 2}, {"b", 2}}, WEIR_GRID_KEEP_ORDER, &grid));
    CHECK(weir_comm_rank(weir_grid_comm(grid)) == rank, "the order was not kept");
    OK(weir_grid_free(grid));
    refusals();
    finish("grids");
    return 0;
}
