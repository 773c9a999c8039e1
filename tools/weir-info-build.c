/* SPDX-License-Identifier: BSD-3-Clause */
/* How this weir was built, and the versions of what it was built with and runs with. */
#include <hwloc.h>
#include <stdio.h>

#include "tools/weir-info.h"

/* Set by the makefile: WEIR_BUILD_CC, _CFLAGS, _HOST, and versions found by configure. */

static const char *compiler(char *buf, size_t size)
{
#if defined(__clang__)
    snprintf(buf, size, "clang %s (%s)", __clang_version__, WEIR_BUILD_CC);
#elif defined(__GNUC__)
    snprintf(buf, size, "gcc %s (%s)", __VERSION__, WEIR_BUILD_CC);
#else
    snprintf(buf, size, "%s", WEIR_BUILD_CC);
#endif
    return buf;
}

static const char *found(const char *version, const char *absent)
{
    return *version ? version : absent;
}

static const char *sanitizers(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return "address, undefined";
#elif defined(__SANITIZE_THREAD__)
    return "thread";
#else
    return "none";
#endif
}

void info_build_facts(void (*visit)(void *arg, const char *name, const char *text), void *arg)
{
    char buf[256], version[64];
    visit(arg, "version", weir_version());
    visit(arg, "compiler", compiler(buf, sizeof buf));
    visit(arg, "flags", WEIR_BUILD_CFLAGS);
    visit(arg, "target", WEIR_BUILD_HOST);
    visit(arg, "sanitizers", sanitizers());
#ifdef NDEBUG
    visit(arg, "assertions", "off");
#else
    visit(arg, "assertions", "on");
#endif
    unsigned api = hwloc_get_api_version();
    snprintf(buf, sizeof buf, "%s, running with API %u.%u.%u", WEIR_BUILD_HWLOC, api >> 16, (api >> 8) & 255, api & 255);
    visit(arg, "hwloc", buf);
#ifdef HAVE_LIBFABRIC
    snprintf(buf, sizeof buf, "%s, running with %s", WEIR_BUILD_LIBFABRIC, fabrics_version_ofi(version, sizeof version));
    visit(arg, "libfabric", buf);
#else
    visit(arg, "libfabric", "not built in");
#endif
#ifdef HAVE_UCX
    snprintf(buf, sizeof buf, "%s, running with %s", WEIR_BUILD_UCX, fabrics_version_ucx(version, sizeof version));
    visit(arg, "UCX", buf);
#else
    visit(arg, "UCX", "not built in");
#endif
#ifdef HAVE_PMIX
    snprintf(buf, sizeof buf, "%s, opened at run time", WEIR_BUILD_PMIX);
    visit(arg, "PMIx", buf);
#else
    visit(arg, "PMIx", "not built in");
#endif
#ifdef HAVE_PMI2
    visit(arg, "PMI-2", "opened at run time");
#else
    visit(arg, "PMI-2", "not built in");
#endif
    visit(arg, "jansson", found(WEIR_BUILD_JANSSON, "not built in: no JSON output, no checkpoints"));
    visit(arg, "xxhash", found(WEIR_BUILD_XXHASH, "not built in: no checkpoints"));
    visit(arg, "liburing", found(WEIR_BUILD_LIBURING, "not built in: threads read and write what is offloaded to disk"));
    visit(arg, "OpenBLAS", found(WEIR_BUILD_OPENBLAS, "not found: no Muon update rule, no example trainer"));
}

static void print_fact(void *arg, const char *name, const char *text)
{
    fprintf(arg, "  %-12s %s\n", name, text);
}

void info_print_build(FILE *out)
{
    info_build_facts(print_fact, out);
}
