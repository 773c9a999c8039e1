/* SPDX-License-Identifier: BSD-3-Clause */
/* Host lists, topology files and switch addresses. */
#include "tests/unit/topo_helpers.h"

#include <unistd.h>

#include "topo/hostlist.h"
#include "topo/topology_file.h"

static bool collect(void *arg, const char *name, size_t len)
{
    struct wr_buf *text = arg;
    assert_int_equal(strlen(name), len);
    wr_buf_printf(text, "%s%s", text->len ? " " : "", name);
    return true;
}

static void host_lists_expand(void **state)
{
    (void)state;
    static const struct {
        const char *list, *want;
    } good[] = {
        {"h1", "h1"},
        {"h1,x2,y", "h1 x2 y"},
        {"h[0-3,7]", "h0 h1 h2 h3 h7"},
        {"h[08-11]", "h08 h09 h10 h11"},
        {"n[1,3]-ib,z", "n1-ib n3-ib z"},
        {"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"},
        {"[5-6]", "5 6"},
        {"a.b-c_d", "a.b-c_d"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct wr_buf text = {0};
        assert_null(wr_hostlist_each(good[i].list, strlen(good[i].list), collect, &text));
        assert_string_equal(text.data, good[i].want);
        wr_buf_free(&text);
    }
}

static bool count(void *arg, const char *name, size_t len)
{
    (void)name;
    (void)len;
    ++*(size_t *)arg;
    return true;
}

static void bad_host_lists_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *list, *want;
    } bad[] = {
        {"", "an empty name"},
        {"h1,", "an empty name"},
        {",h1", "an empty name"},
        {"h[", "a '[' without ']'"},
        {"h]", "a ']' without '['"},
        {"h[]", "empty brackets"},
        {"h[3-1]", "goes down"},
        {"h[1-]", "a number is missing"},
        {"h[-1]", "a number is missing"},
        {"h[1,]", "a number is missing"},
        {"h[1-2-3]", "unexpected"},
        {"h[a]", "a number is missing"},
        {"h[1x]", "unexpected"},
        {"h[1234567890]", "nine digits"},
        {"h 1", "unexpected"},
        {"h[0-999999999]", "262144 names"},
        {"h[1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2]", "too many brackets"},
        {"h[0-9999][0-9999][0-9999]", "262144 names"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t n = 0;
        const char *fault = wr_hostlist_each(bad[i].list, strlen(bad[i].list), count, &n);
        assert_non_null(fault);
        if (!strstr(fault, bad[i].want))
            fail_msg("'%s' gives '%s' instead of '%s'", bad[i].list, fault, bad[i].want);
        assert_true(n <= WR_HOSTLIST_MAX);
    }
    char longer[400];
    size_t n = 0;
    memset(longer, 'x', sizeof longer);
    assert_string_equal(wr_hostlist_each(longer, sizeof longer, count, &n), "a name is too long");
    memcpy(longer + 251, "[10000-10001]", 13);
    assert_string_equal(wr_hostlist_each(longer, 264, count, &n), "a name is too long");
}

/* The switches above a host from the outermost, "spine leaf0". */
static const char *path_of(const struct wr_topology_file *file, const char *host, char *text)
{
    struct wr_switches switches = {.cap = 0};
    weir_error err;
    int leaf;
    assert_ok(wr_topology_file_find(file, host, &switches, &leaf, &err), &err);
    *text = '\0';
    for (int at = leaf; at >= 0; at = switches.names.items[at].scope) {
        char outer[256];
        snprintf(outer, sizeof outer, "%s%s%s", wr_intern_name(&switches.names, at), *text ? " " : "", text);
        strcpy(text, outer);
    }
    wr_switches_free(&switches);
    return text;
}

