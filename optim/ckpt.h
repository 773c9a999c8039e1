/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints, inside: the disk behind a table, safetensors files, the index, folders of checkpoints.
 *
 *   ckpt_fs      what changes the disk: one table of operations, so that a test can kill or fail each of them
 *   ckpt_dtype   types of elements and their conversion
 *   ckpt_header  the reader of a safetensors header; ckpt_file the files that it stands in; ckpt_write makes them
 *   ckpt_index   which parts make which tensor; ckpt_index_json that as JSON; ckpt_foreign the same for files from elsewhere
 *   ckpt_folder  names, numbers, markers, and the removal of old checkpoints
 *   ckpt_save    the steps of a save; ckpt the object with its thread; ckpt_content what the thread works on
 *   ckpt_source  reading; ckpt_export whole tensors to one file, or to a new checkpoint
 */
#ifndef WR_CKPT_H
#define WR_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include <weir/ckpt.h>

enum {
    WR_CKPT_PATH = 4096,     /* bytes of a path, terminator included */
    WR_CKPT_BLOCK = 1 << 18, /* bytes of data that have a checksum of their own */
    WR_CKPT_CHUNK = 1 << 22, /* bytes that are read, converted or written at once */
    WR_CKPT_PART_NAME = WEIR_CKPT_NAME_MAX + 64,
    WR_CKPT_FILE_NAME = 256,
    WR_CKPT_PER_RANK = 1280
};
#define WR_ST_HEADER_MAX  ((uint64_t)100000000) /* what other readers of safetensors allow */
#define WR_CKPT_INDEX_MAX ((uint64_t)1 << 30)
#define WR_CKPT_INDEX     "index.json"
#define WR_CKPT_MARKER    "COMMITTED"

/* ---- what changes the disk ---- */

/* All return a negative number and set errno when they fail. */
struct wr_ckpt_fs {
    int (*create)(const struct wr_ckpt_fs *fs,
                  const char *path); /* a file to be written, emptied when it is there: a descriptor */
    ssize_t (*pwrite)(const struct wr_ckpt_fs *fs, int fd, const void *data, size_t len, off_t at);
    int (*sync)(const struct wr_ckpt_fs *fs, int fd, const char *path); /* of a file or folder */
    int (*rename)(const struct wr_ckpt_fs *fs, const char *from, const char *to);
    int (*mkdir)(const struct wr_ckpt_fs *fs, const char *path);
    int (*remove)(const struct wr_ckpt_fs *fs, const char *path); /* a file or an empty folder */
    void *arg;                                                    /* of whoever made the table */
};

/* The table of the real disk. */
extern const struct wr_ckpt_fs wr_ckpt_fs_posix;

/* Joins folder and name; WEIR_ERR_INVALID when that is too long. */
weir_status wr_ckpt_path(char path[WR_CKPT_PATH], const char *folder, const char *name, weir_error *err);

/* What an errno of a write means: WEIR_ERR_LIMIT when there is no room, WEIR_ERR_IO otherwise, with a sentence. */
weir_status wr_ckpt_fs_error(const char *what, const char *path, weir_error *err);

/* Writes all of it. */
weir_status wr_ckpt_write(const struct wr_ckpt_fs *fs, int fd, const char *path, const void *data, size_t len,
                          uint64_t at, weir_error *err);

/* Makes what was renamed, made or removed in a folder last. */
weir_status wr_ckpt_sync_folder(const struct wr_ckpt_fs *fs, const char *folder, weir_error *err);

/* Makes a folder and those above it, each lasting; one that is there is fine. */
weir_status wr_ckpt_make_folder(const struct wr_ckpt_fs *fs, const char *folder, weir_error *err);

/* Syncs and closes a file (in any case) and gives it its name. */
weir_status wr_ckpt_finish_file(const struct wr_ckpt_fs *fs, int fd, const char *temporary, const char *path,
                                weir_error *err);

