#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun with ranks that join the job: how their end is judged, reported, and told to the others.
# timeout: 180
. "$(dirname "$0")/weirrun_lib.bash"
R=$top_builddir/tests/multi/weirrun_rank
host=$(uname -n)

expect 0 "$W" -n 4 "$R" -1 none 0
[ ! -s "$dir/out" ] && [ ! -s "$dir/err" ] || fail "words without a reason"
expect 7 "$W" -n 4 "$R" 2 exit 7
err_has "rank 2 on host $host exited with code 7$|rank 2 on host $host exited with code 7; the other"

# lost: killed, or gone with a good exit code but no farewell; all others hear who, and why
expect 137 "$W" -n 4 --grace 20s "$R" 1 kill 9
err_has "^weirrun: rank 1 on host $host was killed by SIGKILL"
[ "$(grep -c 'WEIR_ERR_PEER_LOST.*rank 1.*SIGKILL' "$dir/out")" -eq 3 ] || fail "not all heard of the killed rank: $(cat "$dir/out")"
expect 1 "$W" -n 3 --grace 20s "$R" 0 leave 0
err_has "^weirrun: rank 0 on host $host exited with code 0 without calling weir_finalize"
[ "$(grep -c 'WEIR_ERR_PEER_LOST' "$dir/out")" -eq 2 ] || fail "not all heard of the rank that left: $(cat "$dir/out")"
expect 5 "$W" -n 3 --on-failure continue "$R" 2 leave 5
err_has "^weirrun: rank 2 on host $host exited with code 5"
[ "$(grep -c 'WEIR_ERR_PEER_LOST' "$dir/out")" -eq 2 ] || fail "the others were not told, or did not go on: $(cat "$dir/out")"

# weir_abort ends the job in any case, with its code and message
for action in kill continue; do
    expect 9 "$W" -n 3 --grace 500ms --on-failure $action "$R" 1 abort 9
    err_has "^weirrun: rank 1 on host $host called weir_abort with code 9: asked to by the test$"
done

# a rank that never joins: the others do not wait for it until their patience ends
expect 98 "$W" -n 3 --grace 20s sh -c "[ \$WEIR_JOB_RANK = 0 ] || exec '$R' -1 none 0"
grep -q "weir_init: .*rank 0" "$dir/out" || fail "nobody heard of the rank that did not join: $(cat "$dir/out")"
finish
