/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on a communicator: what a call asks for, the plans that are kept for it, and requests.
 *
 * A plan is made in the first call of its kind, collectively: all ranks compare what they called, and rank 0's choice of an
 * algorithm holds. Later calls of the same kind find it again. A blocking call, and one that makes a persistent request, waits
 * for the other ranks meanwhile; a started one never does: what it needs is set up by progress, see setup.c. Everything runs
 * with the engine's lock held.
 */
#ifndef WR_COLL_H
#define WR_COLL_H

#include <weir/coll.h>
#include <weir/coll_op.h>
#include <weir/coll_v.h>

#include "comm/coll/fast.h"
#include "comm/comm.h"
#include "comm/engine/request.h"
#include "comm/mem/steps.h"
#include "comm/plan/cost.h"
#include "comm/plan/exec.h"

/* One call. */
struct wr_coll_call {
    enum wr_collective coll;
    bool vector;    /* a v-form */
    const void *in; /* WEIR_IN_PLACE for in place */
    void *out;
    uint64_t count; /* elements */
    weir_type type;
    weir_op op;
    int root;
    const char *operation; /* "weir_allreduce": for errors */
    /* v-forms, as the caller has them, while the call is made: by rank; offsets may be NULL */
    const uint64_t *counts, *offsets;       /* alltoallv: of the output */
    const uint64_t *in_counts, *in_offsets; /* alltoallv */
};

/* api.c: checks a call and makes it; `request` is NULL for the blocking form. */
enum wr_coll_form { WR_COLL_BLOCKING, WR_COLL_STARTED, WR_COLL_PERSISTENT };
weir_status wr_coll_perform(weir_comm *comm, const struct wr_coll_call *call, enum wr_coll_form form,
                            weir_request **request);

/* Whether a collective combines elements. */
static inline bool wr_coll_combines(enum wr_collective coll)
{
    return coll == WR_COLL_REDUCE || coll == WR_COLL_ALLREDUCE || coll == WR_COLL_REDUCE_SCATTER ||
           coll == WR_COLL_SCAN || coll == WR_COLL_EXSCAN;
}

/* Whether only one rank has the whole input or output. */
static inline bool wr_coll_is_rooted(enum wr_collective coll)
{
    return coll == WR_COLL_BCAST || coll == WR_COLL_REDUCE || coll == WR_COLL_GATHER || coll == WR_COLL_SCATTER;
}

struct wr_coll_state;
struct wr_coll_plan;
struct wr_coll_pending;

weir_status wr_coll_create(weir_comm *comm, struct wr_coll_state **state, weir_error *err);
void wr_coll_destroy(struct wr_coll_state *state);

/* levels.c: those above the nodes, for state->topo, which has all else. */
weir_status wr_coll_make_levels(struct wr_coll_state *state, weir_error *err);

/* What makes two calls of one kind, and what all ranks must agree on. */
struct wr_coll_key {
    uint64_t count; /* v-forms: the sum of what all ranks know, else 0 */
    uint64_t hash;  /* of the counts that all ranks know, else 0 */
    int32_t coll, type, op, root;
    int16_t in_place; /* where all ranks must do the same */
    int16_t shared;   /* all-gather into a window of the node */
    int32_t vector;
};
struct wr_coll_key wr_coll_key(const weir_comm *comm, const struct wr_coll_call *call);

/* Where a call's IN and OUT begin at this rank, as its plan sees them. */
void wr_coll_addresses(const weir_comm *comm, const struct wr_coll_call *call, const struct wr_plan_spec *spec,
                       const void **in, void **out);
void wr_coll_describe(const struct wr_coll_key *key, char *buf, size_t size);

/* ---- agree.c ---- */

enum { WR_COLL_RECORDS = 64 }; /* latest calls that are remembered */
struct wr_coll_record {
    struct wr_coll_key key;
    int32_t form, unused;
};
struct wr_coll_early { /* at rank 0: a call that another rank is in already */
    uint64_t number_plus_one;
    struct wr_coll_record record;
};

/* Counts a call, before anything waits in it. */
void wr_coll_note(struct wr_coll_state *state, const struct wr_coll_call *call, enum wr_coll_form form);
/* How a form is told behind a call: " (started)", say; nothing for a blocking one. */
const char *wr_coll_form_text(enum wr_coll_form form);
void wr_coll_agree_progress(struct wr_coll_state *state);
/* Two ranks have made different calls of this number: nothing can be called any more, and all ranks learn why. */
void wr_coll_disagree(struct wr_coll_state *state, uint64_t number, int first, const struct wr_coll_record *first_record, int other,
                      const struct wr_coll_record *other_record);
