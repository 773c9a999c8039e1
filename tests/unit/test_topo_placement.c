/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "topo/topo.h"

#define MAX 64

static const char *placed(int64_t nodes, const char *placement, int size, char *text)
{
    int node_of[MAX];
    weir_error err;
    char *at = text;
    assert_ok(wr_placement_nodes(nodes, placement, size, node_of, &err), &err);
    for (int rank = 0; rank < size; rank++)
        at += sprintf(at, "%s%d", rank ? " " : "", node_of[rank]);
    return text;
}

static void block_is_even_with_the_larger_first(void **state)
{
    (void)state;
    char text[512];
    assert_string_equal(placed(2, "block", 8, text), "0 0 0 0 1 1 1 1");
    assert_string_equal(placed(3, "block", 8, text), "0 0 0 1 1 1 2 2");
    assert_string_equal(placed(4, "block", 5, text), "0 0 1 2 3");
    assert_string_equal(placed(1, "block", 3, text), "0 0 0");
    assert_string_equal(placed(3, "block", 3, text), "0 1 2");
    assert_string_equal(placed(2, NULL, 4, text), "0 0 1 1");
}

static void cyclic_goes_round(void **state)
{
    (void)state;
    char text[512];
    assert_string_equal(placed(3, "cyclic", 8, text), "0 1 2 0 1 2 0 1");
}

static void a_list_may_be_unequal(void **state)
{
    (void)state;
    char text[512];
    assert_string_equal(placed(3, "list:0,2,1,0,0,0", 6, text), "0 2 1 0 0 0");
}

static void random_is_seeded_and_leaves_no_node_empty(void **state)
{
    (void)state;
    char first[512], second[512];
    int different = 0;
    assert_string_equal(placed(4, "random:7", 16, first), placed(4, "random:7", 16, second));
    for (int seed = 0; seed < 200; seed++) {
        char placement[32];
        int node_of[9], count[7] = {0};
        weir_error err;
        snprintf(placement, sizeof placement, "random:%d", seed);
        assert_ok(wr_placement_nodes(7, placement, 9, node_of, &err), &err);
        for (int rank = 0; rank < 9; rank++) {
            assert_in_range(node_of[rank], 0, 6);
            count[node_of[rank]]++;
        }
        for (int node = 0; node < 7; node++)
            assert_true(count[node] > 0);
        different += strcmp(placed(4, placement, 16, second), first) != 0;
    }
    assert_true(different > 190);
    /* the same on every machine and in every version: other ranks may run another build */
    assert_string_equal(placed(3, "random", 6, first), placed(3, "random:0", 6, second));
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t nodes;
        const char *placement;
        const char *want;
    } bad[] = {
        {5, "block", "a node would be empty"},
        {0, "block", "WEIR_NODES=0"},
        {(int64_t)1 << 40, "block", "not possible"},
        {2, "blocks", "WEIR_PLACEMENT=blocks is not understood"},
        {2, "cyclic:2", "not understood"},
        {2, "random:x", "seed"},
        {2, "random:", "seed"},
        {2, "list:0,1,0", "names no node for rank 3"},
        {2, "list:0,1,0,1,1", "more numbers than the job has ranks"},
        {2, "list:0,1,0,2", "puts rank 3 on node 2"},
        {2, "list:0,1,0,-1", "names no node for rank 3"},
        {2, "list:0,1,0 ,1", "not understood at ' ,1'"},
        {2, "list:0,0,0,0", "leaves node 1 of 2 without a rank"},
        {2, "list:", "names no node for rank 0"},
        {2, "list:99999999999999999999999999,0,0,0", "puts rank 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int node_of[4];
        weir_error err;
        assert_int_equal(wr_placement_nodes(bad[i].nodes, bad[i].placement, 4, node_of, &err), WEIR_ERR_CONFIG);
        if (!strstr(err.message, bad[i].want))
            fail_msg("'%s' does not say '%s'", err.message, bad[i].want);
        assert_true(err.advice[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_is_even_with_the_larger_first),
        cmocka_unit_test(cyclic_goes_round),
        cmocka_unit_test(a_list_may_be_unequal),
        cmocka_unit_test(random_is_seeded_and_leaves_no_node_empty),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("topo_placement", tests, NULL, NULL);
}
