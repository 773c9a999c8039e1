/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank cards, node cards, and what becomes of them in the topology, also when somebody has damaged them. */
#include "tests/unit/topo_helpers.h"

#include <sched.h>
#include <unistd.h>

#define MACHINE "package:2 numa:2 l3:2 core:2 pu:2"

/* Two hosts with four ranks each, placed cyclically, every rank on one core of another L3. */
struct job {
    struct wr_buf rank_cards[8], node_cards[2];
    struct wr_card cards[2];
    struct wr_machine machine;
    struct wr_config config;
};

static void make_job(struct job *job, const char *address_0, const char *address_1, const char *pattern)
{
    memset(job, 0, sizeof *job);
    open_synthetic(&job->machine, MACHINE);
    load_config(&job->config, NULL);
    for (int node = 0; node < 2; node++) {
        struct wr_card cards[4];
        weir_error err;
        for (int i = 0; i < 4; i++) {
            int rank = 2 * i + node;
            unsigned first = (unsigned)(8 * i);
            make_rank_card(&job->rank_cards[rank], rank, node ? "beta" : "alpha", first, first + 1,
                           node ? address_1 : address_0, pattern);
            cards[i] = (struct wr_card){rank, job->rank_cards[rank].data, job->rank_cards[rank].len};
        }
        assert_ok(wr_node_card_encode(&job->machine, NULL, cards, 4, &job->node_cards[node], &err), &err);
        job->cards[node] = (struct wr_card){node, job->node_cards[node].data, job->node_cards[node].len};
    }
}

static void free_job(struct job *job)
{
    for (int i = 0; i < 8; i++)
        wr_buf_free(&job->rank_cards[i]);
    for (int i = 0; i < 2; i++)
        wr_buf_free(&job->node_cards[i]);
    wr_machine_close(&job->machine);
    wr_config_free(&job->config);
}

static void a_rank_card_comes_back(void **state)
{
    (void)state;
    struct wr_buf buf = {0};
    struct wr_rank_card card;
    unsigned count;
    make_rank_card(&buf, 12, "alpha", 3, 70, "spine.leaf0.h1", "switch.switch.node");
    assert_true(wr_rank_card_decode(buf.data, buf.len, &card));
    assert_int_equal(card.rank, 12);
    assert_string_equal(card.host, "alpha");
    assert_int_equal(card.pid, 1012);
    assert_int_equal(card.pid_namespace, 77);
    assert_string_equal(card.address, "spine.leaf0.h1");
    assert_string_equal(card.pattern, "switch.switch.node");
    assert_true(wr_cpus_check(card.cpus, card.cpus_len, &count));
    assert_int_equal(count, 68);
    for (size_t len = 0; len < buf.len; len++)
        assert_false(wr_rank_card_decode(buf.data, len, &card));
    wr_buf_str(&buf, "x");
    assert_false(wr_rank_card_decode(buf.data, buf.len, &card));
    wr_buf_free(&buf);
}

static void this_process_has_a_card(void **state)
{
    (void)state;
    static const char *const vars[] = {"SLURM_TOPOLOGY_ADDR=s0.h1", "SLURM_TOPOLOGY_ADDR_PATTERN=switch\nnode", NULL};
    struct wr_env env = {vars};
    struct wr_config config;
    struct wr_buf buf = {0};
    struct wr_rank_card card;
    struct wr_host_id id;
    weir_error err;
    char host[64], text[4096];
    unsigned count;
    load_config(&config, NULL);
    assert_ok(wr_topo_rank_card(&config, &env, 5, &buf, &err), &err);
    assert_true(wr_rank_card_decode(buf.data, buf.len, &card));
    assert_int_equal(card.rank, 5);
    assert_int_equal(card.pid, getpid());
    gethostname(host, sizeof host);
    assert_string_equal(card.host, host);
    wr_host_id_self(&id);
    assert_memory_equal(&card.host_id, &id, sizeof id);
    assert_true(id.ipc_namespace != 0);
    assert_string_equal(card.address, "s0.h1");
    assert_string_equal(card.pattern, ""); /* a line end does not belong there */
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) {
        assert_true(wr_cpus_check(card.cpus, card.cpus_len, &count));
        assert_int_equal(count, CPU_COUNT(&set));
        assert_true(*wr_cpus_format(card.cpus, card.cpus_len, text, sizeof text) != '\0');
    }
    wr_buf_free(&buf);
    wr_config_free(&config);
}

