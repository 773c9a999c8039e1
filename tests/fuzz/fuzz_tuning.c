/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer on the reader of tuning files: what it takes is a set of costs that a simulation can be run with, else it changes
 * nothing and has a sentence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/plan/tuning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_cost cost, before;
    weir_error err;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    wr_cost_default(&cost);
    before = cost;
    if (wr_tuning_parse(text, &cost, &err) == WEIR_OK) {
        check(cost.rails >= 1 && cost.rails <= 64 && cost.bandwidth > 0 && cost.memory > 0);
        check(isfinite(cost.latency) && isfinite(cost.copy) && isfinite(cost.reduce) && isfinite(cost.hop[0]));
    } else {
        check(err.status == WEIR_ERR_CONFIG && err.message[0] && !memcmp(&cost, &before, sizeof cost));
    }
    free(text);
    return 0;
}
