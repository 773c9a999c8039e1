/* SPDX-License-Identifier: BSD-3-Clause */
/* What tells hosts apart. */
#include "topo/topo.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
