/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What no provider on an ordinary machine does: messages out of order, immediates that use up receives, full queues,
 * broken queues, lost peers, and the awkward registration modes. libfabric's own tables of functions are replaced.
 */
#include "tests/unit/ofi_world.h"

static bool world_open(struct world *w, int size, const char *extra)
{
    weir_error err;
    const char *overrides[] = {"OFI_PROVIDER=net", extra, NULL};
    weir_status status = world_try(w, size, overrides, &err);
    if (status == WEIR_ERR_CONFIG || status == WEIR_ERR_UNSUPPORTED) {
        overrides[0] = "OFI_PROVIDER=tcp";
        status = world_try(w, size, overrides, &err);
    }
    if (status == WEIR_ERR_CONFIG || status == WEIR_ERR_UNSUPPORTED)
        return false;
    assert_ok(status, &err);
    world_connect(w);
    return true;
}

#define OPEN(w, size)                                                                                                  \
    if (!world_open(w, size, NULL))                                                                                    \
    skip()

/* ---- order of messages ---- */

static char buffers[300][64];

static struct wr_ofi_rx message(unsigned i, uint32_t source, uint32_t seq, uint32_t number)
{
    struct wr_ofi_header head = {.source = source, .seq = seq, .kind = WR_OFI_AM, .id = 1};
    struct wr_ofi_rx rx = {.ctx.type = WR_OFI_CTX_RX, .data = buffers[i]};
    memcpy(buffers[i], &head, sizeof head);
    memcpy(buffers[i] + sizeof head, &number, sizeof number);
    wr_list_init(&rx.link);
    return rx;
}

static void messages_are_put_in_order(void **state)
{
    (void)state;
    static const uint32_t order[] = {2, 0, 1, 5, 4, 6, 3, 8, 7};
    struct world w;
    OPEN(&w, 2);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    struct wr_ofi_source sources[2];
    struct wr_ofi_rx rx[2 * WR_ARRAY_SIZE(order)];
    const uint32_t near_wrap = UINT32_MAX - 3; /* numbers wrap */
    for (int i = 0; i < 2; i++)
        wr_list_init(&sources[i].held);
    sources[0].expected = 0;
    sources[1].expected = near_wrap;
    ofi->ordered_messages = false;
    ofi->sources = sources;
    for (unsigned i = 0; i < WR_ARRAY_SIZE(order); i++)
        for (unsigned s = 0; s < 2; s++) {
            unsigned k = 2 * i + s;
            rx[k] = message(k, s, order[i] + (s ? near_wrap : 0), order[i]);
            wr_ofi_received(ofi, &rx[k], sizeof(struct wr_ofi_header) + sizeof(uint32_t));
        }
    assert_int_equal(w.arg[0].got, 2 * WR_ARRAY_SIZE(order));
    assert_int_equal(w.arg[0].wrong, 0);
    ofi->sources = NULL;
    ofi->ordered_messages = true;
    world_close(&w);
}

static void nonsense_is_dropped(void **state)
{
    (void)state;
    struct world w;
    OPEN(&w, 1);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    struct wr_ofi_header head = {.source = 99, .kind = WR_OFI_AM, .id = 1};
    struct wr_ofi_eager eager = {.index = 12345, .generation = 1};
    struct wr_ofi_rx rx[6];
    for (unsigned i = 0; i < 6; i++)
        rx[i] = message(i, 0, 0, 0);
    memcpy(rx[0].data, &head, sizeof head);
    wr_ofi_received(ofi, &rx[0], 64); /* no such rank */
    wr_ofi_received(ofi, &rx[1], 3);  /* shorter than a header */
    head = (struct wr_ofi_header){.kind = WR_OFI_AM, .id = 2};
    memcpy(rx[2].data, &head, sizeof head);
    wr_ofi_received(ofi, &rx[2], 64); /* no such handler */
    head.kind = 77;
    memcpy(rx[3].data, &head, sizeof head);
    wr_ofi_received(ofi, &rx[3], 64); /* no such kind */
    head.kind = WR_OFI_SIGNAL;
    head.slot = WORLD_SIGNALS;
    memcpy(rx[4].data, &head, sizeof head);
    wr_ofi_received(ofi, &rx[4], sizeof head); /* no such signal */
    head.kind = WR_OFI_EAGER;
    head.slot = 0;
    memcpy(rx[5].data, &head, sizeof head);
    memcpy(rx[5].data + sizeof head, &eager, sizeof eager);
    wr_ofi_received(ofi, &rx[5], sizeof head + sizeof eager + 4); /* no such region */
    assert_int_equal(w.arg[0].got, 0);
    for (unsigned i = 0; i < WORLD_SIGNALS; i++)
        assert_true(w.signals[0][i] == 0);
    assert_true(ofi->control[0] == 1); /* a flush of the sender ends all the same */
    world_close(&w);
}

