/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A save, step by step: rank 0 hears what all have, checks that it makes whole tensors and makes the folder; all write; rank 0 hears
 * that all have written, and commits. Nothing of a checkpoint is believed before the last step.
 */
#include "optim/ckpt.h"

#include <stdlib.h>
#include <string.h>

#include <weir/coll.h>
#include <weir/coll_v.h>

#include "base/clock.h"
#include "base/error.h"

/* A failure of the communication. */
static weir_status comm_error(const struct wr_ckpt_ranks *ranks, weir_status status, weir_error *err)
{
    if (status != WEIR_OK && err)
        *err = *weir_last_error(weir_comm_ctx(ranks->comm));
    return status;
}

weir_status wr_ckpt_share(const struct wr_ckpt_ranks *ranks, void *data, size_t len, weir_error *err)
{
    return ranks->comm ? comm_error(ranks, weir_bcast(ranks->comm, data, len, WEIR_UINT8, 0), err) : WEIR_OK;
}

/* Rank 0 gets an object of each rank into ranks->all. */
static weir_status collect(const struct wr_ckpt_ranks *ranks, const void *one, size_t len, weir_error *err)
{
    if (ranks->comm)
        return comm_error(ranks, weir_gather(ranks->comm, one, ranks->all, len, WEIR_UINT8, 0), err);
    memcpy(ranks->all, one, len);
    return WEIR_OK;
}

/* The first failure among the collected objects, which begin with their rank's weir_error. */
static void first_failure(const struct wr_ckpt_ranks *ranks, size_t len, weir_error *error)
{
    for (int rank = 0; rank < ranks->size; rank++) {
        const weir_error *one = (const void *)((const char *)ranks->all + (size_t)rank * len);
        if (one->status == WEIR_OK)
            continue;
        *error = *one;
        if (error->rank < 0 && ranks->comm)
            wr_error_at(error, rank, NULL);
        return;
    }
}

weir_status wr_ckpt_agree(const struct wr_ckpt_ranks *ranks, weir_error *error)
{
    weir_error failed;
    if (!ranks->comm)
        return error->status;
    wr_error_clear(&failed);
    weir_status status = collect(ranks, error, sizeof *error, &failed);
    if (status == WEIR_OK && ranks->rank == 0)
        first_failure(ranks, sizeof failed, &failed);
    if (status == WEIR_OK)
        status = wr_ckpt_share(ranks, &failed, sizeof failed, &failed);
    *error = failed;
    return status == WEIR_OK ? failed.status : status;
}

/* ---- the first step: what all have ---- */

struct intro {
    weir_error error; /* of a rank that cannot save */
    uint64_t len;     /* bytes of its description */
};

_Static_assert(sizeof(struct intro) <= WR_CKPT_PER_RANK, "ranks->all is too small");

struct plan {
    struct wr_ckpt_index index; /* at rank 0 */
    char name[64];              /* of the checkpoint's folder */
};

/* Rank 0: merges the descriptions, which stand one after the other. */
static weir_status merge(const struct wr_ckpt_ranks *ranks, const char *text, struct plan *plan, weir_error *err)
{
    const struct intro *intros = ranks->all;
    const char **texts = calloc((size_t)ranks->size, sizeof *texts);
    uint64_t *lens = calloc((size_t)ranks->size, sizeof *lens);
    weir_status status;
    if (texts && lens) {
        for (int rank = 0; rank < ranks->size; rank++) {
            texts[rank] = text;
            lens[rank] = intros[rank].len;
            text += lens[rank];
        }
        status = wr_ckpt_index_merge(texts, lens, ranks->size, &plan->index, err);
    } else {
        status = wr_error_memory(err, (size_t)ranks->size * 16, "the index of a checkpoint");
    }
    free(texts);
    free(lens);
    return status;
}