static void the_real_machine_builds(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    struct wr_config config;
    struct wr_buf rank_card = {0}, node_card = {0};
    weir_topo *topo;
    weir_error err;
    weir_rank_info info = {.size = sizeof info};
    load_config(&config, NULL);
    assert_ok(wr_topo_rank_card(&config, &env, 0, &rank_card, &err), &err);
    struct wr_card card = {0, rank_card.data, rank_card.len};
    assert_ok(wr_topo_node_card(&config, &env, NULL, &card, 1, &node_card, &err), &err);
    struct wr_card cards = {0, node_card.data, node_card.len};
    assert_ok(wr_topo_build(&config, NULL, 0, 1, &cards, 1, &topo, &err), &err);
    check_tree(topo);
    assert_levels(topo, "world:1x1");
    assert_true(weir_topo_node_memory(topo, 0) > 1 << 20);
    assert_int_equal(weir_topo_rank_info(topo, 0, &info), WEIR_OK);
    assert_int_equal(info.pid, getpid());
    assert_true(info.npus >= 1);
    assert_true(weir_topo_nnics(topo, 0) >= 0);
    for (int i = 0; i < weir_topo_nnics(topo, 0); i++) {
        weir_device nic = {.size = sizeof nic};
        assert_int_equal(weir_topo_nic(topo, 0, i, &nic), WEIR_OK);
        assert_string_not_equal(nic.name, "lo");
    }
    weir_topo_free(topo);
    wr_buf_free(&rank_card);
    wr_buf_free(&node_card);
    wr_config_free(&config);
}

static void two_hosts_build(void **state)
{
    (void)state;
    struct job job;
    weir_topo *topo;
    weir_error err;
    weir_rank_info info = {.size = sizeof info};
    make_job(&job, NULL, NULL, NULL);
    /* in any order */
    struct wr_card cards[2] = {job.cards[1], job.cards[0]};
    assert_ok(wr_topo_build(&job.config, NULL, 3, 8, cards, 2, &topo, &err), &err);
    check_tree(topo);
    assert_levels(topo, "package:4x2 node:2x4 world:1x8");
    assert_int_equal(weir_topo_node(topo, 3), 1);
    assert_int_equal(weir_topo_local_rank(topo, 3), 1);
    assert_int_equal(weir_topo_node_rank(topo, 1, 3), 7);
    assert_int_equal(weir_topo_rank_info(topo, 7, &info), WEIR_OK);
    assert_string_equal(info.host, "beta");
    assert_string_equal(info.cpuset, "24-25");
    assert_int_equal(info.package, 1);
    assert_int_equal(info.numa, 3);
    assert_int_equal(info.cache, 6);
    assert_int_equal(info.core, 12);
    assert_int_equal(info.npus, 2);
    assert_int_equal(info.pid, 1007);
    assert_int_equal(wr_topo_pid_namespace(topo, 7), 77);
    assert_memory_equal(wr_topo_host_id(topo, 1)->boot_id, "beta", 5);
    assert_int_equal(weir_topo_common_level(topo, 0, 2), 0);
    assert_int_equal(weir_topo_common_level(topo, 0, 4), 1);
    assert_int_equal(weir_topo_common_level(topo, 0, 1), 2);
    assert_int_equal(weir_topo_common_level(topo, 0, 8), -1);
    weir_topo_free(topo);
    free_job(&job);
}

