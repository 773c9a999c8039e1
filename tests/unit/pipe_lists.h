/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of pipeline schedules share. */
#ifndef WR_TESTS_PIPE_LISTS_H
#define WR_TESTS_PIPE_LISTS_H

enum { PIPE_P = 16, PIPE_M = 40, PIPE_V = 4 };

static inline bool pipe_takes_chunks(int64_t schedule)
{
    return schedule == WEIR_PIPE_INTERLEAVED || schedule == WEIR_PIPE_LOOPED_BFS;
}

/* Makes a schedule that must go well. */
static inline weir_pipe *pipe_make(int64_t schedule, int stages, int micros, int chunks, weir_pipe_lists *lists)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    weir_pipe *pipe;
    weir_error err;
    o.schedule = schedule;
    o.stages = stages;
    o.microbatches = micros;
    o.chunks = chunks;
    if (weir_pipe_create(&o, &pipe, &err) != WEIR_OK)
        fail_msg("%s, P %d, M %d, V %d: %s", weir_pipe_schedule_name(schedule), stages, micros, chunks, err.message);
    lists->size = sizeof *lists;
    weir_pipe_get_lists(pipe, lists);
    return pipe;
}

#endif
