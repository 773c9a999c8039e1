/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of topo/ share. */
#ifndef WR_TOPO_HELPERS_H
#define WR_TOPO_HELPERS_H

#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/card.h"
#include "topo/cpus.h"
#include "topo/machine.h"
#include "topo/tree.h"

/* A configuration from "NAME=value" words only. */
static inline void load_config(struct wr_config *config, const char *const *overrides)
{
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    weir_error err;
    assert_ok(wr_config_load(config, &env, overrides, &err), &err);
}

static inline bool is_in_range(const void *arg, unsigned cpu)
{
    const unsigned *range = arg;
    return cpu >= range[0] && cpu <= range[1];
}

/* Encodes the card of a rank on `host` that may run on the threads first..last. */
static inline void make_rank_card(struct wr_buf *buf, int rank, const char *host, unsigned first, unsigned last,
                                  const char *address, const char *pattern)
{
    struct wr_rank_card card = {.rank = rank, .pid = 1000 + rank, .pid_namespace = 77};
    struct wr_buf cpus = {0};
    unsigned range[2] = {first, last};
    strncpy((char *)card.host_id.boot_id, host, sizeof card.host_id.boot_id);
    strcpy(card.host, host);
    strcpy(card.address, address ? address : "");
    strcpy(card.pattern, pattern ? pattern : "");
    wr_cpus_put(&cpus, is_in_range, range, last + 1);
    card.cpus = cpus.data;
    card.cpus_len = cpus.len;
    wr_rank_card_encode(&card, buf);
    assert_false(buf->failed);
    wr_buf_free(&cpus);
}

/* A machine by hwloc's synthetic words, whose bindings are believed. */
static inline void open_synthetic(struct wr_machine *machine, const char *words)
{
    char override[256];
    const char *overrides[] = {override, NULL};
    struct wr_config config;
    weir_error err;
    snprintf(override, sizeof override, "HWLOC_SYNTHETIC=%s", words);
    load_config(&config, overrides);
    assert_ok(wr_machine_open(machine, &config, &err), &err);
    machine->imagined = false;
    wr_config_free(&config);
}

/* "cache:4x2 node:2x4 world:1x8": kind, groups, ranks in the smallest (and -largest) of them. */
static inline const char *levels_text(const weir_topo *topo, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < weir_topo_nlevels(topo); i++) {
        weir_level level = {.size = sizeof level};
        assert_int_equal(weir_topo_level(topo, i, &level), WEIR_OK);
        used += (size_t)snprintf(buf + used, size - used, "%s%s:%dx%d", i ? " " : "", weir_level_kind_name(level.kind),
                                 level.ngroups, level.min_ranks);
        if (level.max_ranks != level.min_ranks)
            used += (size_t)snprintf(buf + used, size - used, "-%d", level.max_ranks);
        assert_true(used < size);
    }
    return buf;
}

#define assert_levels(topo, text)                                                                                      \
    do {                                                                                                               \
        char levels_[512];                                                                                             \
        assert_string_equal(levels_text(topo, levels_, sizeof levels_), text);                                         \
    } while (0)

/* Everything that must hold of any topology: nodes and levels are a tree, numbered by lowest rank. */
static inline void check_tree(const weir_topo *topo)
{
    int n = weir_topo_nranks(topo), levels = weir_topo_nlevels(topo), next_node = 0;
    assert_true(levels >= 1);
    for (int rank = 0; rank < n; rank++) {
        int node = weir_topo_node(topo, rank);
        assert_in_range(node, 0, next_node);
        next_node += node == next_node;
        assert_int_equal(weir_topo_node_rank(topo, node, weir_topo_local_rank(topo, rank)), rank);
    }
    assert_int_equal(next_node, weir_topo_nnodes(topo));
    for (int level = 0; level < levels; level++) {
        weir_level info = {.size = sizeof info}, above = {.size = sizeof above};
        int next = 0;
        assert_int_equal(weir_topo_level(topo, level, &info), WEIR_OK);
        int *parent = malloc((size_t)info.ngroups * sizeof *parent);
        for (int rank = 0; rank < n; rank++) {
            int group = weir_topo_group(topo, level, rank);
            int up = level + 1 < levels ? weir_topo_group(topo, level + 1, rank) : 0;
            assert_in_range(group, 0, next);
            if (group == next) {
                parent[group] = up;
                next++;
            }
            assert_int_equal(parent[group], up);
        }
        assert_int_equal(next, info.ngroups);
        assert_true(info.ngroups < n || n == 1);
        if (level + 1 < levels) {
            assert_int_equal(weir_topo_level(topo, level + 1, &above), WEIR_OK);
            assert_true(above.ngroups < info.ngroups);
            assert_true(above.kind >= info.kind);
        } else {
            assert_int_equal(info.ngroups, 1);
            assert_int_equal(info.kind, WEIR_LEVEL_WORLD);
        }
        free(parent);
    }
}

#endif