/* A small file, whole and lasting: temporary name, sync, rename, sync of the folder. */
weir_status wr_ckpt_put_file(const struct wr_ckpt_fs *fs, const char *folder, const char *name, const void *data,
                             size_t len, weir_error *err);

/* Reads a regular file of at most `max` bytes, to be freed; WEIR_ERR_NOT_FOUND, WEIR_ERR_IO. */
weir_status wr_ckpt_get_file(const char *path, uint64_t max, char **data, size_t *len, weir_error *err);

/* ---- types ---- */

struct wr_ckpt_dtype {
    const char *name;
    unsigned bytes;
    unsigned type; /* the weir_type that it is in memory; WEIR_OPAQUE: none */
};

/* By the name in files, or of a weir_type; NULL when there is none. */
const struct wr_ckpt_dtype *wr_ckpt_dtype_named(const char *name);
const struct wr_ckpt_dtype *wr_ckpt_dtype_of(uint64_t type);

/* Whether elements of one weir_type can become another; and makes them, dst and src not overlapping. */
bool wr_ckpt_converts(uint64_t from, uint64_t to);
void wr_ckpt_convert(void *dst, uint64_t to, const void *src, uint64_t from, size_t n);

/* ---- safetensors ---- */

/* A tensor in a file. */
struct wr_st_tensor {
    char *name;
    const struct wr_ckpt_dtype *dtype;
    unsigned ndims;
    uint64_t shape[WEIR_CKPT_DIMS_MAX];
    uint64_t count;      /* elements */
    uint64_t begin, end; /* bytes in the data, which begin after the header */
    const void *data;    /* what a save writes there; NULL: `fetch` gives it */
    weir_ckpt_fetch_fn fetch;
    void *user;
};

struct wr_st_header {
    size_t n;
    struct wr_st_tensor *tensors; /* in the order of their names */
    uint64_t bytes;               /* of data */
    uint64_t block;               /* bytes that each checksum covers; 0: there are none */
    uint64_t nsums;
    uint64_t *sums;
};

/* Number of elements of a shape; false when it does not fit in 62 bits with `bytes` bytes an element. */
bool wr_ckpt_count(const uint64_t *shape, size_t ndims, unsigned bytes, uint64_t *count);

/*
 * Reads a header's text, of a file with `bytes` bytes of data. Everything is checked: types, shapes, and that the tensors tile the data
 * without gap or overlap. WEIR_ERR_IO with what is wrong; then there is nothing to free.
 */
weir_status wr_st_parse(const char *text, size_t len, uint64_t bytes, struct wr_st_header *header, weir_error *err);
void wr_st_header_free(struct wr_st_header *header);

/* The tensor of a name, or NULL. */
const struct wr_st_tensor *wr_st_find(const struct wr_st_header *header, const char *name);

/* A file that is read. */
struct wr_st_file {
    char *path;
    int fd; /* -1: closed; wr_st_read() opens it again */
    struct wr_st_header header;
    uint64_t start;      /* where the data begin */
    uint64_t header_sum; /* XXH3 of the first `start` bytes */
    uint64_t size;
};

/* The block of data that was verified last; one for all files of a source. */
struct wr_st_cache {
    const struct wr_st_file *file;
    uint64_t block;
    unsigned char *data; /* WR_CKPT_BLOCK bytes at least */
    size_t room;
};

weir_status wr_st_open(const char *path, struct wr_st_file **file, weir_error *err);
void wr_st_close(struct wr_st_file *file);

/* Reads bytes of the data, and verifies those that have checksums. */
weir_status wr_st_read(struct wr_st_file *file, struct wr_st_cache *cache, uint64_t at, void *data, uint64_t len,
                       weir_error *err);

/* A file that is written, front to back. */
struct wr_st_writer;

/*
 * Begins the file `path`, under a temporary name. `tensors` have name, dtype, ndims, shape and count; their order becomes that of
 * the file, and begin and end are set. With `sums` it gets checksums and is a shard; without it is meant for other readers.
 */