/* ---- completions that we make up ---- */

static struct fi_ops_cq cq_ops, *cq_saved;
static struct fi_cq_data_entry cq_entry;
static struct fi_cq_err_entry cq_error;
static ssize_t cq_result;
static bool cq_silent; /* after a made-up error the true completion must not come too */

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    if (!cq_result)
        return cq_silent ? -FI_EAGAIN : cq_saved->read(cq, buf, count);
    ssize_t result = cq_result;
    cq_result = 0;
    cq_silent = result < 0;
    if (result == 1)
        memcpy(buf, &cq_entry, sizeof cq_entry);
    return result;
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *e, uint64_t flags)
{
    (void)cq;
    (void)flags;
    *e = cq_error;
    return 1;
}

static void cq_replace(struct wr_ofi *ofi)
{
    cq_saved = ofi->rail[0].cq->ops;
    cq_ops = *cq_saved;
    cq_ops.read = cq_read;
    cq_ops.readerr = cq_readerr;
    cq_result = 0;
    cq_silent = false;
    ofi->rail[0].cq->ops = &cq_ops;
}

static void an_immediate_that_uses_up_a_receive(void **state)
{
    (void)state;
    struct world w;
    OPEN(&w, 2);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    cq_replace(ofi);
    ofi->mode |= FI_RX_CQ_DATA;
    unsigned posted = ofi->rx_posted;
    assert_true(wr_list_empty(&ofi->rx_idle) && posted > 0);
    ofi->rx_target--; /* so that it is seen in the list of idle ones */
    cq_entry = (struct fi_cq_data_entry){.op_context = &ofi->rx[0],
                                         .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                                         .data = WR_OFI_IMMEDIATE(3u)};
    cq_result = 1;
    wr_ofi_ops.progress(w.rank[0]);
    assert_true(w.signals[0][3] == 1);
    assert_int_equal(ofi->rx_posted, posted - 1);
    assert_false(wr_list_empty(&ofi->rx_idle));
    /* without the mode the context means nothing; and data of others is not ours */
    ofi->mode &= ~FI_RX_CQ_DATA;
    cq_entry.op_context = NULL;
    cq_result = 1;
    wr_ofi_ops.progress(w.rank[0]);
    assert_true(w.signals[0][3] == 2);
    cq_entry.data = 3;
    cq_result = 1;
    wr_ofi_ops.progress(w.rank[0]);
    assert_true(w.signals[0][3] == 2);
    world_close(&w);
}

/* A put in flight whose completion is then replaced by an error. */
struct flight {
    struct world w;
    struct wr_ofi *ofi;
    char *memory;
    struct wr_region *local, *remote;
    struct wr_rkey *rkey;
    struct world_op op;
    struct wr_ofi_req *req;
};

static bool flight_open(struct flight *f)
{
    weir_error err;
    memset(f, 0, sizeof *f);
    if (!world_open(&f->w, 2, NULL))
        return false;
    f->memory = calloc(2, 65536);
    f->ofi = wr_ofi_of(f->w.rank[0]);
    assert_ok(wr_ofi_ops.reg(f->w.rank[0], f->memory, 65536, 0, &f->local, &err), &err);
    assert_ok(wr_ofi_ops.reg(f->w.rank[1], f->memory + 65536, 65536, WR_REG_REMOTE_WRITE, &f->remote, &err), &err);
    f->rkey = world_key(&f->w, 1, f->remote, 0);
    f->op.op.done = world_done;
    weir_status status;
    while ((status = wr_ofi_ops.put(f->w.rank[0], 1, f->memory, f->local, 65536, f->rkey, 0, 0, &f->op.op, &err)) ==
           WEIR_ERR_BUSY)
        world_progress(&f->w);
    assert_int_equal(status, WEIR_IN_PROGRESS);
    f->req = wr_list_first(&f->ofi->peers[1]->inflight, struct wr_ofi_req, link);
    assert_ptr_equal(f->req->op, &f->op.op);
    cq_replace(f->ofi);
    return true;
}

static void flight_close(struct flight *f)
{
    wr_ofi_ops.key_close(f->w.rank[0], f->rkey);
    wr_ofi_ops.dereg(f->w.rank[0], f->local);
    wr_ofi_ops.dereg(f->w.rank[1], f->remote);
    world_close(&f->w);
    free(f->memory);
}

