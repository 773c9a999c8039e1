/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All of an open file, with a terminator. */
static int read_all(int fd, size_t max, char **text)
{
    size_t len = 0;
    char *data = malloc(max + 2);
    if (!data)
        return ENOMEM;
    for (ssize_t n; len <= max && (n = read(fd, data + len, max + 1 - len)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int why = errno;
            free(data);
            return why;
        }
        len += (size_t)n;
    }
    if (len > max || memchr(data, 0, len)) {
        free(data);
        return len > max ? EFBIG : EILSEQ;
    }
    data[len] = '\0';
    *text = data;
    return 0;
}

int wr_file_read(const char *path, size_t max, unsigned flags, char **text, int64_t *modified)
{
    struct stat st;
    int why = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (flags & WR_FILE_OWN ? O_NOFOLLOW : 0));
    if (fd < 0)
        return errno;
    if (fstat(fd, &st))
        why = errno;
    else if (!S_ISREG(st.st_mode))
        why = EINVAL;
    else if ((flags & WR_FILE_OWN) && st.st_uid != geteuid())
        why = EPERM;
    else
        why = read_all(fd, max, text);
    if (!why && modified)
        *modified = st.st_mtime;
    close(fd);
    return why;
}

/* Makes the folders that the path stands in. */
static void make_folders(const char *path)
{
    char part[512];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
        if (snprintf(part, sizeof part, "%.*s", (int)(slash - path), path) < (int)sizeof part)
            mkdir(part, 0700);
}

bool wr_file_replace(const char *path, const void *data, size_t len)
{
    char temporary[512];
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n <= 0 || (size_t)n >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return false;
    }
    make_folders(path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, data, len) == (ssize_t)len;
    ok &= !close(fd);
    ok = ok && !rename(temporary, path);
    if (!ok) {
        int why = errno;
        unlink(temporary);
        errno = why;
    }
    return ok;
}

bool wr_file_cached(const struct wr_config *config, const struct wr_env *env, const char *name, char *path, size_t size)
{
    const char *dir = config->cache_dir, *sub = "";
    if (!dir) {
        dir = wr_env_get(env, "XDG_CACHE_HOME");
        sub = "/weir";
    }
    if (!dir || !*dir) {
        dir = wr_env_get(env, "HOME");
        sub = "/.cache/weir";
    }
    if (!dir || dir[0] != '/' || strchr(name, '/'))
        return false;
    int n = snprintf(path, size, "%s%s/%s", dir, sub, name);
    return n > 0 && (size_t)n < size;
}
