/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <string.h>

#include "base/list.h"
#include "base/pool.h"

static void objects_are_distinct_aligned_and_reused(void **state)
{
    (void)state;
    struct wr_pool pool;
    void *p[200];
    wr_pool_init(&pool, 40, 128, 16, 0);
    for (int i = 0; i < 200; i++) {
        p[i] = wr_pool_get(&pool);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 128, 0);
        memset(p[i], i, 40);
    }
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < 40; k++)
            assert_int_equal(((unsigned char *)p[i])[k], (unsigned char)i);
    size_t total = pool.total;
    for (int i = 0; i < 200; i++)
        wr_pool_put(&pool, p[i]);
    assert_int_equal(pool.in_use, 0);
    for (int i = 0; i < 200; i++)
        assert_non_null(wr_pool_get(&pool));
    assert_int_equal(pool.total, total);
    wr_pool_destroy(&pool);
}

static void the_bound_holds(void **state)
{
    (void)state;
    struct wr_pool pool;
    weir_error err;
    wr_pool_init(&pool, 1, 0, 3, 5);
    assert_ok(wr_pool_reserve(&pool, 2, &err), &err);
    assert_int_equal(wr_pool_reserve(&pool, 6, &err), WEIR_ERR_NO_MEMORY);
    void *p[5];
    for (int i = 0; i < 5; i++)
        assert_non_null(p[i] = wr_pool_get(&pool));
    assert_null(wr_pool_get(&pool));
    wr_pool_put(&pool, p[2]);
    assert_ptr_equal(wr_pool_get(&pool), p[2]);
    wr_pool_destroy(&pool);
}

struct item {
    int value;
    struct wr_list link;
};

static void a_list_keeps_its_order(void **state)
{
    (void)state;
    struct wr_list head;
    struct item items[5], *i, *tmp;
    int expect = 0;
    wr_list_init(&head);
    assert_true(wr_list_empty(&head));
    for (int k = 1; k < 5; k++) {
        items[k].value = k;
        wr_list_push_back(&head, &items[k].link);
    }
    items[0].value = 0;
    wr_list_push_front(&head, &items[0].link);
    wr_list_for_each(i, &head, link) assert_int_equal(i->value, expect++);
    assert_int_equal(expect, 5);
    wr_list_for_each_safe(i, tmp, &head, link) if (i->value % 2) wr_list_remove(&i->link);
    expect = 0;
    wr_list_for_each(i, &head, link)
    {
        assert_int_equal(i->value, expect);
        expect += 2;
    }
    assert_int_equal(wr_list_first(&head, struct item, link)->value, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_distinct_aligned_and_reused),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(a_list_keeps_its_order),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