static void lost_by(int error, int provider_error)
{
    struct flight f;
    struct world_op flush = {.op.done = world_done};
    weir_error err;
    if (!flight_open(&f))
        skip();
    assert_int_equal(wr_ofi_ops.flush(f.w.rank[0], 1, &flush.op, &err), WEIR_IN_PROGRESS);
    cq_error = (struct fi_cq_err_entry){.op_context = f.req, .err = error, .prov_errno = provider_error};
    cq_result = -FI_EAVAIL;
    wr_ofi_ops.progress(f.w.rank[0]);
    assert_true(f.op.done && f.op.status == WEIR_ERR_PEER_LOST);
    assert_true(flush.done && flush.status == WEIR_ERR_PEER_LOST);
    assert_int_equal(f.w.lost[0], 1);
    assert_int_equal(wr_ofi_ops.am(f.w.rank[0], 1, 1, "xxxx", 4, NULL, 0, 0, &err), WEIR_ERR_PEER_LOST);
    assert_int_equal(err.rank, 1);
    assert_int_equal(wr_ofi_ops.flush(f.w.rank[0], -1, &flush.op, &err), WEIR_ERR_PEER_LOST);
    flight_close(&f);
}

static void a_reset_connection_is_a_lost_peer(void **state)
{
    (void)state;
    lost_by(FI_ECONNRESET, 0);
    lost_by(FI_ECANCELED, FI_ENOTCONN); /* flushed with its connection */
}

static void another_error_fails_the_operation_alone(void **state)
{
    (void)state;
    struct flight f;
    weir_error err;
    if (!flight_open(&f))
        skip();
    cq_error = (struct fi_cq_err_entry){.op_context = f.req, .err = FI_EACCES};
    cq_result = -FI_EAVAIL;
    wr_ofi_ops.progress(f.w.rank[0]);
    assert_true(f.op.done && f.op.status == WEIR_ERR_TRANSPORT);
    assert_int_equal(f.w.lost[0], -1);
    assert_ok(wr_ofi_ops.am(f.w.rank[0], 1, 1, "\0\0\0\0", 4, NULL, 0, 0, &err), &err);
    flight_close(&f);
}

static void an_overrun_queue_fails_everything(void **state)
{
    (void)state;
    struct flight f;
    weir_error err;
    if (!flight_open(&f))
        skip();
    cq_result = -FI_EOVERRUN;
    wr_ofi_ops.progress(f.w.rank[0]);
    assert_true(f.op.done && f.op.status == WEIR_ERR_TRANSPORT);
    assert_int_equal(wr_ofi_ops.am(f.w.rank[0], 1, 1, "xxxx", 4, NULL, 0, 0, &err), WEIR_ERR_TRANSPORT);
    assert_non_null(strstr(err.message, "overrun"));
    flight_close(&f);
}

/* ---- full queues ---- */

static struct fi_ops_rma rma_ops, *rma_saved;
static int rma_refuse;

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    if (rma_refuse > 0) {
        rma_refuse--;
        return -FI_EAGAIN;
    }
    return rma_saved->writemsg(ep, msg, flags);
}

static void a_full_queue_is_busy_and_a_bulk_goes_on(void **state)
{
    (void)state;
    struct world w;
    struct world_op o = {.op.done = world_done};
    weir_error err;
    struct wr_region *local, *remote;
    enum { N = 1 << 20 };
    OPEN(&w, 2);
    unsigned char *memory = calloc(2, N);
    world_fill(memory, N, 3);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    assert_ok(wr_ofi_ops.reg(w.rank[0], memory, N, 0, &local, &err), &err);
    assert_ok(wr_ofi_ops.reg(w.rank[1], memory + N, N, WR_REG_REMOTE_WRITE, &remote, &err), &err);
    struct wr_rkey *rkey = world_key(&w, 1, remote, 0);
    rma_saved = ofi->rail[0].ep->rma;
    rma_ops = *rma_saved;
    rma_ops.writemsg = rma_writemsg;
    ofi->rail[0].ep->rma = &rma_ops;
    rma_refuse = 1;
    assert_int_equal(wr_ofi_ops.put(w.rank[0], 1, memory, local, 65536, rkey, 0, 0, &o.op, &err), WEIR_ERR_BUSY);
    assert_int_equal(ofi->rail[0].tx_used, 0);
    ofi->rail[0].max_post = 10000; /* a hundred pieces, and a signal by message after them */
    rma_refuse = 50;
    uint64_t before = w.signals[1][2];
    world_call(&w, &o, wr_ofi_ops.put_signal(w.rank[0], 1, memory, local, N, rkey, 0, 2, 0, &o.op, &err));
    world_until(&w, w.signals[1][2] == before + 1);
    assert_true(world_filled(memory + N, N, 3));
    assert_int_equal(rma_refuse, 0);
    /* the same as if the provider promised no order */
    memset(memory + N, 0, N);
    ofi->stream = false;
    world_call(&w, &o, wr_ofi_ops.put_signal(w.rank[0], 1, memory, local, N, rkey, 0, 2, 0, &o.op, &err));
    world_until(&w, w.signals[1][2] == before + 2);
    assert_true(world_filled(memory + N, N, 3));
    /* and then the signal waits for the completions of the pieces, which are held back here */
    weir_status status;
    cq_replace(ofi);
    cq_silent = true;
    o.done = false;
    while ((status = wr_ofi_ops.put_signal(w.rank[0], 1, memory, local, 30000, rkey, 0, 2, 0, &o.op, &err)) ==
           WEIR_ERR_BUSY)
        world_progress(&w);
    assert_int_equal(status, WEIR_IN_PROGRESS);
    for (int i = 0; i < 2000; i++)
        world_progress(&w);
    assert_true(w.signals[1][2] == before + 2);
    cq_silent = false;
    world_until(&w, o.done && w.signals[1][2] == before + 3);
    wr_ofi_ops.key_close(w.rank[0], rkey);
    wr_ofi_ops.dereg(w.rank[0], local);
    wr_ofi_ops.dereg(w.rank[1], remote);
    world_close(&w);
    free(memory);
}

