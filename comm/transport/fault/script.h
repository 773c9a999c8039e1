/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The script of the fault layer: words separated by ';' (or white space).
 *     seed=N             start of the random choices (1); the rank is added, so that ranks differ
 *     rank=N             the script holds at this rank only
 *     drop=[OP:]P        with probability P an operation is accepted and nothing is sent: put, signal and am look
 *                        complete, get and flush never end
 *     dup=[OP:]P         with probability P an operation is carried out twice (put, signal and am only)
 *     delay=[OP:]TIME[:P] with probability P (1) an operation is held back for TIME before it starts
 *     error=[OP:]N       the N-th operation, counted from 1, fails with WEIR_ERR_TRANSPORT
 *     dead=PEER[:N]      from the N-th operation on that peer on (1), the peer is lost
 *     refuse=reg[:N]     from the N-th registration of memory on (1), registrations are refused as a limit of locked memory
 *                        refuses them
 * OP is put, signal (a put with a signal, or a bare one), get, am, flush or any (the default). A word may be given
 * several times; each operation meets them in the order of the script.
 */
#ifndef WR_FAULT_SCRIPT_H
#define WR_FAULT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/status.h>

enum fault_op { FAULT_PUT, FAULT_SIGNAL, FAULT_GET, FAULT_AM, FAULT_FLUSH, FAULT_ANY };
enum fault_kind { FAULT_DROP, FAULT_DUP, FAULT_DELAY, FAULT_ERROR, FAULT_DEAD, FAULT_REFUSE };
enum { FAULT_RULES = 16 };

struct fault_rule {
    enum fault_kind kind;
    enum fault_op op;
    double probability;
    int64_t delay_ns;
    int peer;
    uint64_t number; /* of the operation */
    uint64_t seen;   /* operations that met the rule */
};

struct fault_script {
    uint64_t seed;
    int rank; /* -1: all */
    unsigned nrules;
    struct fault_rule rule[FAULT_RULES];
};

/* WEIR_ERR_CONFIG names the word that was not understood. */
weir_status wr_fault_parse(const char *text, struct fault_script *script, weir_error *err);

#endif