void wr_coll_look_back(struct wr_coll_state *state);
/* A message of agreement has come from a rank; the first thing in it is the id of its communicator. */
void wr_coll_on_agree(struct wr_coll_state *state, int rank, const void *data, size_t len);

void wr_coll_progress(struct wr_coll_state *state);
/* A member (its world rank) is lost. */
void wr_coll_peer_lost(struct wr_coll_state *state, int peer);
/* Whether a plan could go on although no transport has anything: its signals on the node are plain stores. */
bool wr_coll_has_signals(const struct wr_coll_state *state);

/* What has been decided for a plan. */
struct wr_coll_choice {
    const struct wr_algorithm *algorithm;
    uint64_t chunk; /* elements; 0: the builder's default */
    int rails;      /* ranks a node that use the network at once; 0: all */
    bool asked;     /* by WEIR_ALGO */
    double predicted, bound; /* ns by the cost model, and what no plan can be below; 0: it could not tell */
    double weight;           /* where it is made: by what it was chosen, see choose.c */
};

/* A plan that serves one call at a time. */
struct wr_coll_instance {
    struct wr_exec *exec;
    struct wr_coll_choice choice;
    struct wr_coll_key key;
    bool timed;                /* somebody may ask how long executions take */
    uint64_t runs;             /* that were timed */
    int64_t begun, last, best; /* ns: of this rank, from start to end */
    struct wr_coll_numbers {
        uint64_t *counts, *offsets; /* what the plan's spec points to, in its elements; one piece of memory */
        size_t cap;
        struct wr_plan_pairs pairs;
        const uint64_t *places; /* allgatherv: where shares belong in the output; NULL: where the plan leaves them */
    } numbers;
    char *packed; /* where the plan leaves them then */
    uint64_t packed_bytes;
};

/* A request for a plan; not running yet. */
struct wr_coll_request;
weir_status wr_coll_request_new(struct wr_coll_state *state, const struct wr_coll_call *call,
                                struct wr_coll_instance *instance, bool persistent, struct wr_coll_request **request,
                                weir_error *err);
bool wr_coll_is_request(const struct weir_request *request);
void wr_coll_request_start(struct wr_coll_request *request);
/* Requests that the user holds. */
unsigned wr_coll_in_use(const struct wr_coll_state *state);

/* ---- overdue.c: waits that take long ---- */

/* What is known of a rank's calls. */
struct wr_coll_seen {
    bool answered;
    uint64_t steps, calls;
    struct wr_coll_record last;
    char doing[24]; /* instead of the last call, when not empty */
};

weir_status wr_coll_overdue(const struct wr_overdue *o, int64_t since, int64_t *next, weir_error *err);
/* A question, or an answer, has come from a rank; the first thing in it is the id of its communicator. */
void wr_coll_on_overdue(struct wr_coll_state *state, int rank, const void *data, size_t len);

/* ---- op.c ---- */

/* What combines elements of this type by this operation; false when nothing does. */
bool wr_coll_kernel(const weir_ctx *ctx, weir_type type, weir_op op, struct wr_kernel *kernel);
/* Bytes of its elements, 0 when there is no such operation of the user. */
size_t wr_coll_op_size(const weir_ctx *ctx, weir_op op);
/* Whether they must be combined in the order of ranks. */
bool wr_coll_op_ordered(const weir_ctx *ctx, weir_op op);

/* ---- numbers.c: the counts of v-forms ---- */

/* Whether the ranks know only the counts that concern them: then one plan serves all counts. */
static inline bool wr_coll_is_local(const struct wr_coll_call *call)
{
    return call->vector && (call->coll == WR_COLL_GATHER || call->coll == WR_COLL_SCATTER || call->coll == WR_COLL_ALLTOALL);
}

/* Checks counts and offsets: present, and below what 64 bits of bytes hold. */
weir_status wr_coll_check_numbers(const weir_comm *comm, const struct wr_coll_call *call, weir_error *err);
uint64_t wr_coll_hash_counts(const weir_comm *comm, const struct wr_coll_call *call, uint64_t *sum);

/* Sets the numbers of a call, and points the spec to them; `any`: some that are good for making a plan that serves all. */
weir_status wr_coll_set_numbers(const weir_comm *comm, const struct wr_coll_call *call, bool any,
                                struct wr_coll_numbers *numbers, struct wr_plan_spec *spec, weir_error *err);

/* ---- make.c: making a plan ---- */