weir_status wr_st_create(const struct wr_ckpt_fs *fs, const char *path, struct wr_st_tensor *tensors, size_t n,
                         bool sums, struct wr_st_writer **writer, weir_error *err);

/* The next bytes of data. */
weir_status wr_st_put(struct wr_st_writer *writer, const void *data, uint64_t len, weir_error *err);

/* Ends the file and frees the writer, in any case. The folder is to be synced by the caller. The outputs may be NULL. */
weir_status wr_st_finish(struct wr_st_writer *writer, uint64_t *bytes, uint64_t *header_sum, weir_error *err);

/* Removes the unfinished file and frees the writer. */
void wr_st_abandon(struct wr_st_writer *writer);

/* ---- the index ---- */

struct wr_ckpt_part {
    uint64_t shard, first, count;
};

struct wr_ckpt_tensor {
    char *name;
    const struct wr_ckpt_dtype *dtype;
    unsigned ndims;
    uint64_t shape[WEIR_CKPT_DIMS_MAX];
    uint64_t count;
    size_t nparts; /* in order, without gap or overlap; none of a tensor without elements */
    struct wr_ckpt_part *parts;
};

struct wr_ckpt_shard {
    char file[WR_CKPT_FILE_NAME]; /* without a path */
    uint64_t bytes, header_sum;   /* 0, 0: from elsewhere, not known */
};

struct wr_ckpt_index {
    uint64_t step, ranks;
    int64_t saved;
    size_t nshards, ntensors;
    struct wr_ckpt_shard *shards;
    struct wr_ckpt_tensor *tensors; /* in the order of their names */
    json_t *entries;                /* key: {"json": value} or {"hex": text}; NULL: none */
};

void wr_ckpt_index_free(struct wr_ckpt_index *index);
struct wr_ckpt_tensor *wr_ckpt_index_find(const struct wr_ckpt_index *index, const char *name);

/* Sorts the tensors by name. */
void wr_ckpt_index_sort(struct wr_ckpt_index *index);

/* Whether a part of a tensor stands under the tensor's own name and shape; the name otherwise made is written to buf. Returns the name. */
const char *wr_ckpt_part_name(const char *name, uint64_t count, const struct wr_ckpt_part *part,
                              char buf[WR_CKPT_PART_NAME]);

/* Shortens a name for a sentence; returns buf. */
const char *wr_ckpt_brief(const char *name, char buf[96]);

/* The text of an index, to be freed with free(); NULL when out of memory. */
char *wr_ckpt_index_text(const struct wr_ckpt_index *index, size_t *len);

/* Reads it and checks all of it; WEIR_ERR_IO with what is wrong. */
weir_status wr_ckpt_index_parse(const char *text, size_t len, struct wr_ckpt_index *index, weir_error *err);

/* The same for an index in the manner of model.safetensors.index.json: the names of the files only. */
weir_status wr_ckpt_weight_map_parse(const char *text, size_t len, struct wr_ckpt_index *index, weir_error *err);

/* Adds all tensors of a file as whole ones of shard `shard`. */
weir_status wr_ckpt_index_add_file(struct wr_ckpt_index *index, uint64_t shard, const struct wr_st_file *file,
                                   weir_error *err);

/*
 * Merging what the ranks have described. A description is JSON:
 *   {"step": n, "tensors": [[name, dtype, [shape], first, count], ...], "entries": {...}}
 * `texts[r]`, `lens[r]` are rank r's. Shards are numbered by the ranks that have elements. WEIR_ERR_INVALID or WEIR_ERR_MISMATCH name tensor
 * and rank.
 */
weir_status wr_ckpt_index_merge(const char *const *texts, const uint64_t *lens, int nranks, struct wr_ckpt_index *index,
                                weir_error *err);

/* The file of a rank's shard. */
void wr_ckpt_shard_name(int rank, int nranks, char name[WR_CKPT_FILE_NAME]);

