/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank comes late to a collective call. usage: overdue_test warn|error barrier|ibarrier|any|first|ifirst|alloc SECONDS. With `warn` the call
 * succeeds in the end (the log is looked at by the script); with `error` (WEIR_TIMEOUT is set) the others get WEIR_ERR_TIMEOUT that
 * names the late rank and its last call, and nothing can be called on the communicator any more.
 */
#include <unistd.h>

#include "tests/multi/multi.h"

static weir_status late_call(const char *what)
{
    weir_request *r = NULL;
    weir_mem *mem = NULL;
    float in[9] = {0}, out[9];
    if (!strcmp(what, "barrier"))
        return weir_barrier(comm);
    if (!strcmp(what, "first")) /* of its kind: the ranks wait for each other to make the plan */
        return weir_allreduce(comm, in, out, 9, WEIR_FP32, WEIR_MAX);
    if (!strcmp(what, "ifirst")) { /* the same, of a started call that needs a plan */
        static float many[2][20000];
        weir_status status = weir_iallreduce(comm, many[0], many[1], 20000, WEIR_FP32, WEIR_MAX, &r);
        return status ? status : weir_wait(&r);
    }
    if (!strcmp(what, "ibarrier")) {
        weir_status status = weir_ibarrier(comm, &r);
        return status ? status : weir_wait(&r);
    }
    if (!strcmp(what, "any")) { /* of a message that does not come for now, and a barrier */
        weir_request *two[3] = {NULL};
        size_t i = 0;
        OK(weir_irecv(comm, NULL, 0, rank, 5, NULL, &two[1]));
        OK(weir_ibarrier(comm, &two[2]));
        weir_status status = weir_waitany(3, two, &i);
        CHECK(i == 2 && !two[2] && two[1], "waitany gave %zu", i);
        OK(weir_send(comm, NULL, 0, rank, 5));
        OK(weir_wait(&two[1]));
        return status;
    }
    weir_status status = weir_mem_alloc(comm, 4096, 0, &mem);
    return status ? status : weir_mem_free(mem);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    bool error = !strcmp(argv[1], "error");
    int32_t in = 1, out;
    start();
    OK(weir_barrier(comm));
    OK(weir_allreduce(comm, &in, &out, 1, WEIR_INT32, WEIR_SUM));
    int late = size - 1;
    if (rank == late)
        usleep((useconds_t)(atof(argv[3]) * 1e6));
    weir_status status = late_call(argv[2]);
    const weir_error *err = weir_last_error(ctx);
    if (error && rank != late) {
        CHECK(status == WEIR_ERR_TIMEOUT, "the wait gave %s", weir_status_name(status));
        CHECK(err->rank == late && err->host[0], "the error names rank %d on '%s'", err->rank, err->host);
        CHECK(strstr(err->message, "has not come") && strstr(err->message, "allreduce of 1 int32, sum"), "the error says");
        CHECK(weir_barrier(comm) == WEIR_ERR_TIMEOUT, "a call after the error");
        usleep(200000);
    } else if (!error) {
        OK(status);
        OK(weir_barrier(comm));
    }
    if (rank == 0)
        printf("PASS: %s, %s, %d ranks: %s\n", argv[1], argv[2], size, err->message);
    weir_finalize(ctx); /* after an error the ranks do not leave together */
    return 0;
}
