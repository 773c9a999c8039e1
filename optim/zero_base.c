/* SPDX-License-Identifier: BSD-3-Clause */
/* What all parts of the engine use: errors, memory that is counted, waiting that is counted. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "optim/zero.h"

weir_status wr_zero_fail(weir_zero *zero, weir_status status, const char *advice, const char *fmt, ...)
{
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return wr_error_set(&zero->error, status, advice, "%s", message);
}

weir_status wr_zero_comm_failed(weir_zero *zero, weir_status status)
{
    const weir_error *last = weir_last_error(weir_comm_ctx(zero->all));
    if (!zero->broken && last)
        zero->error = *last;
    zero->error.status = status;
    zero->broken = true;
    return status;
}

void wr_zero_count(weir_zero *zero, int64_t bytes)
{
    zero->memory += (uint64_t)bytes;
    zero->report.memory_peak = WR_MAX(zero->report.memory_peak, zero->memory);
}

void *wr_zero_alloc(weir_zero *zero, uint64_t bytes, const char *what)
{
    uint64_t whole = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, whole ? whole : 64);
    if (!memory) {
        wr_error_memory(&zero->error, bytes, what);
        return NULL;
    }
    memset(memory, 0, whole);
    wr_zero_count(zero, (int64_t)bytes);
    return memory;
}

void wr_zero_free(weir_zero *zero, void *memory, uint64_t bytes)
{
    if (!memory)
        return;
    free(memory);
    wr_zero_count(zero, -(int64_t)bytes);
}

static uint64_t whole_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *wr_zero_map(weir_zero *zero, uint64_t bytes, const char *what)
{
    void *memory = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        wr_error_memory(&zero->error, bytes, what);
        return NULL;
    }
    wr_zero_count(zero, (int64_t)bytes);
    return memory;
}

void wr_zero_unmap(weir_zero *zero, void *memory, uint64_t bytes)
{
    munmap(memory, whole_pages(bytes));
    wr_zero_count(zero, -(int64_t)bytes);
}

void wr_zero_exposed(weir_zero *zero, int64_t begin)
{
    zero->report.exposed_ns += wr_clock_ns() - begin;
    wr_zero_trace_add(zero, WR_ZERO_DID_WAIT, 0, begin, 0);
}

weir_status wr_zero_wait(weir_zero *zero, weir_request **request)
{
    if (!*request)
        return WEIR_OK;
    int64_t begin = wr_clock_ns();
    weir_status status = weir_wait(request);
    wr_zero_exposed(zero, begin);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

weir_status wr_zero_params_wait(weir_zero *zero, uint64_t section)
{
    if (!zero->param_started[section])
        return WEIR_OK;
    weir_status status = wr_zero_wait(zero, &zero->param_requests[section]);
    wr_zero_flight_end(zero);
    wr_zero_trace_add(zero, WR_ZERO_DID_PARAMS, zero->l.sections[section].block, zero->param_started[section],
                      zero->l.sections[section].n * zero->wsize);
    zero->param_started[section] = 0;
    return status;
}

unsigned char *wr_zero_section_params(const weir_zero *zero, const struct wr_zero_section *s)
{
    return (unsigned char *)weir_mem_ptr(zero->params) + (zero->l.blocks[s->block].at + s->at) * zero->wsize;
}
