/* SPDX-License-Identifier: BSD-3-Clause */
/* Which provider and which interfaces are chosen, what the user may say about it, and agreement between ranks. */
#include "tests/unit/ofi_world.h"

static void providers_have_an_order(void **state)
{
    (void)state;
    static const char *const order[] = {"cxi",         "psm3",        "efa", "verbs;ofi_rxm", "a new one", "net",
                                        "tcp;ofi_rxm", "udp;ofi_rxd", "shm"};
    for (size_t i = 1; i < WR_ARRAY_SIZE(order); i++)
        assert_true(wr_ofi_quirks_find(order[i - 1])->preference > wr_ofi_quirks_find(order[i])->preference);
    assert_int_equal(wr_ofi_quirks_find("sockets")->preference, 0);
    assert_true(wr_ofi_quirks_find("verbs;ofi_rxm")->stream);
    assert_false(wr_ofi_quirks_find("verbs;ofi_rxd")->stream);
    assert_false(wr_ofi_quirks_find("a new one")->stream); /* nothing is assumed */
    assert_string_equal(wr_ofi_quirks_find("verbs;ofi_rxd")->name, "*;ofi_rxd");
}

/* ---- interfaces that there are not ---- */

enum { FAKES = 6 };
static struct fi_info *fake[FAKES];

static void fake_make(unsigned n, const char *const *names, const char *const *fabrics)
{
    for (unsigned i = 0; i < n; i++) {
        fake[i] = fi_allocinfo();
        fake[i]->domain_attr->name = strdup(names[i]);
        fake[i]->fabric_attr->name = strdup(fabrics[i]);
        fake[i]->fabric_attr->prov_name = strdup("imaginary");
    }
}

static void fake_free(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fi_freeinfo(fake[i]);
}

static const char *wanted; /* what the topology chose for the rank, NULL for nothing */

static const char *choose(const char *override1, const char *override2, int node_rank, int node_size, unsigned n,
                          weir_error *err)
{
    static char text[128];
    static const char *const none[] = {NULL};
    const char *overrides[] = {override1 ? override1 : override2, override1 ? override2 : NULL, NULL};
    struct wr_env env = {none};
    struct wr_config config;
    struct fi_info *chosen[WR_OFI_RAILS];
    unsigned count = 0;
    assert_ok(wr_config_load(&config, &env, overrides, err), err);
    struct wr_transport_params p = {.config = &config,
                                    .nic = wanted,
                                    .size = node_size,
                                    .node_rank = node_rank,
                                    .node_size = node_size,
                                    .numa = -1};
    weir_status status = wr_ofi_nics_choose(&p, fake, n, chosen, &count, err);
    wr_config_free(&config);
    text[0] = '\0';
    if (status)
        return weir_status_name(status);
    for (unsigned i = 0; i < count; i++) {
        wr_str_append(text, sizeof text, i ? "," : "");
        wr_str_append(text, sizeof text, chosen[i]->domain_attr->name);
    }
    return text;
}

static void ranks_spread_over_interfaces(void **state)
{
    (void)state;
    static const char *const names[] = {"fk0", "fk1", "fk2", "fk3"};
    static const char *const fabrics[] = {"f", "f", "f", "f"};
    weir_error err;
    fake_make(4, names, fabrics);
    assert_string_equal(choose(NULL, NULL, 0, 1, 4, &err), "fk0,fk1,fk2,fk3"); /* one rank has them all */
    assert_string_equal(choose(NULL, NULL, 0, 2, 4, &err), "fk0,fk1");
    assert_string_equal(choose(NULL, NULL, 1, 2, 4, &err), "fk2,fk3");
    for (int r = 0; r < 8; r++)
        assert_string_equal(choose(NULL, NULL, r, 8, 4, &err), names[r % 4]);
    assert_string_equal(choose(NULL, "RAILS=1", 1, 2, 4, &err), "fk1");
    assert_string_equal(choose(NULL, "RAILS=2", 3, 8, 4, &err), "fk3,fk0");
    assert_string_equal(choose("NIC=fk2,fk1", NULL, 3, 8, 4, &err), "fk2,fk1");
    assert_string_equal(choose("NIC=fk2,mlx5_7", NULL, 0, 1, 4, &err), "WEIR_ERR_CONFIG");
    assert_non_null(strstr(err.message, "fk0, fk1, fk2, fk3"));
    assert_non_null(strstr(err.message, "mlx5_7"));
    fake_free(4);
}

