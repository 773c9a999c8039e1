/* SPDX-License-Identifier: BSD-3-Clause */
/* Without a launcher: two ranks for each transport, started by weirrun, and their rows put together. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/weir-p2p.h"

extern char **environ;

enum { PATH_LEN = 512, ARGS_MAX = 64 };

/* weirrun beside this program (in the build), or where it is installed. */
static const char *find_weirrun(char *path, size_t size)
{
    char own[PATH_LEN - 64];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(own, '/');
        if (!slash)
            break;
        *slash = '\0';
        if (up == 0 && strlen(own) >= 6 && !strcmp(own + strlen(own) - 6, "/.libs"))
            *strrchr(own, '/') = '\0';
        snprintf(path, size, up ? "%s/tools/weirrun" : "%s/weirrun", own);
        if (!access(path, X_OK))
            return path;
    }
    snprintf(path, size, "%s/weirrun", WEIR_BINDIR);
    return path;
}

/* Runs one transport; the exit code. */
static int run_part(const struct options *o, const char *weirrun, char **argv, const char *transport)
{
    const char *args[ARGS_MAX] = {weirrun, "-n", "2", "--bind", "core", "--timeout", "1200s", "--"};
    int n = 8, ends[2], status = -1;
    posix_spawn_file_actions_t actions;
    char self[PATH_LEN];
    pid_t pid;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    args[n++] = self;
    for (int i = 1; argv[i] && n < ARGS_MAX - 4; i++)
        args[n++] = argv[i];
    args[n++] = "--part"; /* later ones win */
    args[n++] = "--transport";
    args[n++] = transport;
    args[n] = NULL;
    if (pipe2(ends, O_CLOEXEC))
        return 1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    int rc = posix_spawn(&pid, weirrun, &actions, NULL, (char *const *)args, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *rows = fdopen(ends[0], "r");
    if (rc)
        fprintf(stderr, "weir-p2p: %s: %s\n", weirrun, strerror(rc));
    char line[1024];
    while (!rc && rows && fgets(line, sizeof line, rows)) {
        line[strcspn(line, "\n")] = '\0';
        print_line(o, line);
    }
    if (rows)
        fclose(rows);
    if (rc || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int drive(const struct options *o, char **argv)
{
    char path[PATH_LEN], list[256], *save = NULL;
    const char *weirrun = o->weirrun ? o->weirrun : find_weirrun(path, sizeof path);
    int good = 0, bad = 0;
    if (o->part) {
        fprintf(stderr, "weir-p2p: --part is for the ranks that weir-p2p starts; there is one rank only\n");
        return 2;
    }
    snprintf(list, sizeof list, "%s", o->transports ? o->transports : "shm,ofi,ucx");
    print_head(o);
    for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        if (run_part(o, weirrun, argv, name) == 0) {
            good++;
            continue;
        }
        bad++;
        if (!o->json)
            printf("# %s: not measured, or not to the end\n", name);
        else
            fprintf(stderr, "weir-p2p: %s: not measured, or not to the end\n", name);
    }
    print_foot(o);
    /* what was not asked for by name need not be there */
    return good && (!bad || !o->transports) ? 0 : 1;
}