/*
 * Begins to make the plan of a call, collectively, into an instance, which outlives it as the call does. `maps`: ranks may work in
 * each other's buffers, where those are registered. Of a local v-form the plan is made for any numbers, and those of the call are
 * still to be put in. When the steps have ended, wr_coll_made() completes the instance.
 */
struct wr_coll_making;
weir_status wr_coll_make(struct wr_coll_state *state, const struct wr_coll_call *call, enum wr_coll_form form, uint64_t number,
                         bool maps, struct wr_coll_instance *instance, struct wr_coll_making **making, weir_error *err);
struct wr_steps *wr_coll_making_steps(struct wr_coll_making *m);
/* Frees the object; `ok`: the steps have ended well. NULL is allowed. */
void wr_coll_made(struct wr_coll_making *m, bool ok);

/* Readies an instance that is not running for a v-form's numbers. */
weir_status wr_coll_bind_numbers(struct wr_coll_state *state, const struct wr_coll_call *call,
                                 struct wr_coll_instance *instance, weir_error *err);

/* The buffers of this time, for a plan that is kept. */
struct wr_coll_buffers {
    struct wr_exec_where where[WR_FAST_RANKS];
    struct weir_mem *in_mem, *out_mem;
    unsigned mapped; /* 0 where nothing was asked; else 1, 2 for a mapped IN, 4 for a mapped OUT */
};

/* The ranks of one node tell each other, in a blocking call, where their buffers are. */
weir_status wr_coll_find_buffers(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_buffers *b,
                                 weir_error *err);

/* ---- plans.c: keeping plans ---- */

/* The end of instances. */
struct wr_coll_ending {
    struct wr_steps steps;
    struct wr_coll_instance *instance;
    int n;
};

/* Getting a plan for a call: it is found, or made, and then waited for until it is idle. */
struct wr_coll_getting {
    struct wr_steps steps;
    struct wr_coll_state *state;
    const struct wr_coll_call *call;
    enum wr_coll_form form;
    uint64_t number; /* of the call */
    unsigned mapped; /* of its buffers */
    struct wr_coll_plan *plan;
    struct wr_coll_plan *leaving; /* makes room */
    struct wr_coll_ending ending; /* of that one */
    struct wr_coll_making *making;
    struct wr_coll_instance *instance; /* what comes of it */
};

/* Begins it; its object and the call outlive the steps. Collective, in the order of calls. */
struct wr_steps *wr_coll_get(struct wr_coll_getting *g, struct wr_coll_state *state, const struct wr_coll_call *call,
                             enum wr_coll_form form, uint64_t number, unsigned mapped);
/* The steps have failed or were given up. */
void wr_coll_get_failed(struct wr_coll_getting *g);

/* The instance for a started call when there is one that is idle; else NULL. */
struct wr_coll_instance *wr_coll_plan_ready(struct wr_coll_state *state, const struct wr_coll_call *call);

/* The plan for a blocking call; collective when it has to be made. */
weir_status wr_coll_plan_get(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_instance **instance,
                             weir_error *err);
/* A plan that belongs to a persistent request, and may use the buffers' registration; collective. */
weir_status wr_coll_plan_own(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_instance **instance,
                             weir_error *err);
/* Ends the plan of a persistent request; collective. NULL is allowed. */
weir_status wr_coll_instance_free(struct wr_coll_state *state, struct wr_coll_instance *instance, weir_error *err);

/* Frees the kept plans without a word to the other ranks; their memory goes with the memory layer. */
void wr_coll_forget_plans(struct wr_coll_state *state);
/* Frees them with their memory, collectively; waits for those that run. */
weir_status wr_coll_drop_plans(struct wr_coll_state *state, weir_error *err);
/* The same without a word to the other ranks, of whom one is lost. */
void wr_coll_abandon_plans(struct wr_coll_state *state);
/* A rank is lost: no kept plan can be used again. */
void wr_coll_break_plans(struct wr_coll_state *state);

/* ---- choose.c ---- */

/* One that rank 0 remembers. */
enum { WR_COLL_DECISIONS = 64 };
struct wr_coll_decision {
    uint64_t hash;
    struct wr_coll_choice choice;
};

/* The choice for a spec, as this rank would make it. */
weir_status wr_coll_choose(struct wr_coll_state *state, const struct wr_plan_spec *spec, struct wr_coll_choice *choice,
                           weir_error *err);

/* Deciding it, collectively. */
struct wr_coll_choice_card;
struct wr_coll_deciding {
    struct wr_steps steps;
    struct wr_coll_state *state;
    struct wr_plan_spec *spec;
    struct wr_coll_choice *choice;
    uint64_t hash;
    struct wr_coll_choice_card *cards; /* by rank */
};

