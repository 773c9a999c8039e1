/* SPDX-License-Identifier: BSD-3-Clause */
/* Imagined machines, levels, and the two ways of writing a topology down. */
#include "tests/unit/topo_helpers.h"

#include <malloc.h>
#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#include "base/clock.h"

static weir_topo *create(const char *spec)
{
    weir_topo *topo;
    weir_error err;
    assert_ok(weir_topo_create(spec, &topo, &err), &err);
    check_tree(topo);
    return topo;
}

static void imagined_machines_have_their_levels(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *levels;
        int nnodes;
    } cases[] = {
        {"core:1", "world:1x1", 1},
        {"core:4", "world:1x4", 1},
        {"node:4", "world:1x4", 4},
        {"node:2 core:3", "node:2x3 world:1x6", 2},
        {"switch:2 node:4 package:2 numa:2 cache:2 core:8",
         "cache:64x8 numa:32x16 package:16x32 node:8x64 switch:2x256 world:1x512", 8},
        /* one child: dropped; equal to the level above: the outer one stays, but the node rather than its switch */
        {"switch:2 node:1 core:2", "node:2x2 world:1x4", 2},
        {"node:2 package:1 numa:1 cache:1 core:2", "node:2x2 world:1x4", 2},
        {"node:2 package:2 numa:1 cache:1 core:2", "package:4x2 node:2x4 world:1x8", 2},
        {"package:2 numa:2 core:1", "package:2x2 world:1x4", 1},
        {"switch:1 node:2 core:2", "node:2x2 world:1x4", 2},
        {"group:2 switch:3 node:4", "switch:6x4 group:2x12 world:1x24", 24},
        {"group:3 switch:1 node:2 core:1", "group:3x2 world:1x6", 6},
        {"switch:2 switch:2 switch:2 node:2 core:1", "switch:8x2 switch:4x4 switch:2x8 world:1x16", 16},
        {"  node:2,core:2\n", "node:2x2 world:1x4", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_topo *topo = create(cases[i].spec);
        assert_levels(topo, cases[i].levels);
        assert_int_equal(weir_topo_nnodes(topo), cases[i].nnodes);
        weir_topo_free(topo);
    }
}

static void bad_descriptions_name_the_word(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *want;
        weir_status status;
    } bad[] = {
        {"", "no word", WEIR_ERR_INVALID},
        {"node", "'node' has no number", WEIR_ERR_INVALID},
        {"node:0", "'node:0' has no number of 1 or more", WEIR_ERR_INVALID},
        {"node:-1", "'node:-1' has no number", WEIR_ERR_INVALID},
        {"node:2x", "'node:2x' has no number", WEIR_ERR_INVALID},
        {"nodes:2", "'nodes:2' is no level", WEIR_ERR_INVALID},
        {"core:2 node:2", "'node:2' cannot stand inside 'core'", WEIR_ERR_INVALID},
        {"node:2 node:2", "'node:2' cannot stand inside 'node'", WEIR_ERR_INVALID},
        {"world:1", "'world:1' is no level", WEIR_ERR_INVALID},
        {"node:99999999999999999999 core:2", "has no number", WEIR_ERR_INVALID},
        {"node:100000 core:100000", "more than", WEIR_ERR_LIMIT},
        {"numa:40000 core:1", "a node with", WEIR_ERR_LIMIT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weir_topo *topo = NULL;
        weir_error err;
        assert_int_equal(weir_topo_create(bad[i].spec, &topo, &err), bad[i].status);
        assert_null(topo);
        if (!strstr(err.message, bad[i].want))
            fail_msg("'%s' does not say '%s'", err.message, bad[i].want);
    }
    assert_int_equal(weir_topo_create(NULL, NULL, NULL), WEIR_ERR_INVALID);
    weir_topo_free(NULL);
}

static void a_large_machine_is_lean(void **state)
{
    (void)state;
    struct mallinfo2 before = mallinfo2();
    int64_t start = wr_clock_ns();
    weir_topo *topo;
    weir_error err;
    assert_ok(weir_topo_create("group:8 switch:16 node:8 package:2 numa:4 cache:4 core:4", &topo, &err), &err);
    int64_t took = wr_clock_ns() - start;
    struct mallinfo2 after = mallinfo2();
    size_t used = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    assert_int_equal(weir_topo_nranks(topo), 131072);
    assert_levels(topo, "cache:32768x4 numa:8192x16 package:2048x64 node:1024x128 switch:128x1024 group:8x16384 "
                        "world:1x131072");
    /* 36 bytes a rank and 4 a level; sanitizers do not say what is in use */
    assert_true(used < 131072 * (36 + 6 * 4 + 8));
    assert_true(took < 10000000000); /* some 20 ms on a quiet machine */
    weir_topo_free(topo);
    assert_int_equal(sizeof(struct wr_place), 24);
}