static void switch_addresses_make_levels(void **state)
{
    (void)state;
    struct job job;
    weir_topo *topo;
    weir_error err;
    /* both hosts alone below their leaf: the node stays, the leaf goes; the spine is the world */
    make_job(&job, "spine.leaf0.alpha", "spine.leaf1.beta", "switch.switch.node");
    assert_ok(wr_topo_build(&job.config, NULL, 0, 8, job.cards, 2, &topo, &err), &err);
    check_tree(topo);
    assert_levels(topo, "package:4x2 node:2x4 world:1x8");
    weir_topo_free(topo);
    free_job(&job);
}

static void hosts_that_differ_are_kept_apart(void **state)
{
    (void)state;
    struct wr_buf rank_cards[4] = {{0}}, node_card = {0};
    struct wr_card cards[4];
    struct wr_machine machine;
    struct wr_config config;
    struct wr_host_id self = {.boot_id = "alpha"};
    weir_topo *topo;
    weir_error err;
    weir_rank_info info = {.size = sizeof info};
    open_synthetic(&machine, MACHINE);
    load_config(&config, NULL);
    /* the launcher says one node, but ranks 1 and 3 booted elsewhere */
    for (int rank = 0; rank < 4; rank++) {
        make_rank_card(&rank_cards[rank], rank, rank % 2 ? "beta" : "alpha", (unsigned)rank, (unsigned)rank, NULL,
                       NULL);
        cards[rank] = (struct wr_card){rank, rank_cards[rank].data, rank_cards[rank].len};
    }
    assert_ok(wr_node_card_encode(&machine, &self, cards, 4, &node_card, &err), &err);
    struct wr_card one = {0, node_card.data, node_card.len};
    assert_ok(wr_topo_build(&config, NULL, 0, 4, &one, 1, &topo, &err), &err);
    check_tree(topo);
    assert_int_equal(weir_topo_nnodes(topo), 2);
    assert_int_equal(weir_topo_node(topo, 2), 0);
    assert_int_equal(weir_topo_node(topo, 3), 1);
    /* of the other host nothing is known but what its ranks said */
    assert_int_equal(weir_topo_node_memory(topo, 1), 0);
    assert_true(weir_topo_node_memory(topo, 0) > 0);
    assert_int_equal(weir_topo_rank_info(topo, 3, &info), WEIR_OK);
    assert_int_equal(info.package, -1);
    assert_string_equal(info.cpuset, "3");
    weir_topo_free(topo);
    for (int rank = 0; rank < 4; rank++)
        wr_buf_free(&rank_cards[rank]);
    wr_buf_free(&node_card);
    wr_machine_close(&machine);
    wr_config_free(&config);
}

/* Containers on one host: another IPC namespace is another node, but the machine is known. */
static void containers_of_one_host_are_kept_apart(void **state)
{
    (void)state;
    struct wr_buf rank_cards[2] = {{0}}, changed = {0}, node_card = {0};
    struct wr_rank_card second;
    struct wr_machine machine;
    struct wr_config config;
    weir_topo *topo;
    weir_error err;
    weir_rank_info info = {.size = sizeof info};
    open_synthetic(&machine, MACHINE);
    load_config(&config, NULL);
    for (int rank = 0; rank < 2; rank++)
        make_rank_card(&rank_cards[rank], rank, "alpha", 4 * (unsigned)rank, 4 * (unsigned)rank, NULL, NULL);
    assert_true(wr_rank_card_decode(rank_cards[1].data, rank_cards[1].len, &second));
    second.host_id.ipc_namespace++;
    second.pid_namespace = 78;
    wr_rank_card_encode(&second, &changed);
    struct wr_card cards[2] = {{0, rank_cards[0].data, rank_cards[0].len}, {1, changed.data, changed.len}};
    assert_ok(wr_node_card_encode(&machine, NULL, cards, 2, &node_card, &err), &err);
    struct wr_card one = {0, node_card.data, node_card.len};
    assert_ok(wr_topo_build(&config, NULL, 0, 2, &one, 1, &topo, &err), &err);
    assert_int_equal(weir_topo_nnodes(topo), 2);
    assert_int_equal(weir_topo_rank_info(topo, 1, &info), WEIR_OK);
    assert_int_equal(info.cache, 1);
    assert_int_equal(info.node, 1);
    assert_int_equal(wr_topo_pid_namespace(topo, 0), 77);
    assert_int_equal(wr_topo_pid_namespace(topo, 1), 78);
    weir_topo_free(topo);
    wr_buf_free(&rank_cards[0]);
    wr_buf_free(&rank_cards[1]);
    wr_buf_free(&changed);
    wr_buf_free(&node_card);
    wr_machine_close(&machine);
    wr_config_free(&config);
}

