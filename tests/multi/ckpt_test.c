/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of several ranks. usage: ckpt_test FOLDER save STEP | load STEP | refuse | background STEP | lost OPERATION
 * The values follow from the step, so that any number of ranks can check what any other number has saved.
 */
#include "tests/multi/multi.h"

#include <errno.h>
#include <unistd.h>

#include "optim/ckpt.h"

enum { NTENSORS = 5, MOST = 2000000 };

static const struct {
    const char *name;
    uint64_t type, ndims, shape[2], count, width;
} tensors[NTENSORS] = {
    {"embedding.weight", WEIR_FP32, 2, {1000, 333}, 333000, 4},
    {"layer.weight", WEIR_BF16, 2, {77, 1001}, 77077, 2},
    {"layer.bias", WEIR_FP32, 1, {3}, 3, 4},
    {"exp_avg", WEIR_FP64, 1, {200001}, 200001, 8},
    {"mask", WEIR_UINT8, 1, {11}, 11, 1},
};

static unsigned char value(int tensor, uint64_t byte, uint64_t step)
{
    return pattern(byte, step * 31 + (uint64_t)tensor);
}

/* The elements of a tensor that rank r of n has: uneven, and none at all for small ones. */
static void range_of(int tensor, int r, int n, uint64_t *first, uint64_t *count)
{
    uint64_t total = tensors[tensor].count, at = (uint64_t)r * (total + 7) / (uint64_t)n,
             end = (uint64_t)(r + 1) * (total + 7) / (uint64_t)n;
    at = at < total ? at : total;
    end = r == n - 1 ? total : end < total ? end : total;
    *first = at;
    *count = end - at;
}

struct state {
    weir_ckpt_tensor ranges[NTENSORS];
    unsigned char *data[NTENSORS];
};

static void state_make(struct state *s, uint64_t step)
{
    for (int i = 0; i < NTENSORS; i++) {
        weir_ckpt_tensor range = WEIR_CKPT_TENSOR_INIT;
        range.name = tensors[i].name;
        range.type = tensors[i].type;
        range.ndims = tensors[i].ndims;
        range.shape = tensors[i].shape;
        range_of(i, rank, size, &range.first, &range.count);
        range.data = s->data[i] = calloc(range.count + 1, tensors[i].width);
        for (uint64_t k = 0; k < range.count * tensors[i].width; k++)
            s->data[i][k] = value(i, range.first * tensors[i].width + k, step);
        s->ranges[i] = range;
    }
}

static void state_free(struct state *s)
{
    for (int i = 0; i < NTENSORS; i++)
        free(s->data[i]);
}

static weir_ckpt *open_folder(const struct wr_ckpt_fs *fs, const char *folder)
{
    weir_ckpt *ckpt;
    weir_error err = {0};
    CHECK(wr_ckpt_open(fs, comm, rank ? "not looked at" : folder, NULL, &ckpt, &err) == WEIR_OK, "%s", err.message);
    return ckpt;
}

/* What rank 0 and each rank give beside tensors. */
static weir_ckpt_content content_of(const struct state *s, weir_ckpt_entry entries[2], char key[32], uint64_t step)
{
    weir_ckpt_content content = WEIR_CKPT_CONTENT_INIT;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    snprintf(key, 32, "data/%d", rank);
    entries[0] = entries[1] = entry;
    entries[0].key = "schedule";
    entries[0].json = "{\"warmup\": 10}";
    entries[1].key = key;
    entries[1].bytes = key;
    entries[1].nbytes = strlen(key);
    content.step = step;
    content.ntensors = NTENSORS;
    content.tensors = s->ranges;
    content.nentries = 2;
    content.entries = entries;
    return content;
}

static void save(const char *folder, uint64_t step, bool background)
{
    struct state s;
    weir_ckpt_entry entries[2];
    char key[32];
    weir_error err = {0};
    weir_ckpt *ckpt = open_folder(&wr_ckpt_fs_posix, folder);
    state_make(&s, step);
    weir_ckpt_content content = content_of(&s, entries, key, step);
    if (background) {
        int64_t sum = 0, one = 1;
        CHECK(weir_ckpt_isave(ckpt, &content, &err) == WEIR_OK, "%s", err.message);
        for (int i = 0; i < NTENSORS; i++)
            memset(s.data[i], 0xee, s.ranges[i].count * tensors[i].width);
        for (int i = 0; i < 200; i++) { /* the ranks' own communication goes on meanwhile */
            OK(weir_allreduce(comm, &one, &sum, 1, WEIR_INT64, WEIR_SUM));
            CHECK(sum == size, "sum %lld", (long long)sum);
        }
        CHECK(weir_ckpt_wait(ckpt, &err) == WEIR_OK, "%s", err.message);
    } else {
        CHECK(weir_ckpt_save(ckpt, &content, &err) == WEIR_OK, "%s", err.message);
    }
    OK(weir_ckpt_close(ckpt));
    state_free(&s);
}

