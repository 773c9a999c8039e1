/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static int posix_create(const struct wr_ckpt_fs *fs, const char *path)
{
    (void)fs;
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
}

static ssize_t posix_pwrite(const struct wr_ckpt_fs *fs, int fd, const void *data, size_t len, off_t at)
{
    (void)fs;
    return pwrite(fd, data, len, at);
}

static int posix_sync(const struct wr_ckpt_fs *fs, int fd, const char *path)
{
    (void)fs;
    (void)path;
    return fsync(fd);
}

static int posix_rename(const struct wr_ckpt_fs *fs, const char *from, const char *to)
{
    (void)fs;
    return rename(from, to);
}

static int posix_mkdir(const struct wr_ckpt_fs *fs, const char *path)
{
    (void)fs;
    return mkdir(path, 0777);
}

static int posix_remove(const struct wr_ckpt_fs *fs, const char *path)
{
    (void)fs;
    return remove(path);
}

const struct wr_ckpt_fs wr_ckpt_fs_posix = {
    .create = posix_create,
    .pwrite = posix_pwrite,
    .sync = posix_sync,
    .rename = posix_rename,
    .mkdir = posix_mkdir,
    .remove = posix_remove,
};

weir_status wr_ckpt_path(char path[WR_CKPT_PATH], const char *folder, const char *name, weir_error *err)
{
    int n = snprintf(path, WR_CKPT_PATH, "%s/%s", folder, name);
    if (n < 0 || n >= WR_CKPT_PATH)
        return wr_error_set(err, WEIR_ERR_INVALID, "use a shorter path", "a path of %d bytes is too long: %.60s...", n,
                            folder);
    return WEIR_OK;
}

weir_status wr_ckpt_fs_error(const char *what, const char *path, weir_error *err)
{
    int why = errno;
    if (why == ENOSPC || why == EDQUOT || why == EFBIG)
        return wr_error_errno(err, WEIR_ERR_LIMIT, why,
                              "make room there (checkpoints that were committed are as they were), or save elsewhere",
                              "%s %s", what, path);
    return wr_error_errno(err, WEIR_ERR_IO, why,
                          "see whether the folder is there, can be written to, and its disk works", "%s %s", what,
                          path);
}

weir_status wr_ckpt_write(const struct wr_ckpt_fs *fs, int fd, const char *path, const void *data, size_t len,
                          uint64_t at, weir_error *err)
{
    const char *from = data;
    while (len) {
        ssize_t n = fs->pwrite(fs, fd, from, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : ENOSPC;
            return wr_ckpt_fs_error("cannot write", path, err);
        }
        from += n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return WEIR_OK;
}

weir_status wr_ckpt_sync_folder(const struct wr_ckpt_fs *fs, const char *folder, weir_error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return wr_ckpt_fs_error("cannot open the folder", folder, err);
    /* some file systems cannot sync a folder, because they never need to */
    weir_status status =
        fs->sync(fs, fd, folder) && errno != EINVAL ? wr_ckpt_fs_error("cannot sync the folder", folder, err) : WEIR_OK;
    close(fd);
    return status;
}

/* Makes one folder, whose parent is there. */
static weir_status make_one(const struct wr_ckpt_fs *fs, char *path, weir_error *err)
{
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return WEIR_OK;
    if (fs->mkdir(fs, path))
        return errno == EEXIST ? WEIR_OK : wr_ckpt_fs_error("cannot make the folder", path, err);
    char *slash = strrchr(path, '/');
    if (!slash)
        return wr_ckpt_sync_folder(fs, ".", err);
    *slash = '\0';
    weir_status status = wr_ckpt_sync_folder(fs, slash == path ? "/" : path, err);
    *slash = '/';
    return status;
}

weir_status wr_ckpt_make_folder(const struct wr_ckpt_fs *fs, const char *folder, weir_error *err)
{
    char path[WR_CKPT_PATH];
    int n = snprintf(path, sizeof path, "%s", folder);
    if (n <= 0 || (size_t)n >= sizeof path)
        return wr_error_set(err, WEIR_ERR_INVALID, "use a shorter path", "a folder's path of %d bytes", n);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        weir_status status = make_one(fs, path, err);
        *slash = '/';
        if (status != WEIR_OK)
            return status;
    }
    return make_one(fs, path, err);
}

weir_status wr_ckpt_finish_file(const struct wr_ckpt_fs *fs, int fd, const char *temporary, const char *path,
                                weir_error *err)
{
    weir_status status = fs->sync(fs, fd, temporary) ? wr_ckpt_fs_error("cannot sync", temporary, err) : WEIR_OK;
    if (close(fd) && status == WEIR_OK)
        status = wr_ckpt_fs_error("cannot close", temporary, err);
    if (status == WEIR_OK && fs->rename(fs, temporary, path))
        status = wr_ckpt_fs_error("cannot rename", temporary, err);
    return status;
}

weir_status wr_ckpt_put_file(const struct wr_ckpt_fs *fs, const char *folder, const char *name, const void *data,
                             size_t len, weir_error *err)
{
    char path[WR_CKPT_PATH], temporary[WR_CKPT_PATH + 8];
    weir_status status = wr_ckpt_path(path, folder, name, err);
    if (status != WEIR_OK)
        return status;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    int fd = fs->create(fs, temporary);
    if (fd < 0)
        return wr_ckpt_fs_error("cannot make", temporary, err);
    status = wr_ckpt_write(fs, fd, temporary, data, len, 0, err);
    if (status == WEIR_OK)
        status = wr_ckpt_finish_file(fs, fd, temporary, path, err);
    else
        close(fd);
    if (status != WEIR_OK) {
        fs->remove(fs, temporary);
        return status;
    }
    return wr_ckpt_sync_folder(fs, folder, err);
}

/* Reads `len` bytes of an open file; the file is cut when they are not there. */
static weir_status read_all(int fd, const char *path, char *data, size_t len, weir_error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, data + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return wr_error_errno(err, WEIR_ERR_IO, errno, "see whether its disk works", "cannot read %s", path);
        if (n == 0)
            return wr_error_set(err, WEIR_ERR_IO, "take another checkpoint", "%s is being cut while it is read", path);
        done += (size_t)n;
    }
    return WEIR_OK;
}

weir_status wr_ckpt_get_file(const char *path, uint64_t max, char **data, size_t *len, weir_error *err)
{
    struct stat st;
    char *text = NULL;
    weir_status status = WEIR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return wr_error_errno(err, errno == ENOENT ? WEIR_ERR_NOT_FOUND : WEIR_ERR_IO, errno,
                              "see whether the path is right and can be read", "cannot open %s", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        status = wr_error_set(err, WEIR_ERR_IO, "give the path of a file", "%s is not a regular file", path);
    else if ((uint64_t)st.st_size > max)
        status = wr_error_set(err, WEIR_ERR_IO, "it is no file of a checkpoint",
                              "%s is too long: %lld bytes, at most %llu are possible", path, (long long)st.st_size,
                              (unsigned long long)max);
    else if (!(text = malloc((size_t)st.st_size + 1)))
        status = wr_error_memory(err, (size_t)st.st_size + 1, path);
    else
        status = read_all(fd, path, text, (size_t)st.st_size, err);
    close(fd);
    if (status != WEIR_OK) {
        free(text);
        return status;
    }
    text[st.st_size] = '\0';
    *data = text;
    *len = (size_t)st.st_size;
    return WEIR_OK;
}
