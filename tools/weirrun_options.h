/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of weirrun. */
#ifndef WEIRRUN_OPTIONS_H
#define WEIRRUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/str.h"
#include "tools/weirrun_order.h"

/* A host of --host, or this one. */
struct wr_run_host {
    const char *name;
    int64_t slots;
    bool local;           /* ranks are started without the remote shell */
    int64_t count;        /* ranks on it */
    int64_t *rank;        /* their numbers, ascending */
};

struct wr_run_options {
    bool help, version, agent;
    int64_t size; /* ranks; 0: the sum of the slots */
    enum wr_bind bind;
    bool keep_going; /* --on-failure continue */
    bool tag_output;
    int64_t timeout_ns, grace_ns;
    const char *nodes, *placement;                    /* NULL when not given */
    const char *rsh, *iface, *directory, *agent_path; /* the last three NULL when not given */
    char *host_list;                                  /* copies that `hosts` points into */
    struct wr_run_host *hosts;
    int nhosts;
    bool places_on_hosts; /* --placement is about the hosts: there are no virtual nodes */
    int *host_of;         /* by rank: index in hosts[] */
    int64_t *rank_store;  /* what hosts[].rank points into */
    const char **env; /* "NAME=value" */
    size_t nenv;
    char **env_copies; /* as many, those of --env NAME are ours */
    char **program;    /* NULL-terminated, inside argv */
};

/*
 * Parses the command line, which must stay; WEIR_ERR_INVALID with a sentence for people. Without --host there
 * is one host, this one. Free with wr_run_options_free() in any case.
 */
weir_status wr_run_options_parse(struct wr_run_options *o, int argc, char **argv, weir_error *err);
void wr_run_options_free(struct wr_run_options *o);

/* Divides the ranks among the hosts, in their order or, without virtual nodes, as --placement says; sets
 * o->size when it was 0. WEIR_ERR_INVALID when slots are missing. */
weir_status wr_run_options_spread(struct wr_run_options *o, bool virtual_nodes, weir_error *err);

/* The text of --help. */
extern const char wr_run_help[];

#endif