/* ---- registration modes ---- */

static struct fi_ops_mr mr_ops;
static struct fi_ops mr_fid_ops;
static struct fid_mr mr_fake;
static int mr_bound, mr_enabled, mr_closed, mr_unmapped, mr_refuse;
static uint64_t mr_requested, mr_mapped_key, mr_mapped_base;

static int mr_fid_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    (void)fid;
    (void)flags;
    assert_int_equal(bfid->fclass, FI_CLASS_EP);
    assert_false(mr_enabled);
    mr_bound++;
    return 0;
}

static int mr_fid_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    if (command == FI_ENABLE) {
        mr_enabled++;
        return 0;
    }
    if (command == FI_GET_RAW_MR) {
        struct fi_mr_raw_attr *raw = arg;
        *raw->base_addr = 0x1000;
        memcpy(raw->raw_key, "a raw key of 24 bytes..", 24);
        *raw->key_size = 24;
        return 0;
    }
    return -FI_ENOSYS;
}

static int mr_fid_close(struct fid *fid)
{
    (void)fid;
    mr_closed++;
    return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    (void)fid;
    (void)buf;
    (void)len;
    (void)access;
    (void)context;
    assert_true(offset == 0 && flags == 0);
    if (mr_refuse > 0) {
        mr_refuse--;
        return -FI_ENOKEY;
    }
    mr_requested = requested_key;
    mr_fake = (struct fid_mr){.fid.fclass = FI_CLASS_MR, .fid.ops = &mr_fid_ops, .key = 0xabcd};
    *mr = &mr_fake;
    return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    if (command == FI_MAP_RAW_MR) {
        struct fi_mr_map_raw *map = arg;
        assert_int_equal(map->key_size, 24);
        assert_memory_equal(map->raw_key, "a raw key of 24 bytes..", 24);
        mr_mapped_base = map->base_addr;
        *map->key = mr_mapped_key;
        return 0;
    }
    if (command == FI_UNMAP_KEY) {
        assert_true(*(uint64_t *)arg == mr_mapped_key);
        mr_unmapped++;
        return 0;
    }
    return -FI_ENOSYS;
}

