/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of text that the library keeps for its user: read whole or not at all, replaced whole or not at all. */
#ifndef WR_FILE_H
#define WR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

enum wr_file_flags {
    WR_FILE_OWN = 1 /* only a file of this user, and no symbolic link */
};

/*
 * Reads a regular file of at most `max` bytes. Returns 0 and sets *text (terminated, to be freed) and *modified (seconds since
 * 1970; may be NULL), or an errno: EFBIG when it is longer, EILSEQ when it holds a null byte, EINVAL when it is no regular file,
 * EPERM when it belongs to another user, or that of the system. Never blocks on a pipe or device.
 */
int wr_file_read(const char *path, size_t max, unsigned flags, char **text, int64_t *modified);

/* Replaces a file, making the folders that it stands in: readers see the old one or the new one. false: errno says why. */
bool wr_file_replace(const char *path, const void *data, size_t len);

/* The path of a file in WEIR_CACHE_DIR, or where that is unset in the user's cache folder; false when there is no such place (no
 * home, or WEIR_CACHE_DIR=off) or the path is too long. */
bool wr_file_cached(const struct wr_config *config, const struct wr_env *env, const char *name, char *path, size_t size);

#endif