static void questions_out_of_range(void **state)
{
    (void)state;
    weir_topo *topo = create("switch:2 node:2 core:2");
    weir_level level = {.size = sizeof level};
    weir_rank_info info = {.size = sizeof info};
    weir_device device = {.size = sizeof device};
    assert_int_equal(weir_topo_node(topo, -1), -1);
    assert_int_equal(weir_topo_node(topo, 8), -1);
    assert_int_equal(weir_topo_local_rank(topo, 8), -1);
    assert_int_equal(weir_topo_node_size(topo, 4), -1);
    assert_int_equal(weir_topo_node_rank(topo, 0, 2), -1);
    assert_int_equal(weir_topo_level(topo, 3, &level), WEIR_ERR_INVALID);
    assert_int_equal(weir_topo_level(topo, 0, NULL), WEIR_ERR_INVALID);
    level.size = 0;
    assert_int_equal(weir_topo_level(topo, 0, &level), WEIR_ERR_INVALID);
    assert_int_equal(weir_topo_group(topo, 0, 8), -1);
    assert_int_equal(weir_topo_group(topo, 3, 0), -1);
    assert_int_equal(weir_topo_common_level(topo, 0, -1), -1);
    assert_int_equal(weir_topo_rank_info(topo, 8, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_topo_nnics(topo, 0), 0);
    assert_int_equal(weir_topo_nnics(topo, 4), -1);
    assert_int_equal(weir_topo_ngpus(topo, -1), -1);
    assert_int_equal(weir_topo_nic(topo, 0, 0, &device), WEIR_ERR_INVALID);
    assert_int_equal(weir_topo_gpu(topo, 0, 0, &device), WEIR_ERR_INVALID);
    assert_int_equal(weir_topo_nic_choice(topo, 0), -1);
    assert_int_equal(weir_topo_nic_distance(topo, 0, 0), -1);
    assert_string_equal(weir_topo_group_name(topo, 1, 0), "switch0");
    assert_string_equal(weir_topo_group_name(topo, 1, 2), "");
    assert_string_equal(weir_topo_group_name(topo, 0, 0), "");
    assert_string_equal(weir_level_kind_name((weir_level_kind)99), "unknown");
    assert_int_equal(weir_topo_nranks(NULL), -1);
    assert_int_equal(weir_topo_node(NULL, 0), -1);
    weir_topo_free(topo);
}

static char *written(weir_status (*write)(const weir_topo *topo, FILE *stream), const weir_topo *topo)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    assert_non_null(stream);
    weir_status status = write(topo, stream);
    fclose(stream);
    if (status == WEIR_ERR_UNSUPPORTED) {
        free(text);
        return NULL;
    }
    assert_int_equal(status, WEIR_OK);
    return text;
}

static void the_tree_reads_well(void **state)
{
    (void)state;
    weir_topo *topo = create("switch:2 node:2 package:2 core:2");
    char *text = written(weir_topo_write_tree, topo);
    static const char want[] = "16 ranks on 4 nodes; levels from the innermost:\n"
                               "  0 package       8 groups of 2 ranks\n"
                               "  1 node          4 groups of 4 ranks\n"
                               "  2 switch        2 groups of 8 ranks\n"
                               "  3 world         1 group of 16 ranks\n"
                               "\n"
                               "world: ranks 0-15\n"
                               "  switch switch0: ranks 0-7\n"
                               "    node 0: host node0, ranks 0-3\n"
                               "      package 0: ranks 0-1\n"
                               "        rank 0: core 0, cpus 0\n"
                               "        rank 1: core 1, cpus 1\n"
                               "      package 1: ranks 2-3\n"
                               "        rank 2: core 2, cpus 2\n";
    assert_memory_equal(text, want, sizeof want - 1);
    free(text);
    weir_topo_free(topo);
    /* every rank and node has its line, also where the node is no level of its own */
    static const char *const specs[] = {"node:3", "core:3", "switch:2 node:3", "package:3 core:2",
                                        "group:2 switch:2 node:2"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        topo = create(specs[i]);
        text = written(weir_topo_write_tree, topo);
        for (int rank = 0; rank < weir_topo_nranks(topo); rank++) {
            char line[64];
            snprintf(line, sizeof line, " rank %d:", rank);
            assert_non_null(strstr(text, line));
        }
        for (int node = 0; node < weir_topo_nnodes(topo); node++) {
            char line[64];
            snprintf(line, sizeof line, " node %d: host node%d", node, node);
            assert_non_null(strstr(text, line));
        }
        free(text);
        weir_topo_free(topo);
    }
}