/* Ranks that were spread by the topology keep what they were given, and share out the rest. */
static void the_choice_of_the_topology_holds(void **state)
{
    (void)state;
    static const char *const names[] = {"fk0", "fk1", "fk2", "fk3"};
    static const char *const fabrics[] = {"f", "f", "f", "f"};
    weir_error err;
    fake_make(4, names, fabrics);
    for (int r = 0; r < 4; r++) {
        wanted = names[3 - r];
        assert_string_equal(choose(NULL, NULL, r, 4, 4, &err), wanted);
        assert_string_equal(choose("NIC=fk2", NULL, r, 4, 4, &err), "fk2");
    }
    wanted = "fk0";
    assert_string_equal(choose(NULL, NULL, 0, 2, 4, &err), "fk0,fk2");
    assert_string_equal(choose(NULL, NULL, 0, 1, 4, &err), "fk0,fk1,fk2,fk3");
    wanted = "fk1";
    assert_string_equal(choose(NULL, NULL, 1, 2, 4, &err), "fk1,fk3");
    assert_string_equal(choose(NULL, "RAILS=2", 3, 8, 4, &err), "fk1,fk2");
    wanted = "mlx5_0"; /* which this provider does not have */
    assert_string_equal(choose(NULL, NULL, 1, 4, 4, &err), "fk1");
    wanted = NULL;
    fake_free(4);
}

static void loopback_and_other_networks_are_not_mixed_in(void **state)
{
    (void)state;
    static const char *const names[] = {"lo", "fk0", "fk1", "fk2"};
    static const char *const fabrics[] = {"127.0.0.1/32", "10.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16"};
    weir_error err;
    fake_make(4, names, fabrics);
    assert_string_equal(choose(NULL, NULL, 0, 1, 4, &err), "fk0,fk1");
    assert_string_equal(choose(NULL, NULL, 2, 3, 4, &err), "fk0");
    assert_string_equal(choose(NULL, "RAILS=8", 0, 1, 4, &err), "fk0,fk1,fk2");
    assert_string_equal(choose(NULL, NULL, 0, 1, 1, &err), "lo"); /* when there is nothing else */
    fake_free(4);
}

/* ---- what users say ---- */

static void an_unknown_provider_or_interface_lists_what_there_is(void **state)
{
    (void)state;
    struct world w;
    weir_error err;
    const char *provider[] = {"OFI_PROVIDER=verbz", NULL};
    assert_int_equal(world_try(&w, 1, provider, &err), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, "WEIR_OFI_PROVIDER=verbz"));
    assert_non_null(strstr(err.message, "there are: "));
    const char *nic[] = {"NIC=eth77", NULL};
    assert_int_equal(world_try(&w, 1, nic, &err), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, "eth77"));
    assert_non_null(strstr(err.message, "there are: "));
}

/* Opens one rank with each provider, as if they were of one job. */
static bool two_providers(struct world *w, const char *a, const char *b, weir_error *err)
{
    const char *overrides[2][2] = {{a, NULL}, {b, NULL}};
    struct world other;
    if (world_try(&other, 2, overrides[1], err))
        return false;
    if (world_try(w, 2, overrides[0], err)) {
        world_close(&other);
        return false;
    }
    w->address[1] = other.address[1];
    world_close(&other);
    return true;
}

static void another_provider_is_a_mismatch_that_names_both(void **state)
{
    (void)state;
    struct world w;
    weir_error err;
    if (!two_providers(&w, "OFI_PROVIDER=tcp;ofi_rxm", "OFI_PROVIDER=shm", &err))
        skip();
    assert_int_equal(wr_ofi_ops.connect(w.rank[0], 1, &err), WEIR_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "tcp;ofi_rxm"));
    assert_non_null(strstr(err.message, "shm"));
    assert_int_equal(err.rank, 1);
    /* damaged addresses */
    w.address[1] = w.address[0];
    assert_int_equal(wr_ofi_ops.connect(w.rank[0], 1, &err), WEIR_ERR_PROTOCOL); /* says it is rank 0 */
    w.address[1].len = 20;
    assert_int_equal(wr_ofi_ops.connect(w.rank[0], 1, &err), WEIR_ERR_PROTOCOL);
    w.address[1].len = w.address[0].len;
    w.address[1].data[0] ^= 1;
    assert_int_equal(wr_ofi_ops.connect(w.rank[0], 1, &err), WEIR_ERR_PROTOCOL);
    assert_int_equal(wr_ofi_ops.connect(w.rank[0], 2, &err), WEIR_ERR_INVALID);
    world_close(&w);
}

