/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer on the readers of topologies: Slurm's topology.conf, weir's own words for a machine, and the cards that ranks send to each
 * other, damaged. What they take is a topology that holds together; what they do not take has a sentence. The first byte chooses.
 */
#include <stdlib.h>
#include <string.h>

#include "topo/card.h"
#include "topo/cpus.h"
#include "topo/machine.h"
#include "topo/topology_file.h"

enum { RANKS = 4, RANKS_MAX = 1 << 16, HOSTS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void holds_together(const weir_topo *t)
{
    int ranks = 0, levels = weir_topo_nlevels(t);
    for (int node = 0; node < weir_topo_nnodes(t); node++)
        for (int i = 0; i < weir_topo_node_size(t, node); i++, ranks++) {
            int rank = weir_topo_node_rank(t, node, i);
            check(weir_topo_node(t, rank) == node && weir_topo_local_rank(t, rank) == i);
        }
    check(ranks == weir_topo_nranks(t));
    for (int l = 0; l < levels; l++) {
        weir_level level = {.size = sizeof level};
        check(weir_topo_level(t, l, &level) == WEIR_OK && level.ngroups > 0 && level.min_ranks > 0 && level.min_ranks <= level.max_ranks);
        for (int r = 0; r < ranks; r++)
            check(weir_topo_group(t, l, r) >= 0 && weir_topo_group(t, l, r) < level.ngroups);
    }
}

static void file(const char *text, size_t len)
{
    struct wr_topology_file f;
    weir_error err;
    if (wr_topology_file_parse(&f, text, len, "topology.conf", &err) != WEIR_OK) {
        check(err.message[0]);
        return;
    }
    for (int i = 0; i < HOSTS; i++) {
        char host[] = {'h', (char)('0' + i), '\0'};
        struct wr_switches switches = {0};
        int leaf;
        if (wr_topology_file_find(&f, host, &switches, &leaf, &err) != WEIR_OK)
            check(err.message[0]);
        wr_switches_finish(&switches);
        wr_switches_free(&switches);
    }
    wr_topology_file_free(&f);
}

static void words(const char *text, size_t len)
{
    char spec[256];
    weir_topo *t;
    weir_error err;
    if (len >= sizeof spec)
        return;
    memcpy(spec, text, len);
    spec[len] = '\0';
    if (weir_topo_create(spec, &t, &err) != WEIR_OK) {
        check(err.message[0]);
        return;
    }
    if (weir_topo_nranks(t) <= RANKS_MAX)
        holds_together(t);
    weir_topo_free(t);
}

static void rank_card(const uint8_t *data, size_t size)
{
    struct wr_rank_card card;
    unsigned n;
    if (wr_rank_card_decode(data, size, &card))
        check(card.rank >= 0 && wr_cpus_check(card.cpus, card.cpus_len, &n));
}

/* ---- a node's card ---- */

static bool is_in_core(const void *arg, unsigned cpu)
{
    return cpu / 2 == *(const unsigned *)arg;
}

/* The card of one node with four ranks, each on a core of its own. */
static void true_card(struct wr_buf *card)
{
    static const char *const none[] = {NULL}, *const said[] = {"HWLOC_SYNTHETIC=package:2 numa:1 l3:1 core:2 pu:2", NULL};
    struct wr_env env = {none};
    struct wr_config config;
    struct wr_machine machine;
    struct wr_buf rank_cards[RANKS] = {{0}};
    struct wr_card cards[RANKS];
    weir_error err;
    check(wr_config_load(&config, &env, said, &err) == WEIR_OK && wr_machine_open(&machine, &config, &err) == WEIR_OK);
    machine.imagined = false;
    for (unsigned r = 0; r < RANKS; r++) {
        struct wr_rank_card rank = {.rank = (int)r, .pid = 100, .pid_namespace = 7, .host = "h1", .address = "s1.h1", .pattern = "switch.node"};
        struct wr_buf cpus = {0};
        wr_cpus_put(&cpus, is_in_core, &r, 2 * RANKS);
        rank.cpus = cpus.data;
        rank.cpus_len = cpus.len;
        wr_rank_card_encode(&rank, &rank_cards[r]);
        wr_buf_free(&cpus);
        cards[r] = (struct wr_card){(int)r, rank_cards[r].data, rank_cards[r].len};
    }
    check(wr_node_card_encode(&machine, NULL, cards, RANKS, card, &err) == WEIR_OK);
    for (int r = 0; r < RANKS; r++)
        wr_buf_free(&rank_cards[r]);
    wr_machine_close(&machine);
    wr_config_free(&config);
}

/* Each three bytes of the input: where, and what stands there instead; the end may be cut off. */
static void node_card(const uint8_t *data, size_t size)
{
    static struct wr_buf good;
    static struct wr_config config; /* nothing is asked for */
    weir_topo *t;
    weir_error err;
    if (!good.len)
        true_card(&good);
    uint8_t *damaged = malloc(good.len);
    if (!damaged)
        return;
    memcpy(damaged, good.data, good.len);
    for (; size >= 3; size -= 3, data += 3)
        damaged[(data[0] | data[1] << 8) % good.len] = data[2];
    struct wr_card card = {0, damaged, good.len - (size ? data[0] % good.len : 0)};
    weir_status status = wr_topo_build(&config, NULL, 0, RANKS, &card, 1, &t, &err);
    check(status == WEIR_OK || err.message[0]);
    if (status == WEIR_OK) {
        holds_together(t);
        weir_topo_free(t);
    }
    free(damaged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    switch (data[0] % 4) {
    case 0: file((const char *)data + 1, size - 1); break;
    case 1: words((const char *)data + 1, size - 1); break;
    case 2: rank_card(data + 1, size - 1); break;
    default: node_card(data + 1, size - 1);
    }
    return 0;
}
