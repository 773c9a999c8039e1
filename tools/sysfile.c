/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sysfile.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/str.h"

bool sys_read(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(buf, (int)size, file) != NULL;
    fclose(file);
    if (ok)
        buf[strcspn(buf, "\n")] = '\0';
    return ok;
}

bool sys_read_in(const char *dir, const char *name, char *buf, size_t size)
{
    char path[CGROUP_PATH_MAX + 64];
    bool fits = wr_str_copy(path, sizeof path, dir) && wr_str_append(path, sizeof path, "/") &&
                wr_str_append(path, sizeof path, name);
    return fits && sys_read(path, buf, size);
}

bool sys_field(const char *path, const char *field, char *buf, size_t size)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        size_t len = strlen(field);
        if (strncmp(line, field, len))
            continue;
        line[strcspn(line, "\n")] = '\0';
        wr_str_copy(buf, size, line + len + strspn(line + len, " \t"));
        found = true;
    }
    fclose(file);
    return found;
}

bool sys_has_entries(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool found = false;
    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)))
        found = entry->d_name[0] != '.';
    closedir(dir);
    return found;
}

/* Whether "a,b,c" has the word. */
static bool has_word(const char *list, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p < list + len; p += strcspn(p, ",:") + 1)
        if (!strncmp(p, word, n) && (p[n] == ',' || p[n] == ':'))
            return true;
    return false;
}

/* The mount point and the path of the group inside it. */
static bool find_group(const char *controller, char *base, size_t base_size, char *path, size_t path_size)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return false;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        size_t len = (size_t)(group - names - 1);
        bool first_version = has_word(names + 1, len, controller);
        if (!first_version && (len || found))
            continue;
        found = true;
        if (first_version)
            snprintf(base, base_size, "/sys/fs/cgroup/%s", controller);
        else
            wr_str_copy(base, base_size, "/sys/fs/cgroup");
        wr_str_copy(path, path_size, group + 1);
        if (first_version)
            break;
    }
    fclose(file);
    return found;
}

int sys_cgroup_dirs(const char *controller, char dirs[CGROUP_DEPTH_MAX][CGROUP_PATH_MAX])
{
    char base[64], path[CGROUP_PATH_MAX - 64];
    int n = 0;
    if (!find_group(controller, base, sizeof base, path, sizeof path))
        return 0;
    for (;;) {
        snprintf(dirs[n++], CGROUP_PATH_MAX, "%s%s", base, strcmp(path, "/") ? path : "");
        char *slash = strrchr(path, '/');
        if (!slash || !*path || n == CGROUP_DEPTH_MAX)
            return n;
        *slash = '\0';
    }
}