static void topology_files_are_read(void **state)
{
    (void)state;
    static const char text[] = "# the network\n"
                               "SwitchName=leaf0 Nodes=h[0-3,7] LinkSpeed=100\n"
                               "\tswitchname=leaf1\tNODES=\"h[4-6]\"   # the other half\r\n"
                               "\n"
                               "SwitchName=spine \\\n"
                               "   Switches=leaf[0-1] \\\n"
                               "   LinkSpeed=400\n"
                               "SwitchName=far Nodes=x1,h0";
    struct wr_topology_file file;
    weir_error err;
    char path[256];
    assert_ok(wr_topology_file_parse(&file, text, sizeof text - 1, "t.conf", &err), &err);
    assert_int_equal(file.kind, WEIR_LEVEL_SWITCH);
    assert_string_equal(path_of(&file, "h7", path), "spine leaf0");
    assert_string_equal(path_of(&file, "h6", path), "spine leaf1");
    assert_string_equal(path_of(&file, "h6.example.org", path), "spine leaf1");
    assert_string_equal(path_of(&file, "x1", path), "far");
    assert_string_equal(path_of(&file, "h0", path), "spine leaf0"); /* named there first */
    assert_string_equal(path_of(&file, "h8", path), "");
    assert_string_equal(path_of(&file, "leaf0", path), "");
    wr_topology_file_free(&file);
}

static void blocks_are_groups(void **state)
{
    (void)state;
    static const char text[] = "BlockName=b1 Nodes=h[1-2]\nBlockName=b2 Nodes=h[3-4]\nBlockSizes=2,4\n";
    struct wr_topology_file file;
    weir_error err;
    char path[256];
    assert_ok(wr_topology_file_parse(&file, text, sizeof text - 1, "t.conf", &err), &err);
    assert_int_equal(file.kind, WEIR_LEVEL_GROUP);
    assert_string_equal(path_of(&file, "h3", path), "b2");
    wr_topology_file_free(&file);
}

static void bad_topology_files_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"\nSwitchName=a Nodes=h[3-1]\n", "t.conf:2: the list 'h[3-1]' has a range that goes down"},
        {"SwitchName=a Knoten=h1\n", "t.conf:1: the word 'Knoten' is not known"},
        {"SwitchName=a\n", "t.conf:1: 'a' has neither Nodes= nor Switches="},
        {"# x\n\nNodes=h1\n", "t.conf:3: the line has no SwitchName="},
        {"SwitchName=a Nodes=h1\nSwitchName=a Nodes=h2\n", "t.conf:2: 'a' is defined already on line 1"},
        {"SwitchName=a Switches=b,c\nSwitchName=b Nodes=h1\n", "t.conf:1: the switch 'c' is not defined"},
        {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "below itself"},
        {"SwitchName=a Switches=a\n", "below itself"},
        {"SwitchName=a Nodes=\n", "'Nodes=' has no value"},
        {"SwitchName=a Nodes\n", "'Nodes' is not of the form Word=value"},
        {"SwitchName=a Nodes=\"h1\n", "a quotation mark is missing"},
        {"SwitchName=a Nodes=h1 Nodes=h2\n", "'Nodes' is given twice"},
        {"SwitchName=a Nodes=h1\nBlockName=b Nodes=h2\n", "t.conf:2: switches and blocks"},
        {"BlockName=b Switches=h2\n", "a block has Nodes="},
        {"SwitchName=a \\\n  Nodes=h1 \\\n Bad=1\nx=1\n", "t.conf:1: the word 'Bad'"},
        {"SwitchName=a \\\n  Nodes=h1\nx=1\n", "t.conf:3: the word 'x'"},
        {"SwitchName=a Nodes=h[0-262000]\nSwitchName=b Nodes=i[0-262000]\nSwitchName=c Nodes=j[0-262000]\n"
         "SwitchName=d Nodes=k[0-262000]\nSwitchName=e Nodes=l[0-262000]\n",
         "t.conf:5: the file has more than"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wr_topology_file file;
        weir_error err;
        assert_int_equal(wr_topology_file_parse(&file, bad[i].text, strlen(bad[i].text), "t.conf", &err),
                         WEIR_ERR_CONFIG);
        if (!strstr(err.message, bad[i].want))
            fail_msg("'%s' does not say '%s'", err.message, bad[i].want);
    }
}

static void damaged_topology_files_are_survived(void **state)
{
    (void)state;
    static const char text[] = "SwitchName=a Nodes=h[0-3,7],x[1-2]y[01-03] # c\nSwitchName=b \\\n Nodes=\"i1\"\n"
                               "SwitchName=t Switches=a,b LinkSpeed=1\n";
    static const char alphabet[] = "SwitchNodes=[]-,\\\n\"# 0123\t\0";
    uint32_t seed = 3;
    int accepted = 0;
    for (int round = 0; round < 5000; round++) {
        char *copy = malloc(sizeof text - 1); /* no terminator: a read past the end is found */
        struct wr_topology_file file;
        weir_error err;
        memcpy(copy, text, sizeof text - 1);
        for (int hits = 1 + round % 4; hits; hits--) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (sizeof text - 1)] = alphabet[(seed >> 20) % (sizeof alphabet - 1)];
        }
        if (wr_topology_file_parse(&file, copy, sizeof text - 1 - (size_t)(round % 3), "t.conf", &err) == WEIR_OK) {
            char path[256];
            path_of(&file, "h0", path);
            wr_topology_file_free(&file);
            accepted++;
        } else {
            assert_int_equal(err.status, WEIR_ERR_CONFIG);
        }
        free(copy);
    }
    assert_true(accepted > 100);
}

