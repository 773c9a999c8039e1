/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A folder of checkpoints that ranks save to. Every save runs in a thread of its own, also one that is waited for at once: signals that
 * the disk causes (SIGXFSZ) then do not end the program.
 */
#include "optim/ckpt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct weir_ckpt {
    const struct wr_ckpt_fs *fs;
    struct wr_ckpt_ranks ranks;
    char folder[WR_CKPT_PATH];
    uint64_t keep;
    /* the save that is under way */
    bool running; /* the thread is to be joined */
    pthread_t thread;
    atomic_bool done;
    struct wr_ckpt_job *job;
    struct wr_ckpt_job failed; /* stands in for one that could not be made */
    weir_error error;          /* of the last save in the background, until somebody asks */
};

/* ---- opening and closing ---- */

static weir_status read_options(const weir_ckpt_options *options, uint64_t *keep, weir_error *err)
{
    weir_ckpt_options o = WEIR_CKPT_OPTIONS_INIT;
    if (options && (options->size < sizeof o.size || options->size > 4096))
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_CKPT_OPTIONS_INIT",
                            "options with a size that cannot be");
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    if (o.flags)
        return wr_error_set(err, WEIR_ERR_INVALID, "flags must be 0", "options with flags that are not known");
    *keep = o.keep;
    return WEIR_OK;
}

/* What rank 0 decides for all. */
struct opening {
    weir_error error;
    uint64_t keep;
    char folder[WR_CKPT_PATH];
};

static void decide(const struct wr_ckpt_fs *fs, const char *folder, const weir_ckpt_options *options, struct opening *o)
{
    if (read_options(options, &o->keep, &o->error) != WEIR_OK)
        return;
    if (!folder || !*folder || strlen(folder) >= sizeof o->folder - 128) {
        wr_error_set(&o->error, WEIR_ERR_INVALID, "give the path of a folder",
                     "a folder with a path of no or too many bytes");
        return;
    }
    memcpy(o->folder, folder, strlen(folder) + 1);
    if (wr_ckpt_make_folder(fs, folder, &o->error) == WEIR_OK)
        wr_error_clear(&o->error);
}

static weir_status open_folder(weir_ckpt *ckpt, const char *folder, const weir_ckpt_options *options, weir_error *err)
{
    struct opening *o = calloc(1, sizeof *o);
    weir_error mine;
    wr_error_clear(&mine);
    if (!o || (ckpt->ranks.rank == 0 && !(ckpt->ranks.all = calloc((size_t)ckpt->ranks.size, WR_CKPT_PER_RANK))))
        wr_error_memory(&mine, (size_t)ckpt->ranks.size * WR_CKPT_PER_RANK, "a folder of checkpoints");
    if (mine.status == WEIR_OK) {
        wr_error_clear(&o->error);
        if (ckpt->ranks.rank == 0)
            decide(ckpt->fs, folder, options, o);
        mine.status = wr_ckpt_share(&ckpt->ranks, o, sizeof *o, &mine);
        if (mine.status == WEIR_OK)
            mine = o->error;
    }
    if (mine.status == WEIR_OK) {
        ckpt->keep = o->keep;
        memcpy(ckpt->folder, o->folder, sizeof ckpt->folder);
    } else if (err) {
        *err = mine;
    }
    free(o);
    return mine.status;
}

weir_status wr_ckpt_open(const struct wr_ckpt_fs *fs, weir_comm *comm, const char *folder,
                         const weir_ckpt_options *options, weir_ckpt **ckpt, weir_error *err)
{
    weir_ckpt *made = calloc(1, sizeof *made);
    if (!made)
        return wr_error_memory(err, sizeof *made, "a folder of checkpoints");
    made->fs = fs;
    made->ranks.size = 1;
    wr_error_clear(&made->error);
    weir_status status = comm ? weir_comm_dup(comm, &made->ranks.comm) : WEIR_OK;
    if (status != WEIR_OK) {
        if (err)
            *err = *weir_last_error(weir_comm_ctx(comm));
        free(made);
        return status;
    }
    if (comm) {
        made->ranks.rank = weir_comm_rank(made->ranks.comm);
        made->ranks.size = weir_comm_size(made->ranks.comm);
    }
    status = open_folder(made, folder, options, err);
    if (status != WEIR_OK)
        weir_ckpt_close(made);
    else
        *ckpt = made;
    return status;
}

weir_status weir_ckpt_open(weir_comm *comm, const char *folder, const weir_ckpt_options *options, weir_ckpt **ckpt,
                           weir_error *error)
{
    weir_status status = ckpt ? wr_ckpt_open(&wr_ckpt_fs_posix, comm, folder, options, ckpt, error)
                              : wr_error_set(error, WEIR_ERR_INVALID, NULL, "no place for what is opened");
    if (status != WEIR_OK && error)
        wr_error_operation(error, "weir_ckpt_open");
    return status;
}

weir_status weir_ckpt_close(weir_ckpt *ckpt)
{
    if (!ckpt)
        return WEIR_OK;
    weir_status status = weir_ckpt_wait(ckpt, NULL);
    weir_comm_free(ckpt->ranks.comm);
    free(ckpt->ranks.all);
    free(ckpt);
    return status;
}

