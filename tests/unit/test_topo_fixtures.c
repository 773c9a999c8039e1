/* SPDX-License-Identifier: BSD-3-Clause */
/* Recorded machines: which levels they have and which network interface each rank gets. */
#include "tests/unit/topo_helpers.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    const char *file; /* in tests/fixtures/topo, or hwloc's words for a synthetic machine */
    int nranks;
    unsigned first, threads; /* rank r may run on the threads first + r * threads and up, so many of them */
    const char *levels;
    const char *nics;    /* all of the node, with their distance from the first and the last rank */
    const char *choices; /* the interface of each rank */
    const char *gpus;
    const char *last_rank; /* package, numa, cache, core of the last rank */
};

static const struct fixture fixtures[] = {
    {"epyc-nps4.xml", 32, 0, 2, "cache:16x2 numa:8x4 package:2x16 world:1x32",
     "mlx5_2:2/1 eno1:1/2 mlx5_1:1/2 mlx5_0:0/2", "mlx5_1*16 mlx5_2*16", "", "1 7 15 -1"},
    {"epyc-nps4.xml", 16, 0, 4, "numa:8x2 package:2x8 world:1x16", "mlx5_2:2/1 eno1:1/2 mlx5_1:1/2 mlx5_0:0/2",
     "mlx5_1*8 mlx5_2*8", "", "1 7 15 -1"},
    /* one rank that may run anywhere sits in no domain, and any interface is as good as another */
    {"epyc-nps4.xml", 1, 0, 64, "world:1x1", "mlx5_2:-1/-1 eno1:-1/-1 mlx5_1:-1/-1 mlx5_0:-1/-1", "mlx5_2", "",
     "-1 -1 -1 -1"},
    /* the L3 spans two domains: cut by them it says nothing more */
    {"xeon-snc.xml", 8, 0, 4, "numa:4x2 package:2x4 world:1x8", "eno1:1/2 hfi1_0:1/2 hfi1_1:2/1", "hfi1_0*4 hfi1_1*4",
     "", "1 3 1 -1"},
    {"a64fx.xml", 8, 0, 6, "numa:4x2 world:1x8", "mlx5_0:1/1", "mlx5_0*8", "", "0 3 3 -1"},
    {"grace.xml", 8, 0, 18, "package:2x4 world:1x8", "mlx5_0:0/2 mlx5_1:0/2 mlx5_2:2/0 mlx5_3:2/0",
     "mlx5_0 mlx5_1 mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_2 mlx5_3", "0008:01:00.0 0009:01:00.0", "1 2 1 -1"},
    {"container.xml", 4, 6, 1, "cache:2x2 world:1x4", "", "-*4", "", "0 0 1 9"},
    {"container.xml", 2, 6, 4, "world:1x2", "", "-*2", "", "0 0 -1 -1"},
    {"vm-no-caches.xml", 4, 0, 1, "world:1x4", "eth0:0/0", "eth0*4", "", "0 0 -1 3"},
    {"offline-core.xml", 2, 0, 2, "world:1x2", "eno1:0/0", "eno1*2", "", "0 0 0 2"},
    {"package:2 numa:4 l3:2 core:8 pu:1", 32, 0, 4, "cache:16x2 numa:8x4 package:2x16 world:1x32", "", "-*32", "",
     "1 7 15 -1"},
    {"package:2 l3:1 core:4 pu:2", 8, 0, 2, "package:2x4 world:1x8", "", "-*8", "", "1 0 1 7"},
    {"numa:2 core:2 pu:1", 4, 0, 1, "numa:2x2 world:1x4", "", "-*4", "", "-1 1 -1 3"},
};

static void assert_text(struct wr_buf *text, const char *want)
{
    assert_false(text->failed);
    assert_string_equal(text->data ? text->data : "", want);
    wr_buf_free(text);
    memset(text, 0, sizeof *text);
}

