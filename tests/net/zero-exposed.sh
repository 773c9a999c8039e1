#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# Steps of the ZeRO engine on two hosts with slow links, whose layers take more than twice as long as what must be moved: at most a
# tenth of a step is communication that was not hidden. Layers sleep, so it does not matter what else the cores have to do.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 2
hosts_rate 100mbit # 11.8 MB/s of payload: stage 0 sends 2 MB in 170 ms, stage 3 gets and sends 3 MB in 250 ms; layers take 540 ms

# number NAME: of the JSON line in $out
number() { grep '^{' <<<"$out" | tail -n 1 | sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p"; }

for stage in 0 3; do
    for attempt in 1 2 3; do # a pause of the whole machine shows
        run "stage $stage" on h0 "$top_builddir/tools/weirrun" --host h0:1,h1:1 --rsh "$scratch/rsh" env WEIR_PROGRESS=thread \
            "$top_builddir/perf/weir-zero" --stage $stage --params 500K --layers 12 --compute 15000 --sleep --steps 1 --bucket 250K \
            --exposed --json
        step=$(number step_ms) alone=$(number alone_ms)
        [ "$status" -eq 0 ] && [ -n "$alone" ] || complain "failed"
        echo "stage $stage: $step ms a step, $alone ms alone"
        awk -v s="${step:-1}" -v a="${alone:-0}" 'BEGIN { exit !(s - a <= 0.1 * s) }' && continue 2
    done
    complain "more than a tenth of the step of stage $stage is exposed"
done
verdict
