/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Grids: ranks in several dimensions, with a communicator for each of them.
 *
 * A training job has axes such as pp (pipeline stages), dp (data parallel) and tp (tensor parallel). A grid gives each rank a
 * coordinate on each axis, and communicators of the ranks that differ only on the axes one asks for.
 */
#ifndef WEIR_GRID_H
#define WEIR_GRID_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A grid of ranks, opaque. */
typedef struct weir_grid weir_grid;

/** Most axes of a grid. */
#define WEIR_GRID_AXES 8

/** One axis. */
typedef struct weir_axis {
    const char *name; /**< 1..15 letters, digits and underscores; each name once */
    int64_t size;     /**< ranks along it; 0 on one axis: what the others leave */
} weir_axis;

/** Flags of weir_grid_create(). */
typedef enum weir_grid_flags {
    WEIR_GRID_KEEP_ORDER = 1 /**< ranks of the grid are numbered as in the communicator, wherever they sit */
} weir_grid_flags;

/**
 * Arranges the ranks of a communicator as a grid. Axes are given from the outermost to the innermost: the coordinate on the last
 * one changes fastest with the rank. The grid has a communicator of its own, in which ranks are numbered in that order. Unless
 * ::WEIR_GRID_KEEP_ORDER is given, they are renumbered so that ranks that differ only on the innermost axis share a node
 * wherever the nodes' sizes allow it, and neighbours on the next ones are near each other.
 *
 * Collective over comm; axes and flags must agree.
 *
 * @param comm   a communicator, which must not be freed before the grid
 * @param naxes  1..::WEIR_GRID_AXES
 * @param axes   the axes, outermost first; copied
 * @param flags  ::weir_grid_flags or 0
 * @param[out] grid  to be freed by weir_grid_free(); set on success only
 * @return ::WEIR_OK on all ranks, or an error: ::WEIR_ERR_INVALID when the sizes do not multiply to the communicator's size, or
 *         for a name; ::WEIR_ERR_MISMATCH when ranks gave different axes; as weir_comm_split()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_grid_create(weir_comm *comm, int naxes, const weir_axis *axes, uint64_t flags, weir_grid **grid);

/**
 * Frees a grid and its communicators, on which everything must have completed and been freed, as for weir_comm_free().
 * Collective. NULL does nothing. On ::WEIR_ERR_BUSY some of its communicators may be gone already; call it again.
 */
weir_status weir_grid_free(weir_grid *grid);

/** The communicator of all ranks of the grid, in the grid's order; owned by the grid. Thread safety: safe from any thread. */
weir_comm *weir_grid_comm(const weir_grid *grid);

/** Number of axes. Thread safety: safe from any thread. */
int weir_grid_naxes(const weir_grid *grid);

/** The name of axis `index`, 0 being the outermost; NULL when out of range. Owned by the grid. Thread safety: safe. */
const char *weir_grid_axis_name(const weir_grid *grid, int index);

/** The size of an axis; -1 when there is none of that name. Thread safety: safe from any thread. */
int weir_grid_axis_size(const weir_grid *grid, const char *name);

/** The coordinate on an axis of a rank of weir_grid_comm(); -1 when there is no such axis or rank. Thread safety: safe. */
int weir_grid_coord(const weir_grid *grid, int rank, const char *name);

/**
 * All coordinates of a rank of weir_grid_comm(), outermost axis first.
 *
 * @param[out] coords  weir_grid_naxes() numbers
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a rank out of range
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_grid_coords(const weir_grid *grid, int rank, int *coords);

/**
 * The rank in weir_grid_comm() of coordinates, outermost axis first.
 *
 * @return the rank; -1 when a coordinate is out of range
 *
 * Thread safety: safe from any thread.
 */
int weir_grid_rank(const weir_grid *grid, const int *coords);

/**
 * The communicator of the ranks that have this rank's coordinates on all axes but those named: "tp" gives the ranks along tp,
 * "dp,tp" a plane. Its ranks are ordered by the named axes, in the grid's order. Made in the first call, kept by the grid.
 *
 * Collective over the grid in the first call for these axes; later calls only return it.
 *
 * @param grid  a grid
 * @param axes  names separated by commas, in any order
 * @param[out] comm  owned by the grid
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for an unknown name; as weir_comm_split()
 *
 * Thread safety: one collective call at a time for each grid.
 */
weir_status weir_grid_sub(weir_grid *grid, const char *axes, weir_comm **comm);

#ifdef __cplusplus
}
#endif

#endif
