/* SPDX-License-Identifier: BSD-3-Clause */
/* This rank's pieces of tensors, with their parameters, masters and states. */
#ifndef WR_ZERO_PIECES_H
#define WR_ZERO_PIECES_H

#include "optim/zero.h"

/* Lists a rank's pieces by section, and where each section's begin (nsections + 1 numbers). Returns how many; with pieces NULL only that. */
uint64_t wr_zero_list_pieces(const struct wr_zero_layout *l, int rank, struct wr_zero_piece *pieces, uint64_t *section_piece);

/* Entries of a state for a piece. A state that depends on the shape belongs to a tensor that is whole. */
uint64_t wr_zero_state_entries(const weir_rule *rule, unsigned state, const struct wr_zero_piece *p);

/* Bytes of memory that rules work with. */
uint64_t wr_zero_work_bytes(const weir_zero *zero);

/* This rank's pieces, with all that belongs to them. */
weir_status wr_zero_pieces_create(weir_zero *zero);
void wr_zero_pieces_destroy(weir_zero *zero);

#endif