/* A rank whose binding spans the machine shares only the node with others. */
static void unbound_ranks_stand_alone_inside_the_node(void **state)
{
    (void)state;
    static const unsigned ranges[5][2] = {{0, 1}, {2, 3}, {0, 31}, {16, 17}, {0, 31}};
    struct wr_buf rank_cards[5] = {{0}}, node_card = {0};
    struct wr_card cards[5];
    struct wr_machine machine;
    struct wr_config config;
    weir_topo *topo;
    weir_error err;
    weir_rank_info info = {.size = sizeof info};
    open_synthetic(&machine, MACHINE);
    load_config(&config, NULL);
    for (int rank = 0; rank < 5; rank++) {
        make_rank_card(&rank_cards[rank], rank, "alpha", ranges[rank][0], ranges[rank][1], NULL, NULL);
        cards[rank] = (struct wr_card){rank, rank_cards[rank].data, rank_cards[rank].len};
    }
    assert_ok(wr_node_card_encode(&machine, NULL, cards, 5, &node_card, &err), &err);
    struct wr_card one = {0, node_card.data, node_card.len};
    assert_ok(wr_topo_build(&config, NULL, 0, 5, &one, 1, &topo, &err), &err);
    check_tree(topo);
    assert_levels(topo, "package:4x1-2 world:1x5");
    assert_int_equal(weir_topo_rank_info(topo, 2, &info), WEIR_OK);
    assert_int_equal(info.package, -1);
    assert_int_equal(info.core, -1);
    assert_int_equal(info.npus, 32);
    assert_int_equal(weir_topo_common_level(topo, 2, 4), 1);
    assert_int_equal(weir_topo_common_level(topo, 0, 1), 0);
    weir_topo_free(topo);
    for (int rank = 0; rank < 5; rank++)
        wr_buf_free(&rank_cards[rank]);
    wr_buf_free(&node_card);
    wr_machine_close(&machine);
    wr_config_free(&config);
}

static void a_described_machine_gives_its_cores_in_turn(void **state)
{
    (void)state;
    static const char *const overrides[] = {"HWLOC_SYNTHETIC=package:2 l3:1 core:1531 pu:1", NULL};
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    struct wr_config config;
    struct wr_buf rank_cards[3] = {{0}}, node_card = {0};
    struct wr_card cards[3];
    weir_topo *topo;
    weir_error err;
    load_config(&config, overrides);
    for (int rank = 0; rank < 3; rank++) {
        assert_ok(wr_topo_rank_card(&config, &env, rank, &rank_cards[rank], &err), &err);
        cards[rank] = (struct wr_card){rank, rank_cards[rank].data, rank_cards[rank].len};
    }
    assert_ok(wr_topo_node_card(&config, &env, NULL, cards, 3, &node_card, &err), &err);
    struct wr_card one = {0, node_card.data, node_card.len};
    assert_ok(wr_topo_build(&config, NULL, 0, 3, &one, 1, &topo, &err), &err);
    for (int rank = 0; rank < 3; rank++) {
        weir_rank_info info = {.size = sizeof info};
        assert_int_equal(weir_topo_rank_info(topo, rank, &info), WEIR_OK);
        assert_int_equal(info.core, rank);
        assert_int_equal(info.npus, 1);
    }
    weir_topo_free(topo);
    for (int rank = 0; rank < 3; rank++)
        wr_buf_free(&rank_cards[rank]);
    wr_buf_free(&node_card);
    wr_config_free(&config);
}