/* What each rank learns from the card of its node alone. */
static void local_text(const struct wr_card *card, int nranks, struct wr_buf *text)
{
    char last[64] = "";
    int times = 0;
    for (int rank = 0; rank <= nranks; rank++) {
        struct wr_topo_local local = {"?"};
        weir_error err;
        if (rank < nranks)
            assert_ok(wr_topo_local(card, rank, nranks, &local, &err), &err);
        const char *nic = local.nic[0] ? local.nic : "-";
        if (rank && strcmp(nic, last) != 0) {
            wr_buf_printf(text, times > 1 ? "%s%s*%d" : "%s%s", text->len ? " " : "", last, times);
            times = 0;
        }
        times++;
        strcpy(last, nic);
    }
}

static weir_topo *build(const struct fixture *f)
{
    const char *top = wr_env_get(NULL, "top_srcdir");
    char override[512];
    const char *overrides[] = {override, NULL};
    struct wr_buf *bufs = calloc((size_t)f->nranks, sizeof *bufs), node_card = {0};
    struct wr_card *cards = calloc((size_t)f->nranks, sizeof *cards);
    struct wr_machine machine;
    struct wr_config config;
    weir_topo *topo;
    weir_error err;
    if (strstr(f->file, ".xml"))
        snprintf(override, sizeof override, "HWLOC_XML=%s/tests/fixtures/topo/%s", top ? top : ".", f->file);
    else
        snprintf(override, sizeof override, "HWLOC_SYNTHETIC=%s", f->file);
    load_config(&config, overrides);
    assert_ok(wr_machine_open(&machine, &config, &err), &err);
    assert_true(machine.recorded);
    machine.imagined = false; /* these ranks are bound on the recorded machine */
    for (int rank = 0; rank < f->nranks; rank++) {
        unsigned first = f->nranks == 2 && f->threads == 4 ? f->first : f->first + (unsigned)rank * f->threads;
        make_rank_card(&bufs[rank], rank, "recorded", first, first + f->threads - 1, NULL, NULL);
        cards[rank] = (struct wr_card){rank, bufs[rank].data, bufs[rank].len};
    }
    assert_ok(wr_node_card_encode(&machine, NULL, cards, (size_t)f->nranks, &node_card, &err), &err);
    struct wr_card one = {0, node_card.data, node_card.len};
    assert_ok(wr_topo_build(&config, NULL, 0, f->nranks, &one, 1, &topo, &err), &err);
    struct wr_buf local = {0};
    struct wr_topo_local none;
    local_text(&one, f->nranks, &local);
    assert_text(&local, f->choices);
    assert_int_equal(wr_topo_local(&one, f->nranks, f->nranks + 1, &none, &err), WEIR_ERR_PROTOCOL);
    for (one.len = 0; one.len < node_card.len; one.len += 7)
        assert_int_equal(wr_topo_local(&one, 0, f->nranks, &none, &err), WEIR_ERR_PROTOCOL);
    for (int rank = 0; rank < f->nranks; rank++)
        wr_buf_free(&bufs[rank]);
    free(bufs);
    free(cards);
    wr_buf_free(&node_card);
    wr_machine_close(&machine);
    wr_config_free(&config);
    return topo;
}

static void nics_text(const weir_topo *topo, struct wr_buf *text)
{
    weir_device nic = {.size = sizeof nic};
    for (int i = 0; weir_topo_nic(topo, 0, i, &nic) == WEIR_OK; i++)
        wr_buf_printf(text, "%s%s:%d/%d", i ? " " : "", nic.name, weir_topo_nic_distance(topo, 0, i),
                      weir_topo_nic_distance(topo, weir_topo_nranks(topo) - 1, i));
}

static void choices_text(const weir_topo *topo, struct wr_buf *text)
{
    int n = weir_topo_nranks(topo);
    for (int rank = 0, next; rank < n; rank = next) {
        weir_device nic = {.size = sizeof nic, .name = "-"};
        int choice = weir_topo_nic_choice(topo, rank);
        assert_true(choice == -1 || weir_topo_nic(topo, 0, choice, &nic) == WEIR_OK);
        for (next = rank + 1; next < n && weir_topo_nic_choice(topo, next) == choice; next++)
            ;
        wr_buf_printf(text, next == rank + 1 ? "%s%s" : "%s%s*%d", rank ? " " : "", nic.name, next - rank);
    }
}

