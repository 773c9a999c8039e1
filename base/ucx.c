/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/ucx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/config.h"
#include "base/str.h"

/* These belong to the process: a library is loaded once. */
struct wr_ucx_functions wr_ucx;
static struct {
    __typeof__(ucp_init_version) *init_version;
    bool loaded;
    char why[256]; /* it could not be loaded */
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that this one works. */
#define FIND(where, name) (*(void **)(void *)&(where) = dlsym(handle, name))

static void load(void)
{
    wr_env_default("UCX_MEM_MMAP_HOOK_MODE", "none");
    void *handle =
        dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL); /* brings libucs and libuct, where dlsym() looks, too */
    bool found = handle && FIND(lib.init_version, "ucp_init_version");
#define FIND_ONE(name) found = found && FIND(name, #name); /* the name is a macro: a pointer of wr_ucx */
    WR_UCX_FUNCTIONS(FIND_ONE)
    WR_UCX_FUNCTIONS_OF_FORM(FIND_ONE)
    lib.loaded = found;
    if (found)
        return;
    const char *reason = dlerror();
    wr_str_copy(lib.why, sizeof lib.why, reason ? reason : "libucp.so.0 cannot be loaded");
}

const char *wr_ucx_load(void)
{
    pthread_once(&once, load);
    return lib.loaded ? NULL : lib.why;
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
                              ucp_context_h *context)
{
    return wr_ucx_load() ? UCS_ERR_UNSUPPORTED : lib.init_version(major, minor, params, config, context);
}