const struct wr_ckpt_ranks *wr_ckpt_ranks_of(const weir_ckpt *ckpt)
{
    return &ckpt->ranks;
}

/* ---- saving ---- */

static void run_job(weir_ckpt *ckpt)
{
    weir_error err;
    wr_error_clear(&err);
    err.status = wr_ckpt_run(ckpt->fs, &ckpt->ranks, ckpt->folder, ckpt->keep, ckpt->job, &err);
    if (err.status != WEIR_OK) {
        wr_error_operation(&err, "weir_ckpt_save");
        ckpt->error = err;
    }
    atomic_store(&ckpt->done, true);
}

static void *thread_main(void *arg)
{
    run_job(arg);
    return NULL;
}

/* Starts the save; without a thread it is made here and now, for the others count on it. */
static void start(weir_ckpt *ckpt)
{
    sigset_t all, before;
    atomic_store(&ckpt->done, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ckpt->running = !pthread_create(&ckpt->thread, NULL, thread_main, ckpt);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!ckpt->running)
        run_job(ckpt);
}

/* Waits for the save that is under way; its failure stays in ckpt->error. */
static void join(weir_ckpt *ckpt)
{
    if (ckpt->running)
        pthread_join(ckpt->thread, NULL);
    ckpt->running = false;
    if (ckpt->job != &ckpt->failed)
        wr_ckpt_job_free(ckpt->job);
    ckpt->job = NULL;
}

static weir_status report(weir_ckpt *ckpt, weir_error *error)
{
    weir_status status = ckpt->error.status;
    if (status != WEIR_OK && error)
        *error = ckpt->error;
    wr_error_clear(&ckpt->error);
    return status;
}

/* Waits for the save before, and starts this one. Returns a failure of this rank. */
static weir_status begin(weir_ckpt *ckpt, const weir_ckpt_content *content, bool copy, weir_error *error)
{
    weir_error err;
    wr_error_clear(&err);
    err.status = wr_ckpt_job_create(content, copy, &ckpt->job, &err);
    if (err.status != WEIR_OK) {
        wr_error_operation(&err, "weir_ckpt_save");
        ckpt->failed.error = err;
        ckpt->job = &ckpt->failed;
        if (error)
            *error = err;
    }
    start(ckpt);
    return err.status;
}

weir_status weir_ckpt_isave(weir_ckpt *ckpt, const weir_ckpt_content *content, weir_error *error)
{
    if (!ckpt)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no folder of checkpoints");
    weir_status status = weir_ckpt_wait(ckpt, error);
    return status == WEIR_OK ? begin(ckpt, content, !content || !(content->flags & WEIR_CKPT_STABLE), error) : status;
}

weir_status weir_ckpt_save(weir_ckpt *ckpt, const weir_ckpt_content *content, weir_error *error)
{
    if (!ckpt)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no folder of checkpoints");
    weir_status status = weir_ckpt_wait(ckpt, error);
    if (status != WEIR_OK)
        return status;
    begin(ckpt, content, false, error);
    return weir_ckpt_wait(ckpt, error);
}

weir_status weir_ckpt_test(weir_ckpt *ckpt, weir_error *error)
{
    if (ckpt && ckpt->running && !atomic_load(&ckpt->done))
        return WEIR_IN_PROGRESS;
    return weir_ckpt_wait(ckpt, error);
}

weir_status weir_ckpt_wait(weir_ckpt *ckpt, weir_error *error)
{
    if (!ckpt)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no folder of checkpoints");
    join(ckpt);
    return report(ckpt, error);
}

/* ---- resuming ---- */

weir_status weir_ckpt_resume(weir_ckpt *ckpt, uint64_t step, weir_ckpt_source **source, weir_error *error)
{
    struct {
        weir_error error;
        struct wr_ckpt_name name;
    } chosen;
    weir_ckpt_source *made = NULL;
    weir_error err;
    char path[WR_CKPT_PATH];
    if (!ckpt || !source)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no folder of checkpoints, or no place for the source");
    join(ckpt);
    memset(&chosen, 0, sizeof chosen);
    wr_error_clear(&chosen.error);
    wr_error_clear(&err);
    if (ckpt->ranks.rank == 0 && wr_ckpt_choose(ckpt->folder, step, &chosen.name, &chosen.error) == WEIR_OK)
        wr_error_clear(&chosen.error);
    weir_status status = wr_ckpt_share(&ckpt->ranks, &chosen, sizeof chosen, &err);
    if (status == WEIR_OK && chosen.error.status != WEIR_OK) {
        err = chosen.error;
        status = err.status;
    } else if (status == WEIR_OK) {
        if (wr_ckpt_path(path, ckpt->folder, chosen.name.name, &err) == WEIR_OK)
            weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &made, &err);
        status = wr_ckpt_agree(&ckpt->ranks, &err);
    }
    if (status == WEIR_OK) {
        *source = made;
        return status;
    }
    weir_ckpt_source_close(made);
    wr_error_operation(&err, "weir_ckpt_resume");
    if (error)
        *error = err;
    return status;
}
