/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test includes first. */
#ifndef WR_UNIT_H
#define WR_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

/* Asserts success and shows the error's sentence otherwise. */
#define assert_ok(call, err)                                                                                 \
    do {                                                                                                     \
        weir_status status_ = (call);                                                                        \
        if (status_ != WEIR_OK)                                                                              \
            fail_msg("%s: %s: %s", #call, weir_status_name(status_), (err)->message);                        \
    } while (0)

#endif