static void registration_modes(void **state)
{
    (void)state;
    struct world w;
    weir_error err;
    char memory[64];
    struct wr_region *region;
    OPEN(&w, 1);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    struct wr_ofi_rail *rail = &ofi->rail[0];
    struct fi_ops_mr *saved_mr = rail->domain->mr;
    struct fi_ops *saved_ops = rail->domain->fid.ops, domain_ops = *saved_ops;
    int saved_mode = ofi->mr_mode;
    mr_ops = *saved_mr;
    mr_ops.reg = mr_reg;
    mr_fid_ops = (struct fi_ops){.size = sizeof mr_fid_ops,
                                 .close = mr_fid_close,
                                 .bind = mr_fid_bind,
                                 .control = mr_fid_control};
    domain_ops.control = domain_control;
    rail->domain->mr = &mr_ops;
    rail->domain->fid.ops = &domain_ops;

    ofi->mr_mode = 0; /* own keys: each another one, and the next when one is taken */
    rail->info->domain_attr->mr_key_size = 2;
    rail->next_key = 0x1fffe;
    mr_refuse = 3;
    assert_ok(wr_ofi_ops.reg(w.rank[0], memory, sizeof memory, 3, &region, &err), &err);
    assert_true(mr_requested == 1); /* 0xfffe, 0xffff and 0 were taken; only two bytes count */
    assert_int_equal(mr_bound + mr_enabled, 0);
    struct wr_rkey *rkey = world_key(&w, 0, region, 0);
    assert_true(rkey->base[0] == 0 && rkey->key[0] == 0xabcd && rkey->len == sizeof memory);
    uint32_t generation = rkey->generation, index = rkey->index;
    wr_ofi_ops.key_close(w.rank[0], rkey);
    wr_ofi_ops.dereg(w.rank[0], region);
    assert_int_equal(mr_closed, 1);

    ofi->mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    assert_ok(wr_ofi_ops.reg(w.rank[0], memory, sizeof memory, 3, &region, &err), &err);
    assert_true(mr_bound == 1 && mr_enabled == 1 && mr_requested == 0);
    rkey = world_key(&w, 0, region, 0);
    assert_true(rkey->base[0] == (uintptr_t)memory);
    assert_int_equal(rkey->index, index);
    assert_int_not_equal(rkey->generation, generation);
    wr_ofi_ops.key_close(w.rank[0], rkey);
    wr_ofi_ops.dereg(w.rank[0], region);

    ofi->mr_mode = FI_MR_RAW | FI_MR_VIRT_ADDR;
    mr_mapped_key = 4711;
    assert_ok(wr_ofi_ops.reg(w.rank[0], memory, sizeof memory, 3, &region, &err), &err);
    rkey = world_key(&w, 0, region, 0);
    assert_true(rkey->key[0] == 4711 && rkey->mapped[0] && mr_mapped_base == 0x1000);
    wr_ofi_ops.key_close(w.rank[0], rkey);
    assert_int_equal(mr_unmapped, 1);
    wr_ofi_ops.dereg(w.rank[0], region);

    ofi->mr_mode = saved_mode;
    rail->domain->mr = saved_mr;
    rail->domain->fid.ops = saved_ops;
    world_close(&w);
}

/* FI_MR_LOCAL: small puts and gets of unregistered memory go by our buffers, larger ones are refused. */
static void local_registration(void **state)
{
    (void)state;
    struct world w;
    struct world_op o;
    weir_error err;
    unsigned char *memory = calloc(2, 65536);
    struct wr_region *remote;
    OPEN(&w, 2);
    struct wr_ofi *ofi = wr_ofi_of(w.rank[0]);
    ofi->mr_mode |= FI_MR_LOCAL;
    assert_ok(wr_ofi_ops.reg(w.rank[1], memory + 65536, 65536, WR_REG_REMOTE_WRITE | WR_REG_REMOTE_READ, &remote, &err),
              &err);
    struct wr_rkey *rkey = world_key(&w, 1, remote, 0);
    world_fill(memory, 1000, 9);
    world_call(&w, &o, wr_ofi_ops.put(w.rank[0], 1, memory, NULL, 1000, rkey, 0, 0, &o.op, &err));
    world_call(&w, &o, wr_ofi_ops.flush(w.rank[0], 1, &o.op, &err));
    memset(memory, 0, 1000);
    world_call(&w, &o, wr_ofi_ops.get(w.rank[0], 1, memory, NULL, 1000, rkey, 0, &o.op, &err));
    assert_true(world_filled(memory, 1000, 9));
    assert_int_equal(wr_ofi_ops.put(w.rank[0], 1, memory, NULL, 60000, rkey, 0, 0, &o.op, &err), WEIR_ERR_INVALID);
    assert_int_equal(wr_ofi_ops.get(w.rank[0], 1, memory, NULL, 60000, rkey, 0, &o.op, &err), WEIR_ERR_INVALID);
    wr_ofi_ops.key_close(w.rank[0], rkey);
    wr_ofi_ops.dereg(w.rank[1], remote);
    world_close(&w);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_put_in_order),
        cmocka_unit_test(nonsense_is_dropped),
        cmocka_unit_test(an_immediate_that_uses_up_a_receive),
        cmocka_unit_test(a_reset_connection_is_a_lost_peer),
        cmocka_unit_test(another_error_fails_the_operation_alone),
        cmocka_unit_test(an_overrun_queue_fails_everything),
        cmocka_unit_test(a_full_queue_is_busy_and_a_bulk_goes_on),
        cmocka_unit_test(registration_modes),
        cmocka_unit_test(local_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
