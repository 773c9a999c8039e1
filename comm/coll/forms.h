/* SPDX-License-Identifier: BSD-3-Clause */
/* The three forms of a public call: they differ in name, in the request that two of them give, and in who waits. */
#ifndef WR_COLL_FORMS_H
#define WR_COLL_FORMS_H

#include "comm/coll/coll.h"

#define WR_COLL_UNWRAP(...) __VA_ARGS__

/* Defines weir_NAME, weir_iNAME and weir_NAME_init with these parameters, in parentheses, and the call's members, by name. */
#define WR_COLL_FORMS(NAME, PARAMETERS, ...)                                                                              \
    weir_status weir_##NAME PARAMETERS                                                                                    \
    {                                                                                                                     \
        struct wr_coll_call call = {.operation = "weir_" #NAME, __VA_ARGS__};                                             \
        return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);                                                      \
    }                                                                                                                     \
    weir_status weir_i##NAME(WR_COLL_UNWRAP PARAMETERS, weir_request **request)                                           \
    {                                                                                                                     \
        struct wr_coll_call call = {.operation = "weir_i" #NAME, __VA_ARGS__};                                            \
        return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);                                                    \
    }                                                                                                                     \
    weir_status weir_##NAME##_init(WR_COLL_UNWRAP PARAMETERS, weir_request **request)                                     \
    {                                                                                                                     \
        struct wr_coll_call call = {.operation = "weir_" #NAME "_init", __VA_ARGS__};                                     \
        return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);                                                 \
    }

#endif
