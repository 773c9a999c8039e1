/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_procs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

/* Signals that weirrun and its agents take from a signalfd. */
static const int taken_signals[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                    SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

static bool is_ignored(int sig)
{
    struct sigaction action;
    return !sigaction(sig, NULL, &action) && action.sa_handler == SIG_IGN;
}

/* A signal that was ignored at the start stays ignored (nohup, and shells' background jobs); SIGCHLD is
 * needed. */
static void taken_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < WR_ARRAY_SIZE(taken_signals); i++)
        if (taken_signals[i] == SIGCHLD || !is_ignored(taken_signals[i]))
            sigaddset(set, taken_signals[i]);
}

void wr_inherited_take(struct wr_inherited *inherited)
{
    sigset_t set;
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take the exit codes away */
    inherited->sigpipe_ignored = is_ignored(SIGPIPE);
    signal(SIGPIPE, SIG_IGN);
    taken_set(&set);
    sigprocmask(SIG_BLOCK, &set, &inherited->mask);
    if (getrlimit(RLIMIT_NOFILE, &inherited->files))
        inherited->files.rlim_cur = inherited->files.rlim_max = RLIM_INFINITY;
    struct rlimit more = inherited->files;
    more.rlim_cur = more.rlim_max;
    setrlimit(RLIMIT_NOFILE, &more);
}

void wr_inherited_restore(const struct wr_inherited *inherited)
{
    setrlimit(RLIMIT_NOFILE, &inherited->files);
    if (!inherited->sigpipe_ignored)
        signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

int wr_signals_open(void)
{
    sigset_t set;
    taken_set(&set);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void wr_children_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

bool wr_children_exist(void)
{
    siginfo_t info;
    return !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
}

/* The parent of a process and its state's letter, from /proc; -1 when it is gone. */
static pid_t look_at(const char *pid, char *state)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    /* "pid (name) state parent ...", where the name may hold anything */
    const char *p = strrchr(text, ')');
    int parent;
    return p && sscanf(p + 1, " %c %d", state, &parent) == 2 ? parent : -1;
}

bool wr_process_is_stopped(pid_t pid)
{
    char text[24], state;
    snprintf(text, sizeof text, "%d", (int)pid);
    return look_at(text, &state) >= 0 && state == 'T';
}

int wr_children_kill(void)
{
    int found = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char state;
        if (!isdigit((unsigned char)entry->d_name[0]) || look_at(entry->d_name, &state) != getpid() || state == 'Z' ||
            state == 'X')
            continue;
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (!kill(pid, SIGKILL))
            found++;
    }
    closedir(dir);
    return found;
}

void wr_children_end_all(void)
{
    for (int i = 0; i < 200 && wr_children_exist(); i++) {
        struct timespec pause = {0, 5000000};
        if (wr_children_kill())
            nanosleep(&pause, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

const char *wr_signal_name(int sig, char *buf, size_t size)
{
    static const struct {
        int sig;
        const char *name;
    } names[] = {
#define N(s) {s, #s}
        N(SIGHUP),  N(SIGINT),  N(SIGQUIT), N(SIGILL),  N(SIGTRAP), N(SIGABRT), N(SIGBUS),    N(SIGFPE),
        N(SIGKILL), N(SIGUSR1), N(SIGSEGV), N(SIGUSR2), N(SIGPIPE), N(SIGALRM), N(SIGTERM),   N(SIGXCPU),
        N(SIGXFSZ), N(SIGSYS),  N(SIGSTOP), N(SIGTSTP), N(SIGCONT), N(SIGCHLD), N(SIGVTALRM), N(SIGPROF),
#undef N
    };
    for (size_t i = 0; i < WR_ARRAY_SIZE(names); i++)
        if (names[i].sig == sig) {
            snprintf(buf, size, "%s", names[i].name);
            return buf;
        }
    snprintf(buf, size, "signal %d", sig);
    return buf;
}