static void a_bad_description_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *overrides[3];
        const char *want;
    } bad[] = {
        {{"HWLOC_SYNTHETIC=pack of wolves", NULL}, "WEIR_HWLOC_SYNTHETIC=pack of wolves"},
        {{"HWLOC_XML=/nowhere/at/all.xml", NULL}, "WEIR_HWLOC_XML=/nowhere/at/all.xml"},
        {{"HWLOC_XML=/dev/null", "HWLOC_SYNTHETIC=core:2 pu:1", NULL}, "both set"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wr_config config;
        struct wr_machine machine;
        weir_error err;
        load_config(&config, bad[i].overrides);
        assert_int_equal(wr_machine_open(&machine, &config, &err), WEIR_ERR_CONFIG);
        assert_non_null(strstr(err.message, bad[i].want));
        wr_config_free(&config);
    }
}

static void missing_and_double_ranks_are_found(void **state)
{
    (void)state;
    struct job job;
    weir_topo *topo = NULL;
    weir_error err;
    make_job(&job, NULL, NULL, NULL);
    struct wr_card twice[3] = {job.cards[0], job.cards[1], job.cards[1]};
    assert_int_equal(wr_topo_build(&job.config, NULL, 0, 8, job.cards, 1, &topo, &err), WEIR_ERR_PROTOCOL);
    assert_int_equal(err.rank, 1);
    assert_int_equal(wr_topo_build(&job.config, NULL, 0, 9, job.cards, 2, &topo, &err), WEIR_ERR_PROTOCOL);
    assert_int_equal(err.rank, 8);
    assert_int_equal(wr_topo_build(&job.config, NULL, 0, 7, job.cards, 2, &topo, &err), WEIR_ERR_PROTOCOL);
    assert_int_equal(wr_topo_build(&job.config, NULL, 0, 8, twice, 3, &topo, &err), WEIR_ERR_PROTOCOL);
    assert_int_equal(wr_topo_build(&job.config, NULL, 8, 8, job.cards, 2, &topo, &err), WEIR_ERR_INVALID);
    assert_null(topo);
    free_job(&job);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void damaged_node_cards_are_survived(void **state)
{
    (void)state;
    struct job job;
    weir_error err;
    uint32_t seed = 1;
    int accepted = 0;
    make_job(&job, "spine.leaf0.alpha", "spine.leaf1.beta", "switch.switch.node");
    char *copy = malloc(job.cards[1].len);
    assert_non_null(copy);
    struct wr_card cards[2] = {job.cards[0], {1, copy, 0}};
    for (size_t len = 0; len < job.cards[1].len; len++) {
        weir_topo *topo = NULL;
        memcpy(copy, job.cards[1].data, len);
        cards[1].len = len;
        assert_int_equal(wr_topo_build(&job.config, NULL, 0, 8, cards, 2, &topo, &err), WEIR_ERR_PROTOCOL);
        assert_null(topo);
    }
    cards[1].len = job.cards[1].len;
    for (int round = 0; round < 4000; round++) {
        weir_topo *topo = NULL;
        memcpy(copy, job.cards[1].data, job.cards[1].len);
        for (uint32_t hits = 1 + next_random(&seed) % 3; hits; hits--)
            copy[next_random(&seed) % job.cards[1].len] = (char)next_random(&seed);
        weir_status status = wr_topo_build(&job.config, NULL, 0, 8, cards, 2, &topo, &err);
        if (status) {
            assert_int_equal(status, WEIR_ERR_PROTOCOL);
            continue;
        }
        check_tree(topo);
        for (int rank = 0; rank < 8; rank++) {
            weir_rank_info info = {.size = sizeof info};
            assert_int_equal(weir_topo_rank_info(topo, rank, &info), WEIR_OK);
            weir_topo_nic_choice(topo, rank);
            wr_topo_pid_namespace(topo, rank); /* a sanitizer sees an index that was not checked */
        }
        weir_topo_free(topo);
        accepted++;
    }
    assert_true(accepted > 100); /* a pid or a name may be anything */
    free(copy);
    free_job(&job);
}

static void damaged_rank_cards_are_survived(void **state)
{
    (void)state;
    struct job job;
    uint32_t seed = 2;
    make_job(&job, NULL, NULL, NULL);
    char copy[512];
    size_t len = job.rank_cards[0].len;
    assert_true(len < sizeof copy);
    for (int round = 0; round < 4000; round++) {
        struct wr_buf out = {0};
        struct wr_card card = {0, copy, len};
        weir_error err;
        memcpy(copy, job.rank_cards[0].data, len);
        for (uint32_t hits = 1 + next_random(&seed) % 3; hits; hits--)
            copy[next_random(&seed) % len] = (char)next_random(&seed);
        weir_status status = wr_node_card_encode(&job.machine, NULL, &card, 1, &out, &err);
        assert_true(status == WEIR_OK || status == WEIR_ERR_PROTOCOL);
        wr_buf_free(&out);
    }
    free_job(&job);
}

static void a_node_card_is_small(void **state)
{
    (void)state;
    struct wr_buf rank_cards[128], node_card = {0};
    struct wr_card cards[128];
    struct wr_machine machine;
    weir_error err;
    memset(rank_cards, 0, sizeof rank_cards);
    open_synthetic(&machine, "package:2 l3:8 core:8 pu:2");
    for (int rank = 0; rank < 128; rank++) {
        make_rank_card(&rank_cards[rank], 1024 + rank, "host", (unsigned)rank * 2, (unsigned)rank * 2 + 1, NULL, NULL);
        cards[rank] = (struct wr_card){1024 + rank, rank_cards[rank].data, rank_cards[rank].len};
    }
    assert_ok(wr_node_card_encode(&machine, NULL, cards, 128, &node_card, &err), &err);
    assert_true(node_card.len < 128 * 16);
    for (int rank = 0; rank < 128; rank++)
        wr_buf_free(&rank_cards[rank]);
    wr_buf_free(&node_card);
    wr_machine_close(&machine);
}

static void cpu_sets_print_and_reject(void **state)
{
    (void)state;
    static const unsigned char overlong[] = {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0};
    static const unsigned char too_high[] = {1, 0xff, 0xff, 0x7f, 0};
    static const unsigned char ranges[] = {3, 0, 3, 4, 0, 1, 0}; /* 0-3, 8, 10 */
    char text[64], small[8];
    unsigned count;
    assert_false(wr_cpus_check(overlong, sizeof overlong, &count));
    assert_false(wr_cpus_check(too_high, sizeof too_high, &count));
    assert_false(wr_cpus_check(ranges, sizeof ranges - 1, &count));
    assert_true(wr_cpus_check(ranges, sizeof ranges, &count));
    assert_int_equal(count, 6);
    assert_string_equal(wr_cpus_format(ranges, sizeof ranges, text, sizeof text), "0-3,8,10");
    assert_string_equal(wr_cpus_format(ranges, sizeof ranges, small, sizeof small), "0-3...");
    assert_true(wr_cpus_check("", 0, &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_card_comes_back),
        cmocka_unit_test(this_process_has_a_card),
        cmocka_unit_test(the_real_machine_builds),
        cmocka_unit_test(two_hosts_build),
        cmocka_unit_test(switch_addresses_make_levels),
        cmocka_unit_test(hosts_that_differ_are_kept_apart),
        cmocka_unit_test(containers_of_one_host_are_kept_apart),
        cmocka_unit_test(unbound_ranks_stand_alone_inside_the_node),
        cmocka_unit_test(a_described_machine_gives_its_cores_in_turn),
        cmocka_unit_test(a_bad_description_is_refused),
        cmocka_unit_test(missing_and_double_ranks_are_found),
        cmocka_unit_test(damaged_node_cards_are_survived),
        cmocka_unit_test(damaged_rank_cards_are_survived),
        cmocka_unit_test(a_node_card_is_small),
        cmocka_unit_test(cpu_sets_print_and_reject),
    };
    return cmocka_run_group_tests_name("topo_cards", tests, NULL, NULL);
}