static void unreadable_topology_files(void **state)
{
    (void)state;
    struct wr_topology_file file;
    weir_error err;
    assert_int_equal(wr_topology_file_load(&file, "/nowhere/topology.conf", &err), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, "/nowhere/topology.conf"));
    assert_int_equal(wr_topology_file_load(&file, "/dev", &err), WEIR_ERR_CONFIG);
    assert_int_equal(wr_topology_file_load(&file, "/dev/zero", &err), WEIR_ERR_CONFIG);
}

static void addresses_make_a_forest(void **state)
{
    (void)state;
    struct wr_switches s = {.cap = 0};
    int a, b, c, d, e, f;
    assert_true(wr_switches_add_address(&s, "top.mid.leaf0.h1", "switch.switch.switch.node", &a));
    assert_true(wr_switches_add_address(&s, "top.mid.leaf1.h2", "switch.switch.switch.node", &b));
    assert_true(wr_switches_add_address(&s, "top.short.h3.example.org", "switch.switch.node", &c));
    assert_true(wr_switches_add_address(&s, "h4", "node", &d));
    assert_true(wr_switches_add_address(&s, "top.h5", "switch.switch.node", &e));
    assert_true(wr_switches_add_address(&s, "", "", &f));
    assert_int_equal(d, -1);
    assert_int_equal(e, -1); /* the address is too short for its pattern */
    assert_int_equal(f, -1);
    wr_switches_finish(&s);
    assert_int_equal(s.nheights, 3);
    assert_string_equal(wr_intern_name(&s.names, wr_switches_at(&s, a, 0)), "leaf0");
    assert_int_equal(wr_switches_at(&s, a, 1), wr_switches_at(&s, b, 1));
    assert_string_equal(wr_intern_name(&s.names, wr_switches_at(&s, c, 0)), "short");
    assert_string_equal(wr_intern_name(&s.names, wr_switches_at(&s, c, 1)), "short"); /* stands in for a middle one */
    assert_int_equal(wr_switches_at(&s, c, 2), wr_switches_at(&s, a, 2));
    assert_int_equal(wr_switches_at(&s, d, 2), -1);
    assert_int_equal(wr_switches_kind(&s, 0), WEIR_LEVEL_SWITCH);
    wr_switches_free(&s);
    memset(&s, 0, sizeof s);
    assert_true(wr_switches_add_address(&s, "big.small.sw.h1", "block.block.switch.node", &a));
    wr_switches_finish(&s);
    assert_int_equal(wr_switches_kind(&s, 0), WEIR_LEVEL_SWITCH);
    assert_int_equal(wr_switches_kind(&s, 1), WEIR_LEVEL_GROUP);
    assert_int_equal(wr_switches_kind(&s, 2), WEIR_LEVEL_GROUP);
    wr_switches_free(&s);
}

/* A job of nodes with two ranks each, on hosts h0, h1, ...; `overrides` configure it. */
static weir_topo *build(int nodes, const char *const *addresses, const char *pattern, const char *const *overrides)
{
    struct wr_machine machine;
    struct wr_config config;
    weir_topo *topo;
    weir_error err;
    struct wr_buf *bufs = calloc((size_t)nodes, sizeof *bufs);
    struct wr_card *cards = calloc((size_t)nodes, sizeof *cards);
    open_synthetic(&machine, "package:1 core:4 pu:1");
    load_config(&config, overrides);
    for (int node = 0; node < nodes; node++) {
        struct wr_buf rank_bufs[2] = {{0}};
        struct wr_card rank_cards[2];
        char host[16];
        snprintf(host, sizeof host, "h%d", node);
        for (int i = 0; i < 2; i++) {
            make_rank_card(&rank_bufs[i], 2 * node + i, host, (unsigned)i, (unsigned)i,
                           addresses ? addresses[node] : NULL, pattern);
            rank_cards[i] = (struct wr_card){2 * node + i, rank_bufs[i].data, rank_bufs[i].len};
        }
        assert_ok(wr_node_card_encode(&machine, NULL, rank_cards, 2, &bufs[node], &err), &err);
        cards[node] = (struct wr_card){2 * node, bufs[node].data, bufs[node].len};
        wr_buf_free(&rank_bufs[0]);
        wr_buf_free(&rank_bufs[1]);
    }
    assert_ok(wr_topo_build(&config, NULL, 0, 2 * nodes, cards, (size_t)nodes, &topo, &err), &err);
    for (int node = 0; node < nodes; node++)
        wr_buf_free(&bufs[node]);
    free(bufs);
    free(cards);
    wr_machine_close(&machine);
    wr_config_free(&config);
    check_tree(topo);
    return topo;
}

