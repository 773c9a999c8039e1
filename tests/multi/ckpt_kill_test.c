/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A save of several ranks that is killed: what was committed last is whole, and the next save goes through.
 *
 * ckpt_kill_test FOLDER every: each rank in turn does nothing any more from its n-th operation of the disk on, for all n, which leaves
 *     the disk as its death does; the others live on and save again.
 * ckpt_kill_test FOLDER kill RANK N: that rank is killed there; ckpt_kill_test FOLDER check: afterwards.
 */
#include "tests/multi/multi.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "optim/ckpt.h"

enum { PART = 5000, KEEP = 2 };

/* The disk of a rank that comes to its end. */
struct disk {
    int count, at; /* operations so far; the first one that is not done; 0: all are */
    bool dies;     /* in truth */
};

static weir_error err;

static bool stopped(const struct wr_ckpt_fs *fs)
{
    struct disk *d = fs->arg;
    d->count++;
    if (!d->at || d->count < d->at)
        return false;
    if (d->dies)
        kill(getpid(), SIGKILL);
    errno = EIO;
    return true;
}

static int disk_create(const struct wr_ckpt_fs *fs, const char *path)
{
    return stopped(fs) ? -1 : wr_ckpt_fs_posix.create(fs, path);
}

static ssize_t disk_pwrite(const struct wr_ckpt_fs *fs, int fd, const void *data, size_t len, off_t at)
{
    const struct disk *d = fs->arg;
    if (d->count + 1 == d->at && len > 1 && wr_ckpt_fs_posix.pwrite(fs, fd, data, len / 2, at) < 0) /* half of it arrives */
        return -1;
    return stopped(fs) ? -1 : wr_ckpt_fs_posix.pwrite(fs, fd, data, len, at);
}

static int disk_sync(const struct wr_ckpt_fs *fs, int fd, const char *path)
{
    return stopped(fs) ? -1 : wr_ckpt_fs_posix.sync(fs, fd, path);
}

static int disk_rename(const struct wr_ckpt_fs *fs, const char *from, const char *to)
{
    return stopped(fs) ? -1 : wr_ckpt_fs_posix.rename(fs, from, to);
}

static int disk_mkdir(const struct wr_ckpt_fs *fs, const char *path)
{
    return stopped(fs) ? -1 : wr_ckpt_fs_posix.mkdir(fs, path);
}

static int disk_remove(const struct wr_ckpt_fs *fs, const char *path)
{
    return stopped(fs) ? -1 : wr_ckpt_fs_posix.remove(fs, path);
}

static float value_of(uint64_t step, uint64_t i)
{
    return (float)(step * 1000 + i % 997);
}

/* Each rank has a part of one tensor. */
static weir_status save(weir_ckpt *ckpt, uint64_t step)
{
    static float part[PART];
    const uint64_t shape[1] = {(uint64_t)size * PART};
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    weir_ckpt_content content = WEIR_CKPT_CONTENT_INIT;
    for (uint64_t i = 0; i < PART; i++)
        part[i] = value_of(step, (uint64_t)rank * PART + i);
    tensor.name = "model";
    tensor.ndims = 1;
    tensor.shape = shape;
    tensor.first = (uint64_t)rank * PART;
    tensor.count = PART;
    tensor.data = part;
    content.step = step;
    content.tensors = &tensor;
    content.ntensors = 1;
    return weir_ckpt_save(ckpt, &content, &err);
}

/* What is in a checkpoint. Returns its step. */
static uint64_t check_one(const char *path, const char *when)
{
    float *all = malloc(sizeof(float) * PART * (size_t)size);
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    weir_ckpt_info info = {.size = sizeof info};
    weir_ckpt_source *source;
    CHECK(weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &source, &err) == WEIR_OK, "%s: %s", when, err.message);
    OK(weir_ckpt_source_info(source, &info));
    tensor.name = "model";
    tensor.count = (uint64_t)size * PART;
    tensor.data = all;
    CHECK(weir_ckpt_source_read(source, &tensor, 1, &err) == WEIR_OK, "%s: %s", when, err.message);
    for (uint64_t i = 0; i < tensor.count; i++)
        CHECK(all[i] == value_of(info.step, i), "%s: element %d of step %d is %g", when, (int)i, (int)info.step, all[i]);
    weir_ckpt_source_close(source);
    free(all);
    return info.step;
}

