#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weirrun --host over real network hosts, reached by an ssh stand-in that brings no environment along.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 4
weirrun=$top_builddir/tools/weirrun
rsh="$scratch/rsh"

run "four hosts" on h0 "$weirrun" -n 8 --host h0:2,h1:2,h2:2,h3:2 --rsh "$rsh" "$where"
ranks tcp 8
for ((rank = 0; rank < 8; rank++)); do
    has "^rank=$rank .* node=$((rank / 2)) nodes=4 host=h$((rank / 2)) "
done
run "unequal slots" on h0 "$weirrun" -n 5 --host h1:4,h3:1 --rsh "$rsh" "$where"
ranks tcp 5
nodes 0=0,3=0,4=1
has '^rank=4 .* host=h3 '

run "cyclic" on h0 "$weirrun" -n 8 --host h0:2,h1:2,h2:2,h3:2 --placement cyclic --rsh "$rsh" "$where"
ranks tcp 8
for ((rank = 0; rank < 8; rank++)); do
    has "^rank=$rank .* node=$((rank % 4)) nodes=4 host=h$((rank % 4)) "
done

run "variables come along" on h0 "$weirrun" -n 2 --host h1:1,h2:1 --rsh "$rsh" --env "NUMBER=17 and 4" \
    sh -c 'echo "[$NUMBER]"'
[ "$(grep -c '^\[17 and 4\]$' <<<"$out")" -eq 2 ] || complain "--env did not reach both hosts"

run "a rank fails" on h0 "$weirrun" -n 4 --host h0:1,h1:1,h2:1,h3:1 --rsh "$rsh" \
    sh -c 'test "$(hostname)" != h2 || exit 5; sleep 20'
[ "$status" -eq 5 ] || complain "the exit code is not the failed rank's"
says 'h2'

run "no such host" on h0 "$weirrun" -n 2 --host h0:1,h9:1 --rsh "$rsh" "$where"
[ "$status" -ne 0 ] || complain "went through"
says 'h9'
verdict