/* This many ranks read what others have written, each its own ranges. */
static void load(const char *folder, uint64_t step)
{
    struct state wanted, got;
    weir_ckpt_source *source;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    weir_error err = {0};
    weir_ckpt *ckpt = open_folder(&wr_ckpt_fs_posix, folder);
    state_make(&wanted, step);
    state_make(&got, step + 1);
    CHECK(weir_ckpt_resume(ckpt, WEIR_CKPT_LATEST, &source, &err) == WEIR_OK, "%s", err.message);
    CHECK(weir_ckpt_source_read(source, got.ranges, NTENSORS, &err) == WEIR_OK, "%s", err.message);
    for (int i = 0; i < NTENSORS; i++)
        CHECK(!memcmp(wanted.data[i], got.data[i], got.ranges[i].count * tensors[i].width), "tensor %s is another",
              tensors[i].name);
    CHECK(weir_ckpt_source_entry(source, "schedule", &entry) == WEIR_OK && !strcmp(entry.json, "{\"warmup\":10}"),
          "entry schedule");
    CHECK(weir_ckpt_source_entry(source, "data/0", &entry) == WEIR_OK && entry.nbytes == 6, "entry data/0");
    weir_ckpt_source_close(source);
    OK(weir_ckpt_close(ckpt));
    state_free(&wanted);
    state_free(&got);
}

/* One rank does what cannot be: all get the same sentence, which names it, and the next save goes through. */
static void refuse(const char *folder)
{
    struct state s;
    weir_ckpt_entry entries[2];
    char key[32];
    weir_ckpt *ckpt = open_folder(&wr_ckpt_fs_posix, folder);
    int last = size - 1;
    state_make(&s, 1);
    for (int what = 0; what < 6; what++) {
        weir_error err = {0};
        weir_ckpt_content content = content_of(&s, entries, key, 1);
        weir_ckpt_tensor was = s.ranges[0];
        static const weir_status expect[] = {WEIR_ERR_INVALID, WEIR_ERR_MISMATCH, WEIR_ERR_MISMATCH,
                                             WEIR_ERR_INVALID, WEIR_ERR_MISMATCH, WEIR_ERR_INVALID};
        if (rank == last && what == 0)
            s.ranges[0].first--; /* twice; and the last one is missing */
        if (rank == last && what == 1)
            s.ranges[0].type = WEIR_INT32;
        if (rank == last && what == 2)
            content.step = 3;
        if (rank == last && what == 3)
            s.ranges[0].count--;
        if (rank == last && what == 4)
            entries[0].json = "7";
        if (rank == last && what == 5)
            s.ranges[0].name = "\xfe";
        weir_status status = weir_ckpt_save(ckpt, &content, &err);
        CHECK(status == expect[what] && err.status == status && err.message[0], "case %d: %s, %s", what,
              weir_status_name(status), err.message);
        CHECK(what == 3 || err.rank == last, "case %d names rank %d: %s", what, err.rank, err.message);
        s.ranges[0] = was;
    }
    OK(weir_ckpt_close(ckpt));
    state_free(&s);
    weir_ckpt_source *source;
    weir_error err = {0};
    ckpt = open_folder(&wr_ckpt_fs_posix, folder);
    CHECK(weir_ckpt_resume(ckpt, 77, &source, &err) == WEIR_ERR_NOT_FOUND && err.message[0], "%s", err.message);
    OK(weir_ckpt_close(ckpt));
}

/* ---- a rank is killed in the middle of a save ---- */

static int strikes;

static ssize_t lethal_pwrite(const struct wr_ckpt_fs *fs, int fd, const void *data, size_t len, off_t at)
{
    (void)fs;
    if (--strikes == 0)
        _exit(9);
    return wr_ckpt_fs_posix.pwrite(&wr_ckpt_fs_posix, fd, data, len, at);
}

static int lethal_sync(const struct wr_ckpt_fs *fs, int fd, const char *path)
{
    (void)fs;
    if (--strikes == 0)
        _exit(9);
    return wr_ckpt_fs_posix.sync(&wr_ckpt_fs_posix, fd, path);
}

static void lost(const char *folder, int operation)
{
    struct wr_ckpt_fs fs = wr_ckpt_fs_posix;
    struct state s;
    weir_ckpt_entry entries[2];
    char key[32];
    weir_error err = {0};
    strikes = rank == size - 1 ? operation : 0;
    fs.pwrite = lethal_pwrite;
    fs.sync = lethal_sync;
    weir_ckpt *ckpt = open_folder(&fs, folder);
    state_make(&s, 2);
    weir_ckpt_content content = content_of(&s, entries, key, 2);
    weir_status status = weir_ckpt_save(ckpt, &content, &err);
    CHECK(status == WEIR_ERR_PEER_LOST && err.rank == size - 1, "%s: %s", weir_status_name(status), err.message);
    weir_ckpt_close(ckpt);
    state_free(&s);
    printf("PASS: rank %d goes on\n", rank);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *folder = argv[1], *what = argv[2];
    int number = argc > 3 ? atoi(argv[3]) : 0;
    start();
    if (!strcmp(what, "save") || !strcmp(what, "background"))
        save(folder, (uint64_t)number, what[0] == 'b');
    else if (!strcmp(what, "load"))
        load(folder, (uint64_t)number);
    else if (!strcmp(what, "refuse"))
        refuse(folder);
    else
        lost(folder, number);
    finish(what);
    return 0;
}
