#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# The progress thread: it moves what is in flight, sleeps otherwise, and everything else works with it.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
m="$B/tests/multi"
for net in $(networks); do
    run "a thread, $net" env WEIR_NETWORK=$net WEIR_PROGRESS=thread timeout 60 "$weirrun" -n 2 --nodes 2 "$m/progress_test" thread
    [ "$net" = ucx ] || run "none, $net" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 2 --nodes 2 "$m/progress_test" none
done
run "a thread, on the node" env WEIR_PROGRESS=thread timeout 60 "$weirrun" -n 2 "$m/progress_test" thread
export WEIR_PROGRESS=thread
run "collectives" timeout 60 "$weirrun" -n 3 "$m/coll_test" -r 10
run "collectives, two nodes" timeout 60 "$weirrun" -n 4 --nodes 2 "$m/coll_test" -r 4 -b 5000 -s 3
run "messages" timeout 60 "$weirrun" -n 3 "$m/p2p_test"
run "memory, two nodes" timeout 60 "$weirrun" -n 2 --nodes 2 "$m/mem_test"
run "communicators" timeout 60 "$weirrun" -n 3 "$m/comm_test"
case $(TEST_LOG=1 WEIR_LOG=info WEIR_PROGRESS_CORE=0 "$weirrun" -n 2 "$m/progress_test" thread 2>&1) in
*"bound to core 0"*PASS*) passed=$((passed + 1)) ;;
*) failed=$((failed + 1)); echo "FAIL: nothing says which core it is bound to" ;;
esac
case $(TEST_LOG=1 WEIR_PROGRESS_CORE=77777 "$weirrun" -n 2 "$m/progress_test" thread 2>&1) in
*"WEIR_PROGRESS_CORE=77777: this host has"*) passed=$((passed + 1)) ;;
*) failed=$((failed + 1)); echo "FAIL: a core that does not exist was taken" ;;
esac
finish