static void the_shared_memory_provider_stays_on_the_node(void **state)
{
    (void)state;
    struct world w;
    weir_error err;
    const char *overrides[] = {"OFI_PROVIDER=shm", NULL};
    if (world_try(&w, 2, overrides, &err))
        skip();
    assert_true(wr_ofi_ops.reaches(w.rank[0], 1));
    w.rank[0]->params.node_size = 1; /* as if rank 1 were elsewhere */
    assert_false(wr_ofi_ops.reaches(w.rank[0], 1));
    assert_int_equal(wr_ofi_ops.connect(w.rank[0], 1, &err), WEIR_ERR_UNSUPPORTED);
    world_close(&w);
}

/* ---- rails ---- */

static void large_puts_use_all_rails(void **state)
{
    (void)state;
    struct world w;
    struct world_op o;
    weir_error err;
    enum { N = 3 * WR_OFI_STRIPE_MIN + 1001 };
    struct wr_region *local, *remote;
    const char *overrides[] = {"OFI_PROVIDER=tcp;ofi_rxm", "NIC=eth0,lo", NULL};
    if (world_try(&w, 2, overrides, &err))
        skip(); /* no eth0 */
    world_connect(&w);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    assert_int_equal(w.rank[0]->caps.rails, 2);
    assert_string_equal(w.rank[0]->caps.device, "eth0,lo");
    assert_int_equal(ofi->peers[1]->nlanes, 2);
    unsigned char *memory = calloc(2, N);
    world_fill(memory, N, 5);
    assert_ok(wr_ofi_ops.reg(w.rank[0], memory, N, 0, &local, &err), &err);
    assert_ok(wr_ofi_ops.reg(w.rank[1], memory + N, N, WR_REG_REMOTE_WRITE, &remote, &err), &err);
    struct wr_rkey *rkey = world_key(&w, 1, remote, 0);
    world_call(&w, &o, wr_ofi_ops.put(w.rank[0], 1, memory, local, N, rkey, 0, 0, &o.op, &err));
    assert_int_equal(ofi->peers[1]->dirty, 3); /* both lanes have carried something */
    world_call(&w, &o, wr_ofi_ops.am(w.rank[0], 1, 1, "\0\0\0\0", 4, NULL, 0, WR_OP_FENCE, &err));
    world_until(&w, w.arg[1].got == 1);
    assert_true(world_filled(memory + N, N, 5));
    for (uint64_t i = 1; i <= 20; i++) {
        world_fill(memory, N, (unsigned)i * 11);
        world_call(&w, &o, wr_ofi_ops.put_signal(w.rank[0], 1, memory, local, N, rkey, 0, 1, 0, &o.op, &err));
        world_until(&w, w.signals[1][1] == i);
        assert_true(world_filled(memory + N, N, (unsigned)i * 11));
    }
    wr_ofi_ops.key_close(w.rank[0], rkey);
    wr_ofi_ops.dereg(w.rank[0], local);
    wr_ofi_ops.dereg(w.rank[1], remote);
    world_close(&w);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(providers_have_an_order),
        cmocka_unit_test(ranks_spread_over_interfaces),
        cmocka_unit_test(the_choice_of_the_topology_holds),
        cmocka_unit_test(loopback_and_other_networks_are_not_mixed_in),
        cmocka_unit_test(an_unknown_provider_or_interface_lists_what_there_is),
        cmocka_unit_test(another_provider_is_a_mismatch_that_names_both),
        cmocka_unit_test(the_shared_memory_provider_stays_on_the_node),
        cmocka_unit_test(large_puts_use_all_rails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
