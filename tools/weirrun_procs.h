/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes: what weirrun must restore for the programs it starts, and how it makes sure that none is left.
 */
#ifndef WEIRRUN_PROCS_H
#define WEIRRUN_PROCS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What this process was started with. */
struct wr_inherited {
    sigset_t mask;
    bool sigpipe_ignored;
    struct rlimit files; /* RLIMIT_NOFILE */
};

/*
 * Opens /dev/null where descriptors 0 to 2 are closed, remembers mask, SIGPIPE and the limit of descriptors;
 * then blocks the signals that are read from a signalfd, ignores SIGPIPE and raises the limit of descriptors.
 */
void wr_inherited_take(struct wr_inherited *inherited);

/* Puts all that back, in a child that is about to execute a program. Async-signal-safe. */
void wr_inherited_restore(const struct wr_inherited *inherited);

/* A non-blocking signalfd for the signals that wr_inherited_take() blocked, or -1. */
int wr_signals_open(void);

/* Orphaned descendants become children of this process, so that wr_children_kill() finds them. */
void wr_children_adopt(void);

/* Whether this process has any child, running or ended. */
bool wr_children_exist(void);

/* Sends SIGKILL to every child of this process; returns how many it found running. Each that dies hands its
 * children to this process if that adopts: call it until nothing is left. */
int wr_children_kill(void);

/* Kills and reaps all children and what they hand over; gives up after a second. */
void wr_children_end_all(void);

/* Whether a process was stopped by a signal. */
bool wr_process_is_stopped(pid_t pid);

/* "SIGTERM" and the like, or "signal 42"; returns buf. */
const char *wr_signal_name(int sig, char *buf, size_t size);

#endif