/* Rank 0: everything that says that it is committed is whole. All get the step of the last one. */
static uint64_t check_all(const char *folder, const char *when)
{
    weir_ckpt_info infos[8];
    uint64_t latest = 0;
    size_t n = 0;
    for (size_t i = 0; i < 8; i++)
        infos[i].size = sizeof *infos;
    if (rank == 0) {
        CHECK(weir_ckpt_list(folder, infos, 8, &n, &err) == WEIR_OK && n <= 8, "%s: %s", when, err.message);
        for (size_t i = 0; i < n; i++) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s", folder, infos[i].name);
            if (infos[i].complete)
                CHECK(check_one(path, when) == infos[i].step, "%s: the step", when);
        }
        latest = check_one(folder, when);
    }
    OK(weir_bcast(comm, &latest, 1, WEIR_UINT64, 0));
    return latest;
}

static weir_ckpt *open_disk(const struct wr_ckpt_fs *fs, const char *folder)
{
    weir_ckpt_options options = WEIR_CKPT_OPTIONS_INIT;
    weir_ckpt *ckpt;
    options.keep = KEEP;
    CHECK(wr_ckpt_open(fs, comm, folder, &options, &ckpt, &err) == WEIR_OK, "%s", err.message);
    return ckpt;
}

/* Operations that were tried, over all victims. */
static int every(weir_ckpt *good, weir_ckpt *bad, struct disk *d, const char *folder)
{
    uint64_t step = 1;
    int tried = 0;
    CHECK(save(good, step) == WEIR_OK, "%s", err.message);
    for (int victim = 0; victim < size; victim++)
        for (int reached = 1, n = 1; reached; n++) {
            char when[64];
            snprintf(when, sizeof when, "rank %d, operation %d", victim, n);
            *d = (struct disk){.at = rank == victim ? n : 0};
            weir_status status = save(bad, step + 1);
            reached = d->at && d->count >= d->at;
            OK(weir_bcast(comm, &reached, 1, WEIR_INT32, victim));
            uint64_t latest = check_all(folder, when);
            CHECK(latest == step + 1 || (latest == step && status != WEIR_OK), "%s: step %d is left, of %d", when, (int)latest, (int)step);
            CHECK(reached || status == WEIR_OK, "%s: %s", when, err.message);
            step += 2;
            CHECK(save(good, step) == WEIR_OK, "%s, the next save: %s", when, err.message);
            CHECK(check_all(folder, when) == step, "%s: the next save", when);
            tried += reached;
        }
    return tried;
}

int main(int argc, char **argv)
{
    struct disk d = {0};
    struct wr_ckpt_fs fs = {disk_create, disk_pwrite, disk_sync, disk_rename, disk_mkdir, disk_remove, &d};
    if (argc < 3)
        return 2;
    start();
    weir_ckpt *good = open_disk(&wr_ckpt_fs_posix, argv[1]), *bad = open_disk(&fs, argv[1]);
    if (!strcmp(argv[2], "every")) {
        int tried = every(good, bad, &d, argv[1]);
        CHECK(tried >= 30, "%d operations", tried);
        if (rank == 0)
            printf("%d operations of %d ranks\n", tried, size);
    } else if (!strcmp(argv[2], "kill") && argc == 5) {
        CHECK(save(good, 1) == WEIR_OK, "%s", err.message);
        d = (struct disk){.at = rank == atoi(argv[3]) ? atoi(argv[4]) : 0, .dies = true};
        save(bad, 2);
    } else {
        uint64_t latest = check_all(argv[1], "after a kill");
        CHECK(latest == 1 || latest == 2, "step %d is left", (int)latest);
        CHECK(save(good, 3) == WEIR_OK && check_all(argv[1], "after a kill") == 3, "%s", err.message);
    }
    OK(weir_ckpt_close(bad));
    OK(weir_ckpt_close(good));
    finish(argv[2]);
    return 0;
}
