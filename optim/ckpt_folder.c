/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders of checkpoints: names and numbers, the marker that commits one, and how old ones go. */
#include "optim/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/error.h"

/* "ckpt-00000007-step-1050" */
static void format_name(uint64_t number, uint64_t step, char name[64])
{
    snprintf(name, 64, "ckpt-%08" PRIu64 "-step-%" PRIu64, number, step);
}

/* Only names that format_name() gives. */
static bool parse_name(const char *text, struct wr_ckpt_name *name)
{
    char again[64];
    if (sscanf(text, "ckpt-%" SCNu64 "-step-%" SCNu64, &name->number, &name->step) != 2)
        return false;
    format_name(name->number, name->step, again);
    if (strcmp(text, again))
        return false;
    memcpy(name->name, again, sizeof again);
    return true;
}

static int by_number(const void *a, const void *b)
{
    const struct wr_ckpt_name *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool has_marker(const char *folder, const char *name)
{
    char path[WR_CKPT_PATH], marker[WR_CKPT_PATH];
    struct stat st;
    return wr_ckpt_path(path, folder, name, NULL) == WEIR_OK &&
           wr_ckpt_path(marker, path, WR_CKPT_MARKER, NULL) == WEIR_OK && !stat(marker, &st);
}

static weir_status scan(DIR *dir, const char *folder, struct wr_ckpt_name **names, size_t *n, weir_error *err)
{
    size_t room = 0, used = 0;
    struct wr_ckpt_name *list = NULL, one;
    for (struct dirent *entry; (errno = 0, entry = readdir(dir));) {
        if (!parse_name(entry->d_name, &one))
            continue;
        if (used == room) {
            room = room ? 2 * room : 16;
            struct wr_ckpt_name *more = realloc(list, room * sizeof *list);
            if (!more) {
                free(list);
                return wr_error_memory(err, room * sizeof *list, "a list of checkpoints");
            }
            list = more;
        }
        one.committed = has_marker(folder, one.name);
        list[used++] = one;
    }
    if (errno) {
        free(list);
        return wr_error_errno(err, WEIR_ERR_IO, errno, "see whether its disk works", "cannot read the folder %s",
                              folder);
    }
    if (used)
        qsort(list, used, sizeof *list, by_number);
    *names = list;
    *n = used;
    return WEIR_OK;
}

weir_status wr_ckpt_scan(const char *folder, struct wr_ckpt_name **names, size_t *n, weir_error *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return wr_error_errno(err, errno == ENOENT ? WEIR_ERR_NOT_FOUND : WEIR_ERR_IO, errno,
                              "see whether the path is right and can be read", "cannot open the folder %s", folder);
    weir_status status = scan(dir, folder, names, n, err);
    closedir(dir);
    return status;
}

weir_status wr_ckpt_choose(const char *folder, uint64_t step, struct wr_ckpt_name *name, weir_error *err)
{
    struct wr_ckpt_name *names;
    size_t n, committed = 0;
    weir_status status = wr_ckpt_scan(folder, &names, &n, err);
    if (status != WEIR_OK)
        return status;
    status = WEIR_ERR_NOT_FOUND;
    for (size_t i = n; status != WEIR_OK && i-- > 0;) {
        committed += names[i].committed;
        if (names[i].committed && (step == WEIR_CKPT_LATEST || step == names[i].step)) {
            *name = names[i];
            status = WEIR_OK;
        }
    }
    free(names);
    if (status == WEIR_OK)
        return status;
    if (step != WEIR_CKPT_LATEST)
        return wr_error_set(err, status, "'weir-ckpt list' shows which there are",
                            "%s has no committed checkpoint of step %" PRIu64, folder, step);
    return wr_error_set(err, status,
                        n ? "a checkpoint whose save did not end is not used" : "see whether the path is right",
                        "%s has no committed checkpoint, and %zu that are not", folder, n - committed);
}

weir_status wr_ckpt_begin(const struct wr_ckpt_fs *fs, const char *folder, uint64_t step, char name[64],
                          weir_error *err)
{
    struct wr_ckpt_name *names;
    char path[WR_CKPT_PATH];
    size_t n;
    weir_status status = wr_ckpt_scan(folder, &names, &n, err);
    if (status != WEIR_OK)
        return status;
    uint64_t number = n ? names[n - 1].number + 1 : 1;
    free(names);
    format_name(number, step, name);
    status = wr_ckpt_path(path, folder, name, err);
    if (status == WEIR_OK && fs->mkdir(fs, path))
        status = wr_ckpt_fs_error(errno == EEXIST ? "somebody else saves to" : "cannot make the folder", path, err);
    return status == WEIR_OK ? wr_ckpt_sync_folder(fs, folder, err) : status;
}

/* What the marker of an index says. */
static int marker_text(const char *text, size_t len, char marker[96])
{
    return snprintf(marker, 96, "weir-checkpoint 1 index %zu bytes xxh3 %016" PRIx64 "\n", len,
                    (uint64_t)XXH3_64bits(text, len));
}

weir_status wr_ckpt_commit(const struct wr_ckpt_fs *fs, const char *path, const struct wr_ckpt_index *index,
                           weir_error *err)
{
    char marker[96];
    size_t len;
    char *text = wr_ckpt_index_text(index, &len);
    if (!text)
        return wr_error_memory(err, 256 * index->ntensors, "the text of an index");
    int marker_len = marker_text(text, len, marker);
    weir_status status = len > WR_CKPT_INDEX_MAX ? wr_error_set(err, WEIR_ERR_LIMIT, "use fewer and larger tensors",
                                                                "an index of %zu bytes is too long", len)
                                                 : wr_ckpt_put_file(fs, path, WR_CKPT_INDEX, text, len, err);
    free(text);
    return status == WEIR_OK ? wr_ckpt_put_file(fs, path, WR_CKPT_MARKER, marker, (size_t)marker_len, err) : status;
}

weir_status wr_ckpt_read_index(const char *path, struct wr_ckpt_index *index, weir_error *err)
{
    char file[WR_CKPT_PATH], wanted[96], *marker = NULL, *text = NULL, why[512];
    size_t marker_len, len;
    weir_status status = wr_ckpt_path(file, path, WR_CKPT_MARKER, err);
    if (status == WEIR_OK)
        status = wr_ckpt_get_file(file, 4096, &marker, &marker_len, err);
    if (status == WEIR_ERR_NOT_FOUND)
        return wr_error_set(err, status, "its save did not end, or still goes on: take another", "%s is not committed",
                            path);
    if (status == WEIR_OK)
        status = wr_ckpt_path(file, path, WR_CKPT_INDEX, err);
    if (status == WEIR_OK)
        status = wr_ckpt_get_file(file, WR_CKPT_INDEX_MAX, &text, &len, err);
    if (status == WEIR_ERR_NOT_FOUND)
        status = wr_error_set(err, WEIR_ERR_IO, "take another checkpoint",
                              "%s is missing, though the marker beside it says that it is whole", file);
    if (status == WEIR_OK) {
        int n = marker_text(text, len, wanted);
        if ((size_t)n != marker_len || memcmp(marker, wanted, marker_len))
            status = wr_error_set(err, WEIR_ERR_IO, "take another checkpoint: 'weir-ckpt list' shows which there are",
                                  "%s was cut or altered: it is not what the marker beside it says", file);
        else if ((status = wr_ckpt_index_parse(text, len, index, err)) != WEIR_OK && err) {
            memcpy(why, err->message, sizeof why);
            wr_error_set(err, status, "take another checkpoint", "%s: %s", file, why);
        }
    }
    free(marker);
    free(text);
    return status;
}

void wr_ckpt_discard(const struct wr_ckpt_fs *fs, const char *folder, const char *name)
{
    char path[WR_CKPT_PATH], file[WR_CKPT_PATH];
    if (wr_ckpt_path(path, folder, name, NULL) != WEIR_OK || wr_ckpt_path(file, path, WR_CKPT_MARKER, NULL) != WEIR_OK)
        return;
    /* while the disk may still say that it is committed it stays whole */
    if ((fs->remove(fs, file) && errno != ENOENT) || wr_ckpt_sync_folder(fs, path, NULL) != WEIR_OK)
        return;
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
            wr_ckpt_path(file, path, entry->d_name, NULL) == WEIR_OK)
            fs->remove(fs, file);
    closedir(dir);
    fs->remove(fs, path);
}

void wr_ckpt_prune(const struct wr_ckpt_fs *fs, const char *folder, const char *name, uint64_t keep)
{
    struct wr_ckpt_name *names, now;
    size_t n;
    uint64_t newer = 0;
    if (!parse_name(name, &now) || wr_ckpt_scan(folder, &names, &n, NULL) != WEIR_OK)
        return;
    for (size_t i = n; i-- > 0;) {
        bool remove = names[i].committed ? keep && newer >= keep : names[i].number < now.number;
        newer += names[i].committed;
        if (remove)
            wr_ckpt_discard(fs, folder, names[i].name);
    }
    free(names);
}
