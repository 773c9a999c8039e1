#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# Reduce-scatter and all-gather move no more than they must through the interface of each host, wherever the ranks are.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 4
job() { # NAME ARGUMENTS OF WEIRRUN...
    local title=$1
    shift
    run "$title" on h0 "$top_builddir/tools/weirrun" --rsh "$scratch/rsh" "$@" "$top_builddir/tests/net/bytes_test"
    if [ "$status" -eq 0 ] && grep -q '^PASS' <<<"$out"; then return; fi
    complain "status $status"
}
job "block" --host h0:2,h1:2,h2:2,h3:2
job "cyclic" --host h0:2,h1:2,h2:2,h3:2 --placement cyclic
job "random" --host h0:7,h1:7,h2:7,h3:7 -n 7 --placement random:11
job "unequal" --host h0:1,h1:4,h2:2
verdict
