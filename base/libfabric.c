/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/libfabric.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/str.h"

/* The library's functions. The one thing here that belongs to the process: a library is loaded once. */
static struct {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
    uint32_t (*version)(void);
    bool loaded;
    char why[256]; /* it could not be loaded */
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that this one works. */
#define FIND(field, name) (*(void **)(void *)&lib.field = dlsym(handle, name))

static void load(void)
{
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    lib.loaded = handle && FIND(getinfo, "fi_getinfo") && FIND(freeinfo, "fi_freeinfo") && FIND(dupinfo, "fi_dupinfo") &&
                 FIND(fabric, "fi_fabric") && FIND(strerror, "fi_strerror") && FIND(version, "fi_version");
    if (lib.loaded)
        return;
    const char *reason = dlerror();
    wr_str_copy(lib.why, sizeof lib.why, reason ? reason : "libfabric.so.1 cannot be loaded");
}

static bool ready(void)
{
    pthread_once(&once, load);
    return lib.loaded;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
               struct fi_info **info)
{
    return ready() ? lib.getinfo(version, node, service, flags, hints, info) : -FI_ENOSYS;
}

void fi_freeinfo(struct fi_info *info)
{
    if (ready())
        lib.freeinfo(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    return ready() ? lib.dupinfo(info) : NULL;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    return ready() ? lib.fabric(attr, fabric, context) : -FI_ENOSYS;
}

const char *fi_strerror(int error)
{
    return ready() ? lib.strerror(error) : lib.why;
}

uint32_t fi_version(void)
{
    return ready() ? lib.version() : 0;
}
