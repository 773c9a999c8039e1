/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel: copies between processes, features that the library uses when they are there, the limit of open files. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/probe.h"
#include "tools/sysfile.h"
#include "tools/weir-doctor.h"

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif
#ifndef PR_SET_PTRACER_ANY
#define PR_SET_PTRACER_ANY ((unsigned long)-1)
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The child that is read from: changes its copy of the page, says that it is ready, and waits to be killed. */
static WR_NORETURN void be_read(volatile char *page, bool permit, int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (permit)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    page[0] = 42;
    if (write(ready, "r", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* The child that reads: its exit code is the errno, 255 when wrong bytes came. */
static WR_NORETURN void read_sibling(char *page, pid_t sibling)
{
    char byte = 0;
    struct iovec local = {&byte, 1}, remote = {page, 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    long n = syscall(SYS_process_vm_readv, sibling, &local, 1ul, &remote, 1ul, 0ul);
    _exit(n == 1 ? (byte == 42 ? 0 : 255) : errno);
}

/* Has one child read the memory of its sibling. Returns 0 or an errno. */
static int try_cross_memory(bool permit)
{
    int ready[2], status = 0, result = EIO;
    char byte;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || pipe(ready))
        return EIO;
    pid_t target = fork();
    if (target == 0)
        be_read(page, permit, ready[1]);
    close(ready[1]);
    if (target > 0 && read(ready[0], &byte, 1) == 1) {
        pid_t reader = fork();
        if (reader == 0)
            read_sibling(page, target);
        if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status))
            result = WEXITSTATUS(status);
    }
    if (target > 0) {
        kill(target, SIGKILL);
        waitpid(target, &status, 0);
    }
    close(ready[0]);
    munmap(page, 4096);
    return result;
}

int doctor_probe_kernel(const char *name)
{
    if (strcmp(name, "cma"))
        return -1;
    FILE *out = probe_begin();
    if (!out)
        return 2;
    fprintf(out, "%d\t%d\n", try_cross_memory(false), try_cross_memory(true));
    return fclose(out) ? 2 : 0;
}

static void say_cross_memory(struct doctor *d, int plain, int permitted, const char *ptrace_scope)
{
    static const char subject[] = "cross-memory";
    char reason[96];
    if (plain == 0) {
        doctor_say(d, LEVEL_OK, SCOPE_NODE, subject, NULL, "a process can read its sibling's memory (process_vm_readv)");
    } else if (permitted == 0) {
        doctor_say(d, LEVEL_NOTE, SCOPE_NODE, subject, NULL,
                   "a process can read its sibling's memory only after that has allowed it (yama ptrace_scope is %s)", ptrace_scope);
    } else {
        const char *fix = *ptrace_scope == '2' || *ptrace_scope == '3'
                              ? "sysctl kernel.yama.ptrace_scope=1; without it copies on a node go through staging buffers"
                              : "allow process_vm_readv: in a container start it with --cap-add=SYS_PTRACE or a seccomp profile that "
                                "permits it; without it copies on a node go through staging buffers";
        doctor_say(d, LEVEL_WARNING, SCOPE_NODE, subject, fix, "a process may not read its sibling's memory: %s",
                   permitted == 255 ? "wrong bytes came" : wr_strerror(permitted, reason, sizeof reason));
    }
}

static void check_cross_memory(struct doctor *d)
{
    struct probe probe;
    char failure[96], scope[16] = "", *field[2];
    memset(&probe, 0, sizeof probe);
    snprintf(probe.name, sizeof probe.name, "cma");
    sys_read("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    if (!*scope)
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "ptrace scope", NULL, "the kernel has no yama: no restriction by it");
    else
        doctor_say(d, *scope == '0' ? LEVEL_OK : LEVEL_NOTE, SCOPE_NODE, "ptrace scope", NULL,
                   "yama's ptrace_scope is %s%s", scope,
                   *scope == '0'   ? ": no restriction"
                   : *scope == '1' ? ": only descendants, and whom a process names"
                                   : ": only processes with CAP_SYS_PTRACE, or none");
    probes_run(&probe, 1, PROBE_TIMEOUT_MS);
    char *text = probe.text.data;
    if (probe_failure(&probe, PROBE_TIMEOUT_MS, failure, sizeof failure))
        doctor_say(d, LEVEL_WARNING, SCOPE_NODE, "cross-memory", NULL, "the trial %s", failure);
    else if (probe_next_line(&text, field, 2) == 2)
        say_cross_memory(d, atoi(field[0]), atoi(field[1]), *scope ? scope : "not there");
    probe_free(&probe);
}

static bool has_pidfd(void)
{
#ifdef SYS_pidfd_open
    long fd = syscall(SYS_pidfd_open, getpid(), 0);
    if (fd >= 0)
        close((int)fd);
    return fd >= 0;
#else
    return false;
#endif
}

static bool has_membarrier(void)
{
#ifdef SYS_membarrier
    return syscall(SYS_membarrier, 0 /* MEMBARRIER_CMD_QUERY */, 0, 0) > 0;
#else
    return false;
#endif
}

static bool has_populate(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    bool ok = madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
    munmap(page, 4096);
    return ok;
}

static bool has_memfd(void)
{
#ifdef SYS_memfd_create
    long fd = syscall(SYS_memfd_create, "weir-doctor", 1u /* MFD_CLOEXEC */);
    if (fd >= 0)
        close((int)fd);
    return fd >= 0;
#else
    return false;
#endif
}

static void check_features(struct doctor *d)
{
    const struct {
        const char *name, *since;
        bool there;
    } features[] = {
        {"memfd_create", "3.17", has_memfd()},
        {"membarrier", "4.3", has_membarrier()},
        {"pidfd_open", "5.3", has_pidfd()},
        {"MADV_POPULATE_WRITE", "5.14", has_populate()},
    };
    struct utsname name;
    char have[160] = "", miss[160] = "";
    for (size_t i = 0; i < WR_ARRAY_SIZE(features); i++) {
        char *list = features[i].there ? have : miss;
        wr_str_append(list, sizeof have, *list ? ", " : "");
        wr_str_append(list, sizeof have, features[i].name);
        if (!features[i].there) {
            wr_str_append(list, sizeof have, " (Linux ");
            wr_str_append(list, sizeof have, features[i].since);
            wr_str_append(list, sizeof have, ")");
        }
    }
    const char *release = uname(&name) ? "unknown" : name.release;
    if (!*miss)
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "kernel", NULL, "Linux %s has %s", release, have);
    else
        doctor_say(d, LEVEL_NOTE, SCOPE_NODE, "kernel",
                   "use a newer kernel, or permit these calls in the container's seccomp profile; slower ways are used until then",
                   "Linux %s lacks or forbids %s", release, miss);
}

void doctor_check_kernel(struct doctor *doctor)
{
    check_cross_memory(doctor);
    check_features(doctor);
}

void doctor_check_limits(struct doctor *d)
{
    static const char fix[] = "ulimit -n 65536 before the job, or 'nofile 65536' in /etc/security/limits.conf";
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    unsigned long long have = limit.rlim_cur, need = 2ull * (unsigned)d->size + 64;
    if (have < need)
        doctor_say(d, LEVEL_PROBLEM, SCOPE_RANK, "open files", fix,
                   "limited to %llu; connections to %d ranks may need %llu", have, d->size, need);
    else if (have < 1024)
        doctor_say(d, LEVEL_WARNING, SCOPE_RANK, "open files", fix, "limited to %llu, which larger jobs over TCP exceed", have);
    else if (limit.rlim_cur == RLIM_INFINITY)
        doctor_say(d, LEVEL_OK, SCOPE_RANK, "open files", NULL, "unlimited");
    else
        doctor_say(d, LEVEL_OK, SCOPE_RANK, "open files", NULL, "limited to %llu, enough for about %llu ranks over TCP", have,
                   (have - 64) / 2);
}