static void gpus_text(const weir_topo *topo, struct wr_buf *text)
{
    weir_device gpu = {.size = sizeof gpu};
    for (int i = 0; weir_topo_gpu(topo, 0, i, &gpu) == WEIR_OK; i++)
        wr_buf_printf(text, "%s%s", i ? " " : "", gpu.bus);
}

static void recorded_machines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof fixtures[0]; i++) {
        const struct fixture *f = &fixtures[i];
        struct wr_buf text = {0};
        weir_rank_info info = {.size = sizeof info};
        print_message("%s with %d ranks\n", f->file, f->nranks);
        weir_topo *topo = build(f);
        check_tree(topo);
        assert_levels(topo, f->levels);
        nics_text(topo, &text);
        assert_text(&text, f->nics);
        choices_text(topo, &text);
        assert_text(&text, f->choices);
        gpus_text(topo, &text);
        assert_text(&text, f->gpus);
        assert_int_equal(weir_topo_rank_info(topo, f->nranks - 1, &info), WEIR_OK);
        wr_buf_printf(&text, "%d %d %d %d", info.package, info.numa, info.cache, info.core);
        assert_text(&text, f->last_rank);
        assert_true(weir_topo_node_memory(topo, 0) >= (uint64_t)1 << 30);
        weir_topo_free(topo);
    }
}

static void nics_know_their_bus_and_interface(void **state)
{
    (void)state;
    weir_topo *topo = build(&fixtures[0]);
    weir_device nic = {.size = sizeof nic};
    int index = wr_topo_nic_by_bus(topo, 0, 0, 0xc1, 0, 0);
    assert_int_equal(weir_topo_nic(topo, 0, index, &nic), WEIR_OK);
    assert_string_equal(nic.name, "mlx5_1");
    assert_string_equal(nic.interface, "ib1");
    assert_string_equal(nic.bus, "0000:c1:00.0");
    assert_string_equal(nic.vendor, "15b3:101b");
    assert_int_equal(nic.numa, 1);
    assert_int_equal(wr_topo_nic_by_bus(topo, 0, 0, 0xc1, 0, 1), -1);
    assert_int_equal(wr_topo_nic_by_bus(topo, 1, 0, 0xc1, 0, 0), -1);
    /* a caller compiled against an older, shorter struct gets no more than fits */
    struct {
        weir_device device;
    } small = {{.size = offsetof(weir_device, numa), .numa = 42}};
    assert_int_equal(weir_topo_nic(topo, 0, index, &small.device), WEIR_OK);
    assert_int_equal(small.device.numa, 42);
    assert_string_equal(small.device.bus, "0000:c1:00.0");
    weir_topo_free(topo);
}

static void write_domain(const char *root, const char *name, const char *cpus)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_true(!mkdir(path, 0700) || errno == EEXIST);
    strcat(path, "/cpulist");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(cpus, f);
    fclose(f);
}

static void remove_domain(const char *root, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/cpulist", root, name);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s", root, name);
    rmdir(path);
}

static void the_domain_of_this_process(void **state)
{
    (void)state;
    char root[] = "/tmp/weir-numa-XXXXXX";
    assert_non_null(mkdtemp(root));
    assert_int_equal(wr_host_numa(root), -1);
    write_domain(root, "node0", "\n"); /* memory without threads */
    write_domain(root, "node5", "0-1048575\n");
    write_domain(root, "nodex", "0-1048575\n");
    assert_int_equal(wr_host_numa(root), 5);
    write_domain(root, "node5", "1048570-1048575\n");
    assert_int_equal(wr_host_numa(root), -1);
    write_domain(root, "node5", "1048570,0,1,2-1048560\n");
    assert_int_equal(wr_host_numa(root), 5);
    write_domain(root, "node5", "-5,x\n");
    assert_int_equal(wr_host_numa(root), -1);
    remove_domain(root, "node0");
    remove_domain(root, "node5");
    remove_domain(root, "nodex");
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(wr_host_numa("/nowhere"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_machines),
        cmocka_unit_test(the_domain_of_this_process),
        cmocka_unit_test(nics_know_their_bus_and_interface),
    };
    return cmocka_run_group_tests_name("topo_fixtures", tests, NULL, NULL);
}
