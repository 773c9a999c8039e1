/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures with time along the width, as SVG. */
#ifndef WR_TOOLS_PICTURE_H
#define WR_TOOLS_PICTURE_H

#include <stdio.h>

#include <weir/status.h>

#include "base/compiler.h"

/* Writes a file by `write`; WEIR_ERR_IO when it cannot be opened or written. */
weir_status picture_file(const char *path, void (*write)(const void *user, FILE *out), const void *user, weir_error *err);

/* Begins a picture of that size on white, with `style` (CSS) and a title at (left, 20). End it by "</svg>". */
void picture_begin(FILE *out, double width, double height, const char *style, double left, const char *title, ...) WR_PRINTF(6, 7);

/* The axis of time, from 0 to `end`, over `width` from `left` on: lines from `top` to `bottom` and numbers, divided by `scale`,
   with their unit below. Uses the classes tick and time. */
void picture_axis(FILE *out, double left, double width, double top, double bottom, double end, double scale, const char *unit);

/* Boxes with their names, the names being those of their classes, at height 34. */
void picture_legend(FILE *out, double left, const char *const *names, size_t n);

#endif
