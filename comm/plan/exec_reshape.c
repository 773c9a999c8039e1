/* SPDX-License-Identifier: BSD-3-Clause */
/* Other numbers for a plan: memory, flags and counters stay, the program is built anew. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/exec_impl.h"

/* What each counter is waited for in this program, by the waits for earlier executions too: their steps have no value of their
 * own any more. */
static void count_waits(struct wr_exec *x)
{
    for (uint32_t i = 0; i < x->ncounters; i++)
        x->counters[i].most = 0;
    for (uint32_t i = 0; i < x->program.nsteps; i++) {
        struct exec_counter *counter = x->steps[i].counter;
        if (x->program.steps[i].op == WR_STEP_WAIT)
            counter->most = WR_MAX(counter->most, x->program.steps[i].value);
    }
}

weir_status wr_exec_reshape(struct wr_exec *x, const struct wr_plan_spec *spec, weir_error *err)
{
    struct wr_program program;
    weir_status status = x->params.algorithm->build(spec, x->params.comm->rank, &program, err);
    if (status)
        return status;
    if (program.scratch > x->program.scratch) {
        wr_program_free(&program);
        return wr_error_set(err, WEIR_ERR_INTERNAL, "report this with the arguments of the call",
                            "a plan needs more memory than it was made with");
    }
    program.scratch = x->program.scratch;
    wr_program_free(&x->program);
    free(x->steps);
    free(x->places);
    free(x->lanes);
    x->program = program;
    x->spec = *spec;
    status = wr_exec_resolve_steps(x, NULL, err);
    if (!status)
        count_waits(x);
    return status;
}