/* Brings the descriptions to rank 0. */
static weir_status collect_texts(const struct wr_ckpt_ranks *ranks, const struct wr_ckpt_job *job, char **text,
                                 weir_error *err)
{
    const struct intro *intros = ranks->all;
    uint64_t *counts = NULL, *offsets = NULL, total = 0;
    weir_status status = WEIR_OK;
    if (ranks->rank == 0) {
        counts = calloc((size_t)ranks->size, sizeof *counts);
        offsets = calloc((size_t)ranks->size, sizeof *offsets);
        for (int rank = 0; counts && offsets && rank < ranks->size; rank++) {
            offsets[rank] = total;
            counts[rank] = intros[rank].len;
            total += counts[rank];
        }
        *text = malloc(total + 1);
        if (!counts || !offsets || !*text)
            status = wr_error_memory(err, total, "the descriptions of a checkpoint's parts");
    }
    weir_error mine;
    wr_error_clear(&mine);
    if (status != WEIR_OK && err)
        mine = *err;
    mine.status = status;
    status = wr_ckpt_share(ranks, &mine, sizeof mine, err); /* all go on, or none */
    if (status == WEIR_OK && mine.status != WEIR_OK) {
        status = mine.status;
        if (err)
            *err = mine;
    }
    if (status == WEIR_OK && ranks->comm)
        status = comm_error(ranks,
                            weir_gatherv(ranks->comm, job->description, job->description_len, *text, counts, offsets,
                                         WEIR_UINT8, 0),
                            err);
    else if (status == WEIR_OK && job->description)
        memcpy(*text, job->description, job->description_len);
    free(counts);
    free(offsets);
    return status;
}

/* All: rank 0 knows what there is, and the folder is made. */
static weir_status make_plan(const struct wr_ckpt_fs *fs, const struct wr_ckpt_ranks *ranks, const char *folder,
                             const struct wr_ckpt_job *job, struct plan *plan, weir_error *err)
{
    struct intro mine;
    struct {
        weir_error error;
        char name[64];
    } verdict;
    char *text = NULL;
    memset(&mine, 0, sizeof mine);
    mine.error = job->error;
    mine.len = job->description_len;
    wr_error_clear(&verdict.error);
    memset(verdict.name, 0, sizeof verdict.name);
    weir_status status = collect(ranks, &mine, sizeof mine, err);
    if (status == WEIR_OK)
        status = collect_texts(ranks, job, &text, err);
    if (status == WEIR_OK && ranks->rank == 0) {
        first_failure(ranks, sizeof mine, &verdict.error);
        if (verdict.error.status == WEIR_OK && merge(ranks, text, plan, &verdict.error) == WEIR_OK &&
            wr_ckpt_begin(fs, folder, plan->index.step, verdict.name, &verdict.error) == WEIR_OK)
            wr_error_clear(&verdict.error);
    }
    free(text);
    if (status == WEIR_OK)
        status = wr_ckpt_share(ranks, &verdict, sizeof verdict, err);
    if (status != WEIR_OK)
        return status;
    memcpy(plan->name, verdict.name, sizeof plan->name);
    if (verdict.error.status != WEIR_OK && err)
        *err = verdict.error;
    return verdict.error.status;
}

/* ---- the second: all write ---- */

struct outcome {
    weir_error error;
    uint64_t bytes, header_sum; /* of the shard; 0 bytes: none */
};

_Static_assert(sizeof(struct outcome) <= WR_CKPT_PER_RANK, "ranks->all is too small");

/* Elements that are not in memory pass through a buffer. */
static weir_status put_fetched(struct wr_st_writer *writer, const struct wr_st_tensor *piece, weir_error *err)
{
    uint64_t width = piece->dtype->bytes, most = WR_CKPT_CHUNK / width;
    void *some = malloc(WR_CKPT_CHUNK);
    weir_status status = some ? WEIR_OK : wr_error_memory(err, WR_CKPT_CHUNK, "a buffer");
    for (uint64_t at = 0, n; status == WEIR_OK && at < piece->count; at += n) {
        n = piece->count - at < most ? piece->count - at : most;
        status = piece->fetch(piece->user, at, n, some, err);
        if (status == WEIR_OK)
            status = wr_st_put(writer, some, n * width, err);
    }
    free(some);
    return status;
}

