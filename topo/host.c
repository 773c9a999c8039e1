/* SPDX-License-Identifier: BSD-3-Clause */
/* What tells hosts apart, and where in its host this process is. */
#include "topo/topo.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/cpus.h"

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "01234567-89ab-..." as 16 bytes; leaves `id` alone when it is not that. */
static void read_boot_id(uint8_t id[16])
{
    char text[64];
    uint8_t bytes[16];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t len = read(fd, text, sizeof text);
    close(fd);
    int digits = 0;
    for (ssize_t i = 0; i < len && digits < 32; i++) {
        int value = hex_digit(text[i]);
        if (value < 0)
            continue;
        if (digits % 2)
            bytes[digits / 2] = (uint8_t)(bytes[digits / 2] | value);
        else
            bytes[digits / 2] = (uint8_t)(value << 4);
        digits++;
    }
    if (digits == 32)
        memcpy(id, bytes, 16);
}

void wr_host_id_self(struct wr_host_id *id)
{
    struct stat st;
    memset(id, 0, sizeof *id);
    read_boot_id(id->boot_id);
    if (!stat("/proc/self/ns/ipc", &st))
        id->ipc_namespace = (uint64_t)st.st_ino;
    if (!stat("/dev/shm", &st))
        id->shm_device = (uint64_t)st.st_dev;
}

/* How many threads of a set are in a list of the kernel, "0-3,8". */
static unsigned count_common(const char *list, const struct wr_buf *set)
{
    unsigned n = 0, first, last;
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
        struct wr_cpus_walk walk = wr_cpus_walk(set->data, set->len);
        while (wr_cpus_next(&walk, &first, &last))
            if (from <= last && to >= first)
                n += (unsigned)(WR_MIN(to, (unsigned long)last) - WR_MAX(from, (unsigned long)first)) + 1;
        list = *end == ',' ? end + 1 : end;
    }
    return n;
}

int wr_host_numa(const char *root)
{
    struct wr_buf mine = {0};
    struct dirent *entry;
    unsigned count = 0;
    int found = -1;
    if (!root)
        root = "/sys/devices/system/node";
    DIR *dir = opendir(root);
    bool known =
        dir && wr_cpus_put_affinity(&mine) && !mine.failed && wr_cpus_check(mine.data, mine.len, &count) && count;
    while (known && found < 0 && (entry = readdir(dir))) {
        char path[512], list[4096], *end;
        if (strncmp(entry->d_name, "node", 4) != 0)
            continue;
        unsigned long number = strtoul(entry->d_name + 4, &end, 10);
        snprintf(path, sizeof path, "%s/%s/cpulist", root, entry->d_name);
        FILE *f = *end || number > 1023 ? NULL : fopen(path, "re");
        if (f && fgets(list, sizeof list, f) && count_common(list, &mine) == count)
            found = (int)number;
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    wr_buf_free(&mine);
    return found;
}
