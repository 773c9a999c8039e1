/* SPDX-License-Identifier: BSD-3-Clause */
/* A safetensors file that is read: its header once, then ranges of its data, each block compared with its checksum. */
#include "optim/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"

static const char advice_copy[] = "take another copy of it, or another checkpoint";

/* Reads exactly `len` bytes at a place. */
static weir_status read_at(const struct wr_st_file *file, void *data, uint64_t len, uint64_t at, weir_error *err)
{
    for (uint64_t done = 0; done < len;) {
        ssize_t n = pread(file->fd, (char *)data + done, (size_t)(len - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return wr_error_errno(err, WEIR_ERR_IO, errno, advice_copy, "cannot read %s", file->path);
        if (n == 0)
            return wr_error_set(err, WEIR_ERR_IO, advice_copy, "%s was cut: it ends at byte %llu", file->path,
                                (unsigned long long)(at + done));
        done += (uint64_t)n;
    }
    return WEIR_OK;
}

static weir_status reopen(struct wr_st_file *file, weir_error *err)
{
    if (file->fd < 0)
        file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0)
        return wr_error_errno(err, errno == ENOENT ? WEIR_ERR_NOT_FOUND : WEIR_ERR_IO, errno,
                              "see whether the path is right and can be read", "cannot open %s", file->path);
    return WEIR_OK;
}

/* Says which file a sentence is about. */
static weir_status in_file(const struct wr_st_file *file, weir_status status, weir_error *err)
{
    char text[sizeof err->message];
    if (err && status != WEIR_OK) {
        memcpy(text, err->message, sizeof text);
        weir_error was = *err;
        wr_error_set(err, status, was.advice, "%s: %s", file->path, text);
    }
    return status;
}

static weir_status read_header(struct wr_st_file *file, weir_error *err)
{
    struct stat st;
    unsigned char first[8];
    uint64_t len = 0;
    if (fstat(file->fd, &st) || !S_ISREG(st.st_mode))
        return wr_error_set(err, WEIR_ERR_IO, "give the path of a file", "%s is not a regular file", file->path);
    file->size = (uint64_t)st.st_size;
    if (file->size < 8)
        return wr_error_set(err, WEIR_ERR_IO, advice_copy, "%s has %llu bytes and is no safetensors file", file->path,
                            (unsigned long long)file->size);
    weir_status status = read_at(file, first, 8, 0, err);
    if (status != WEIR_OK)
        return status;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | first[i];
    if (len > WR_ST_HEADER_MAX || len > file->size - 8)
        return wr_error_set(err, WEIR_ERR_IO, advice_copy,
                            "%s was cut or is no safetensors file: it has %llu bytes and says that its header has %llu",
                            file->path, (unsigned long long)file->size, (unsigned long long)len);
    char *text = malloc((size_t)len + 8);
    if (!text)
        return wr_error_memory(err, (size_t)len + 8, "a header");
    memcpy(text, first, 8);
    file->start = len + 8;
    status = read_at(file, text + 8, len, 8, err);
    if (status == WEIR_OK) {
        file->header_sum = XXH3_64bits(text, (size_t)len + 8);
        status = in_file(file, wr_st_parse(text + 8, (size_t)len, file->size - file->start, &file->header, err), err);
    }
    free(text);
    return status;
}

weir_status wr_st_open(const char *path, struct wr_st_file **file, weir_error *err)
{
    struct wr_st_file *made = calloc(1, sizeof *made);
    if (!made || !(made->path = strdup(path))) {
        free(made);
        return wr_error_memory(err, sizeof *made, "a file");
    }
    made->fd = -1;
    weir_status status = reopen(made, err);
    if (status == WEIR_OK)
        status = read_header(made, err);
    if (status != WEIR_OK)
        wr_st_close(made);
    else
        *file = made;
    return status;
}

void wr_st_close(struct wr_st_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    wr_st_header_free(&file->header);
    free(file->path);
    free(file);
}

static weir_status check_block(const struct wr_st_file *file, uint64_t block, const void *data, uint64_t len,
                               weir_error *err)
{
    if (XXH3_64bits(data, (size_t)len) == file->header.sums[block])
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_IO, advice_copy,
                        "%s was altered: the checksum of its bytes %llu to %llu is not right", file->path,
                        (unsigned long long)(file->start + block * file->header.block),
                        (unsigned long long)(file->start + block * file->header.block + len));
}

/* Whole blocks, straight to where they are wanted. */
static weir_status read_blocks(const struct wr_st_file *file, uint64_t at, unsigned char *data, uint64_t len,
                               weir_error *err)
{
    uint64_t block = file->header.block;
    weir_status status = read_at(file, data, len, file->start + at, err);
    for (uint64_t i = 0; status == WEIR_OK && i < len; i += block)
        status = check_block(file, (at + i) / block, data + i, len - i < block ? len - i : block, err);
    return status;
}

/* Makes the cache hold a block. */
static weir_status read_cached(const struct wr_st_file *file, struct wr_st_cache *cache, uint64_t block, uint64_t len,
                               weir_error *err)
{
    if (cache->file == file && cache->block == block)
        return WEIR_OK;
    cache->file = NULL;
    if (cache->room < len) {
        unsigned char *more = realloc(cache->data, (size_t)len);
        if (!more)
            return wr_error_memory(err, (size_t)len, "a block of a file");
        cache->data = more;
        cache->room = (size_t)len;
    }
    weir_status status = read_blocks(file, block * file->header.block, cache->data, len, err);
    if (status == WEIR_OK) {
        cache->file = file;
        cache->block = block;
    }
    return status;
}

/* The next bytes of a range: some whole blocks, or a part of one. Sets how many. */
static weir_status read_some(const struct wr_st_file *file, struct wr_st_cache *cache, uint64_t at, unsigned char *data,
                             uint64_t len, uint64_t *done, weir_error *err)
{
    uint64_t block = file->header.block, index = at / block, begin = index * block;
    uint64_t end = file->header.bytes - begin < block ? file->header.bytes : begin + block;
    if (at == begin && len >= end - begin) {
        uint64_t most = WR_CKPT_CHUNK > block ? WR_CKPT_CHUNK / block * block : block;
        *done = len < most ? len : most;
        if (at + *done != file->header.bytes)
            *done = *done / block * block;
        return read_blocks(file, at, data, *done, err);
    }
    weir_status status = read_cached(file, cache, index, end - begin, err);
    if (status != WEIR_OK)
        return status;
    *done = len < end - at ? len : end - at;
    memcpy(data, cache->data + (at - begin), (size_t)*done);
    return WEIR_OK;
}

weir_status wr_st_read(struct wr_st_file *file, struct wr_st_cache *cache, uint64_t at, void *data, uint64_t len,
                       weir_error *err)
{
    weir_status status = reopen(file, err);
    if (status == WEIR_OK && !file->header.block)
        return read_at(file, data, len, file->start + at, err);
    unsigned char *to = data;
    for (uint64_t done = 0; status == WEIR_OK && len; at += done, to += done, len -= done)
        if ((status = read_some(file, cache, at, to, len, &done, err)) != WEIR_OK)
            break;
    return status;
}