static void slurm_addresses_become_levels(void **state)
{
    (void)state;
    static const char *const tree[] = {"top.s0.h0", "top.s1.h1", "top.s0.h2", "top.s1.h3"};
    static const char *const blocks[] = {"b0.h0", "b0.h1", "b1.h2", "b1.h3"};
    static const char *const partly[] = {"s0.h0", "s0.h1", NULL, NULL};
    weir_topo *topo = build(4, tree, "switch.switch.node", NULL);
    assert_levels(topo, "node:4x2 switch:2x4 world:1x8");
    assert_string_equal(weir_topo_group_name(topo, 1, weir_topo_group(topo, 1, 2)), "s1");
    assert_int_equal(weir_topo_common_level(topo, 0, 4), 1);
    weir_topo_free(topo);
    topo = build(4, blocks, "block.node", NULL);
    assert_levels(topo, "node:4x2 group:2x4 world:1x8");
    weir_topo_free(topo);
    topo = build(4, partly, "switch.node", NULL);
    assert_levels(topo, "node:4x2 switch:3x2-4 world:1x8");
    weir_topo_free(topo);
}

static void a_topology_file_becomes_levels(void **state)
{
    (void)state;
    static const char *const wrong[] = {"a.h0", "a.h1", "a.h2", "b.h3"};
    char path[] = "/tmp/weir-topology-XXXXXX", override[64];
    const char *overrides[] = {override, NULL, NULL};
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    snprintf(override, sizeof override, "TOPOLOGY_FILE=%s", path);
    fputs("SwitchName=l0 Nodes=h[0-1]\nSwitchName=l1 Nodes=h[2-3]\nSwitchName=l2 Nodes=h[4-5],node[6-7]\n"
          "SwitchName=m0 Switches=l0,l1\nSwitchName=m1 Switches=l2\nSwitchName=top Switches=m[0-1]\n",
          file);
    fclose(file);
    weir_topo *topo = build(4, wrong, "switch.node", overrides); /* the file wins */
    assert_levels(topo, "node:4x2 switch:2x4 world:1x8");
    weir_topo_free(topo);
    topo = build(6, NULL, NULL, overrides);
    assert_levels(topo, "node:6x2 switch:3x4 switch:2x4-8 world:1x12");
    weir_topo_free(topo);
    topo = build(8, NULL, NULL, overrides); /* two hosts that are not in it */
    assert_levels(topo, "node:8x2 switch:5x2-4 switch:4x2-8 switch:3x2-12 world:1x16");
    weir_topo_free(topo);
    overrides[1] = "NODES=8"; /* virtual nodes are found by number, too */
    topo = build(8, NULL, NULL, overrides);
    assert_levels(topo, "node:8x2 switch:3x4-8 switch:2x8 world:1x16");
    weir_topo_free(topo);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_lists_expand),
        cmocka_unit_test(bad_host_lists_are_named),
        cmocka_unit_test(topology_files_are_read),
        cmocka_unit_test(blocks_are_groups),
        cmocka_unit_test(bad_topology_files_name_the_line),
        cmocka_unit_test(damaged_topology_files_are_survived),
        cmocka_unit_test(unreadable_topology_files),
        cmocka_unit_test(addresses_make_a_forest),
        cmocka_unit_test(slurm_addresses_become_levels),
        cmocka_unit_test(a_topology_file_becomes_levels),
    };
    return cmocka_run_group_tests_name("topo_switches", tests, NULL, NULL);
}