/*
 * Begins it: in the end `choice` is rank 0's, and is put into the spec. WEIR_ERR_MISMATCH, at all ranks, when they would make
 * different plans of it. All of these outlive it; wr_coll_end_deciding() frees what it needed.
 */
struct wr_steps *wr_coll_decide(struct wr_coll_deciding *d, struct wr_coll_state *state, struct wr_plan_spec *spec,
                                struct wr_coll_choice *choice);
void wr_coll_end_deciding(struct wr_coll_deciding *d);

/* ---- setup.c: started calls that cannot run yet ---- */

/* Opens what the first call on a communicator sets up; collective, waits. */
weir_status wr_coll_open(struct wr_coll_state *state, weir_error *err);

/*
 * Puts a call, the latest one, behind those that are being set up; the request runs as soon as its plan is there. When that fails,
 * the request completes with the error.
 */
weir_status wr_coll_defer(struct wr_coll_request *request, const struct wr_coll_call *call, weir_error *err);

/* Goes on with the set-up of the first of them, for as long as nothing is waited for. */
void wr_coll_setup_progress(struct wr_coll_state *state);

/* What is kept of a request's set-up goes with it; NULL is allowed. */
void wr_coll_setup_free(struct wr_coll_pending *pending);
/* Frees what is left, without a word to the other ranks. */
void wr_coll_setup_destroy(struct wr_coll_state *state);

/* ---- explain.c ---- */

/* Around an execution of a plan that is timed. */
void wr_coll_begin_timed(struct wr_coll_instance *instance);
void wr_coll_end_timed(struct wr_coll_state *state, struct wr_coll_instance *instance);

/* In words: the call, what was chosen, what it should take and does. */
void wr_coll_explain(const struct wr_coll_state *state, const struct wr_coll_instance *instance, char *text, size_t size);

/* Whether WEIR_ALGO names an algorithm for a collective. */
weir_status wr_coll_algorithm_asked(const struct wr_coll_state *state, enum wr_collective coll, bool *asked, weir_error *err);

struct wr_coll_state {
    weir_comm *comm;
    struct wr_fast *fast; /* for small calls, NULL: there is none */
    bool opened;          /* the first call was made, which sets it up */
    struct wr_plan_topo topo;
    int *node_of, *local_rank, *node_size, **node_ranks, *node_rank_store;
    int *level_groups; /* groups of nodes above the node, level by level ... */
    const int **group_of; /* ... and where each begins */
    struct wr_cost cost; /* of steps, once it is known: at rank 0 */
    bool cost_known;
    struct wr_coll_decision decision[WR_COLL_DECISIONS];
    struct wr_list plans; /* kept ones, most recently used first */
    uint64_t plan_bytes;
    unsigned nplans;
    struct wr_list active; /* coll_request that are running */
    struct wr_list pending, failed; /* wr_coll_pending: that are being set up, in the order of calls; whose error is still to be told */
    struct wr_fast_opening *opening; /* the set-up of the first call, while it goes on */
    bool setting_up;                 /* a step runs, which may wait for a connection and lead here again */
    /* agreement */
    uint64_t calls; /* that were made */
    uint64_t hash;  /* of all of them */
    struct wr_coll_record record[WR_COLL_RECORDS];
    bool told;   /* rank 0 knows the latest */
    bool broken; /* the ranks do not agree: nothing can be called any more */
    unsigned looks;
    int64_t since, looked;
    struct wr_coll_early *early; /* at rank 0, by rank */
    int nearly;
    bool verdict_pending;
    int verdict_next;
    unsigned char verdict[176];
    struct wr_pool requests;
    /* waits */
    struct wr_overdue_state {
        int64_t since;  /* of the wait that is looked after */
        bool asked, warned;
        struct wr_coll_seen *seen; /* by rank; NULL until somebody was asked */
    } late;
    weir_error gave_up; /* a wait has timed out: nothing can be called any more */
};

struct wr_coll_request {
    struct weir_request request;
    struct wr_overdue overdue;
    struct wr_list link; /* in active */
    struct wr_coll_state *state;
    struct wr_coll_instance *instance;
    struct wr_exec *exec; /* the instance's; NULL: it goes the fast way */
    struct wr_fast_call fast;
    uint64_t hash; /* of all calls up to this one */
    struct wr_coll_call call;
    struct wr_coll_pending *pending; /* NULL: it is set up */
};

#endif
