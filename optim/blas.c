/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/blas.h"

#include <weir/vector.h>

#include "base/error.h"

#ifdef HAVE_OPENBLAS
#include <dlfcn.h>
#include <pthread.h>

#include "base/str.h"

/* The one thing here that belongs to the process: a library is loaded once. */
static struct {
    struct wr_blas blas;
    bool loaded;
    char why[256]; /* it could not be loaded */
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    /* Debian's name first, then that of builds without versions. */
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        handle = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    /* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that this one works. */
    if (handle) {
        *(void **)(void *)&lib.blas.sgemm = dlsym(handle, "cblas_sgemm");
        *(void **)(void *)&lib.blas.core = dlsym(handle, "openblas_get_corename");
    }
    lib.loaded = lib.blas.sgemm && lib.blas.core;
    if (lib.loaded)
        return;
    const char *reason = dlerror();
    wr_str_copy(lib.why, sizeof lib.why, reason ? reason : "libopenblas.so.0 cannot be loaded");
}

const struct wr_blas *wr_blas_open(weir_error *error)
{
    pthread_once(&once, load);
    if (lib.loaded)
        return &lib.blas;
    wr_error_set(error, WEIR_ERR_UNSUPPORTED, "install OpenBLAS, or put its folder into LD_LIBRARY_PATH",
                 "this rule multiplies matrices by OpenBLAS, which cannot be loaded: %s", lib.why);
    return NULL;
}
#else
const struct wr_blas *wr_blas_open(weir_error *error)
{
    wr_error_set(error, WEIR_ERR_UNSUPPORTED, "build weir where configure finds OpenBLAS",
                 "this rule multiplies matrices by OpenBLAS, and weir was built without it");
    return NULL;
}
#endif

const char *weir_blas_core(void)
{
    const struct wr_blas *blas = wr_blas_open(NULL);
    return blas ? blas->core() : NULL;
}

void wr_blas_multiply(const struct wr_blas *blas, int m, int n, int k, float alpha, const float *a, bool transpose_a,
                      const float *b, bool transpose_b, float beta, float *c)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    blas->sgemm(ROW_MAJOR, transpose_a ? TRANSPOSED : PLAIN, transpose_b ? TRANSPOSED : PLAIN, m, n, k, alpha, a,
                transpose_a ? m : k, b, transpose_b ? k : n, beta, c, n);
}
