/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the transport conformance program. Each is run by all ranks on a transport that is open. */
#ifndef WR_TEST_CONF_CASES_H
#define WR_TEST_CONF_CASES_H

#include "tests/multi/conf.h"

struct conf_case {
    const char *name;
    void (*run)(struct conf_rank *r);
};

/* One-sided operations: conf_rma.c. */
void conf_put_sizes(struct conf_rank *r);
void conf_get_sizes(struct conf_rank *r);
void conf_put_signal(struct conf_rank *r);
void conf_bare_signal(struct conf_rank *r);
void conf_outstanding(struct conf_rank *r);
void conf_fence(struct conf_rank *r);
void conf_regions(struct conf_rank *r);

/* Messages and waiting: conf_am.c. */
void conf_am_sizes(struct conf_rank *r);
void conf_am_order(struct conf_rank *r);
void conf_am_long(struct conf_rank *r);
void conf_am_reply(struct conf_rank *r);
void conf_blocking(struct conf_rank *r);

#endif
