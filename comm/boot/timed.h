/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls into a launcher's library that may wait for ever, given an end. */
#ifndef WR_BOOT_TIMED_H
#define WR_BOOT_TIMED_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls run(arg) on a thread of its own and waits for it. When it has not returned by `timeout_ns` the call is abandoned
 * and false is returned: then the thread, should it ever return, calls release(arg). Otherwise (true) `arg` stays the
 * caller's. Without a thread (out of resources) the call is made directly.
 */
bool wr_timed_run(void (*run)(void *arg), void (*release)(void *arg), void *arg, int64_t timeout_ns);

#endif
