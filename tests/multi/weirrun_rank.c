/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank for the tests of weirrun that joins the job and then does what its arguments say, if it is the rank
 * RANK: weirrun_rank RANK exit CODE | abort CODE | kill SIGNAL | leave CODE (exit without farewell). The
 * others wait in a barrier, and say how it ended.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

static void misbehave(weir_ctx *ctx, const char *what, int number)
{
    if (!strcmp(what, "abort"))
        weir_abort(ctx, number, "asked to by the test");
    else if (!strcmp(what, "kill"))
        kill(getpid(), number);
    else if (!strcmp(what, "leave"))
        _exit(number);
}

int main(int argc, char **argv)
{
    weir_ctx *ctx;
    if (argc < 4)
        return 99;
    int number = atoi(argv[3]);
    signal(SIGTERM, SIG_IGN); /* to see what the library says when another rank is lost */
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_error error;
    options.error = &error;
    if (weir_init(&options, &ctx)) {
        printf("weir_init: %s (rank %d)\n", error.message, error.rank);
        return 98;
    }
    int rank = weir_rank(ctx);
    weir_status status = weir_boot_barrier(ctx); /* all have joined */
    if (rank == atoi(argv[1]))
        misbehave(ctx, argv[2], number);
    if (!status)
        status = weir_boot_barrier(ctx);
    if (status) {
        const weir_error *err = weir_last_error(ctx);
        printf("rank %d: %s: %s\n", rank, weir_status_name(status), err->message);
    }
    status = weir_finalize(ctx);
    return rank == atoi(argv[1]) ? number : status ? 97 : 0;
}