/* Bytes to and from hexadecimal digits; `text` has room for 2n + 1. false: it is none, or of another length. */
void wr_ckpt_hex(const void *data, size_t n, char *text);
bool wr_ckpt_unhex(const char *text, void *data, size_t n);
bool wr_ckpt_unhex64(const char *text, uint64_t *value);

/* ---- folders of checkpoints ---- */

struct wr_ckpt_name {
    uint64_t number, step;
    bool committed; /* the marker is there */
    char name[64];
};

/* The checkpoints of a folder by number, to be freed. WEIR_ERR_NOT_FOUND, WEIR_ERR_IO. */
weir_status wr_ckpt_scan(const char *folder, struct wr_ckpt_name **names, size_t *n, weir_error *err);

/* The committed one of a step, or the last; WEIR_ERR_NOT_FOUND. */
weir_status wr_ckpt_choose(const char *folder, uint64_t step, struct wr_ckpt_name *name, weir_error *err);

/* Makes the folder of a new checkpoint. */
weir_status wr_ckpt_begin(const struct wr_ckpt_fs *fs, const char *folder, uint64_t step, char name[64],
                          weir_error *err);

/* Writes index and marker into the folder `path`: from here on it is committed. */
weir_status wr_ckpt_commit(const struct wr_ckpt_fs *fs, const char *path, const struct wr_ckpt_index *index,
                           weir_error *err);

/* Reads and verifies marker and index. */
weir_status wr_ckpt_read_index(const char *path, struct wr_ckpt_index *index, weir_error *err);

/* Removes a checkpoint: the marker first. What cannot be removed is left for the next time. */
void wr_ckpt_discard(const struct wr_ckpt_fs *fs, const char *folder, const char *name);

/* Removes all but the last `keep` committed ones, and what was left half-written before `name`. */
void wr_ckpt_prune(const struct wr_ckpt_fs *fs, const char *folder, const char *name, uint64_t keep);

/* ---- saving ---- */

/* What one save works on: checked, and its own copy of everything but stable memory. */
struct wr_ckpt_job {
    uint64_t step;
    size_t n;
    struct wr_st_tensor *pieces; /* as they are to stand in the shard */
    char *description;           /* see wr_ckpt_index_merge() */
    size_t description_len;
    void *copy;
    weir_error error; /* status not WEIR_OK: this rank only tells the others that it cannot save */
};

/* Checks a content and takes it over. */
weir_status wr_ckpt_job_create(const weir_ckpt_content *content, bool copy, struct wr_ckpt_job **job, weir_error *err);

void wr_ckpt_job_free(struct wr_ckpt_job *job);

/* The ranks that save together. */
struct wr_ckpt_ranks {
    weir_comm *comm; /* NULL: alone */
    int rank, size;
    void *all; /* rank 0: WR_CKPT_PER_RANK bytes for each rank, so that no save fails for want of them when others wait already */
};

/* All of a save; collective. */
weir_status wr_ckpt_run(const struct wr_ckpt_fs *fs, const struct wr_ckpt_ranks *ranks, const char *folder,
                        uint64_t keep, struct wr_ckpt_job *job, weir_error *err);

/* All get rank 0's bytes. */
weir_status wr_ckpt_share(const struct wr_ckpt_ranks *ranks, void *data, size_t len, weir_error *err);

/* All get the first failure of any rank; *error is this rank's, with status WEIR_OK when there was none. Returns error->status. */
weir_status wr_ckpt_agree(const struct wr_ckpt_ranks *ranks, weir_error *error);

/* Those of an open folder; while no save is under way. */
const struct wr_ckpt_ranks *wr_ckpt_ranks_of(const weir_ckpt *ckpt);

/* Opens as weir_ckpt_open() with the disk behind another table, for tests. */
weir_status wr_ckpt_open(const struct wr_ckpt_fs *fs, weir_comm *comm, const char *folder,
                         const weir_ckpt_options *options, weir_ckpt **ckpt, weir_error *err);

#endif