static void the_json_is_one_object(void **state)
{
    (void)state;
    weir_topo *topo = create("switch:2 node:2 core:2");
    char *text = written(weir_topo_write_json, topo);
    if (text) {
        static const char *const parts[] = {
            "\"nranks\": 8",
            "\"nnodes\": 4",
            "{\"kind\":\"switch\",\"groups\":2,\"min_ranks\":4,\"max_ranks\":4,\"names\":[\"switch0\",\"switch1\"]}",
            "\"ranks\":[6,7]}",
            "\"rank\":7,\"node\":3,\"local_rank\":1,",
            "\"groups\":[3,1,0]}",
        };
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            if (!strstr(text, parts[i]))
                fail_msg("no %s in %s", parts[i], text);
#ifdef HAVE_JANSSON
        json_error_t error;
        json_t *parsed = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        assert_non_null(parsed);
        assert_int_equal(json_array_size(json_object_get(parsed, "ranks")), 8);
        assert_int_equal(json_array_size(json_object_get(parsed, "nodes")), 4);
        assert_int_equal(json_array_size(json_object_get(parsed, "levels")), 3);
        json_decref(parsed);
#endif
    }
    free(text);
    weir_topo_free(topo);
}

/* Some ranks of a machine: two of its nodes, of which one lies alone below its switch now. */
static void ranks_of_a_topology_are_one(void **state)
{
    (void)state;
    static const int ranks[] = {17, 16, 1, 5, 0}; /* switch 1, node 2; switch 0, nodes 0 and 1 */
    static const int node[] = {0, 0, 1, 2, 1}, switch_of[] = {0, 0, 1, 1, 1};
    static const int none[] = {3};
    weir_topo *whole = create("switch:2 node:4 package:2 core:2"), *part, *one;
    weir_error err;
    assert_ok(wr_topo_restrict(whole, ranks, 5, &part, &err), &err);
    assert_int_equal(weir_topo_nranks(part), 5);
    assert_int_equal(weir_topo_nnodes(part), 3);
    assert_int_equal(weir_topo_node_size(part, 1), 2);
    assert_int_equal(weir_topo_node_rank(part, 1, 1), 4);
    weir_level level = {.size = sizeof level};
    int nlevels = weir_topo_nlevels(part);
    assert_int_equal(nlevels, 3); /* all ranks of a node are in one package: that level is not there */
    static const weir_level_kind kinds[] = {WEIR_LEVEL_NODE, WEIR_LEVEL_SWITCH, WEIR_LEVEL_WORLD};
    static const int groups[] = {3, 2, 1}, most[] = {2, 3, 5};
    for (int i = 0; i < nlevels; i++) {
        assert_int_equal(weir_topo_level(part, i, &level), WEIR_OK);
        assert_int_equal(level.kind, kinds[i]);
        assert_int_equal(level.ngroups, groups[i]);
        assert_int_equal(level.max_ranks, most[i]);
    }
    for (int r = 0; r < 5; r++) {
        weir_rank_info a = {.size = sizeof a}, b = {.size = sizeof b};
        assert_int_equal(weir_topo_node(part, r), node[r]);
        assert_int_equal(weir_topo_group(part, 1, r), switch_of[r]);
        assert_int_equal(weir_topo_rank_info(part, r, &a), WEIR_OK);
        assert_int_equal(weir_topo_rank_info(whole, ranks[r], &b), WEIR_OK);
        assert_int_equal(a.core, b.core);
        assert_string_equal(a.host, b.host);
    }
    assert_ok(wr_topo_restrict(whole, none, 1, &one, &err), &err);
    assert_int_equal(weir_topo_nlevels(one), 1);
    assert_int_equal(weir_topo_nnodes(one), 1);
    weir_topo_free(one);
    weir_topo_free(part);
    weir_topo_free(whole);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    weir_topo *topo = create("node:2 core:2");
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        assert_int_equal(weir_topo_write_tree(topo, full), WEIR_ERR_IO);
        fclose(full);
    }
    full = fopen("/dev/full", "w");
    if (full) {
        weir_status status = weir_topo_write_json(topo, full);
        assert_true(status == WEIR_ERR_IO || status == WEIR_ERR_UNSUPPORTED);
        fclose(full);
    }
    assert_int_equal(weir_topo_write_tree(topo, NULL), WEIR_ERR_INVALID);
    weir_topo_free(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imagined_machines_have_their_levels),
        cmocka_unit_test(bad_descriptions_name_the_word),
        cmocka_unit_test(a_large_machine_is_lean),
        cmocka_unit_test(questions_out_of_range),
        cmocka_unit_test(the_tree_reads_well),
        cmocka_unit_test(the_json_is_one_object),
        cmocka_unit_test(ranks_of_a_topology_are_one),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests_name("topo_levels", tests, NULL, NULL);
}