static weir_status write_shard(const struct wr_ckpt_fs *fs, const struct wr_ckpt_ranks *ranks, const char *path,
                               struct wr_ckpt_job *job, struct outcome *outcome)
{
    char name[WR_CKPT_FILE_NAME], file[WR_CKPT_PATH];
    struct wr_st_writer *writer;
    weir_error *err = &outcome->error;
    if (!job->n)
        return WEIR_OK;
    wr_ckpt_shard_name(ranks->rank, ranks->size, name);
    weir_status status = wr_ckpt_path(file, path, name, err);
    if (status == WEIR_OK)
        status = wr_st_create(fs, file, job->pieces, job->n, true, &writer, err);
    if (status != WEIR_OK)
        return status;
    for (size_t i = 0; status == WEIR_OK && i < job->n; i++)
        status = job->pieces[i].data ? wr_st_put(writer, job->pieces[i].data, job->pieces[i].count * job->pieces[i].dtype->bytes, err)
                                     : put_fetched(writer, &job->pieces[i], err);
    if (status != WEIR_OK) {
        wr_st_abandon(writer);
        return status;
    }
    status = wr_st_finish(writer, &outcome->bytes, &outcome->header_sum, err);
    return status == WEIR_OK ? wr_ckpt_sync_folder(fs, path, err) : status;
}

/* ---- the third: rank 0 commits ---- */

static weir_status commit(const struct wr_ckpt_fs *fs, const struct wr_ckpt_ranks *ranks, const char *path,
                          struct wr_ckpt_index *index, weir_error *err)
{
    const struct outcome *outcomes = ranks->all;
    size_t shard = 0;
    first_failure(ranks, sizeof *outcomes, err);
    if (err->status != WEIR_OK)
        return err->status;
    for (int rank = 0; rank < ranks->size; rank++) {
        if (!outcomes[rank].bytes)
            continue;
        index->shards[shard].bytes = outcomes[rank].bytes;
        index->shards[shard++].header_sum = outcomes[rank].header_sum;
    }
    index->saved = wr_clock_wall_ns() / 1000000000;
    return wr_ckpt_commit(fs, path, index, err);
}

/* All: writes, and hears how it went. */
static weir_status carry_out(const struct wr_ckpt_fs *fs, const struct wr_ckpt_ranks *ranks, const char *folder,
                             struct wr_ckpt_job *job, struct plan *plan, weir_error *err)
{
    char path[WR_CKPT_PATH];
    struct outcome mine;
    weir_error verdict;
    memset(&mine, 0, sizeof mine);
    wr_error_clear(&mine.error);
    wr_error_clear(&verdict);
    if (wr_ckpt_path(path, folder, plan->name, &mine.error) == WEIR_OK)
        write_shard(fs, ranks, path, job, &mine);
    weir_status status = collect(ranks, &mine, sizeof mine, err);
    if (status != WEIR_OK)
        return status;
    if (ranks->rank == 0 && commit(fs, ranks, path, &plan->index, &verdict) != WEIR_OK)
        wr_ckpt_discard(fs, folder, plan->name);
    status = wr_ckpt_share(ranks, &verdict, sizeof verdict, err);
    if (status != WEIR_OK)
        return status;
    if (verdict.status != WEIR_OK && err)
        *err = verdict;
    return verdict.status;
}

weir_status wr_ckpt_run(const struct wr_ckpt_fs *fs, const struct wr_ckpt_ranks *ranks, const char *folder,
                        uint64_t keep, struct wr_ckpt_job *job, weir_error *err)
{
    struct plan plan;
    memset(&plan, 0, sizeof plan);
    weir_status status = make_plan(fs, ranks, folder, job, &plan, err);
    if (status == WEIR_OK)
        status = carry_out(fs, ranks, folder, job, &plan, err);
    if (status == WEIR_OK && ranks->rank == 0)
        wr_ckpt_prune(fs, folder, plan.name, keep);
    wr_ckpt_index_free(&plan.index);
    return status;
}
