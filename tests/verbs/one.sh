# SPDX-License-Identifier: BSD-3-Clause
# All in one machine: the rules of the transports, and the refused registrations of a user without privileges.
. "$top_srcdir/tests/verbs/job_lib.sh"
for way in $(ways); do
    rules=("$conformance" -t "$(transport_of "$way")")
    timed "$way: rules" over "$way" 180 "${rules[@]}" -n 2 -b 64K -r 5
    timed "$way: rules, four ranks" over "$way" 180 "${rules[@]}" -n 4 -b 16K -r 3
    timed "$way: rules, contrary" over "$way" 180 "${rules[@]}" -n 2 -l contrary -b 16K -r 3
    timed "$way: lifetimes" over "$way" 180 "${rules[@]}" -n 2 -L 3
done
# Root may lock what it wants; others may not. Under the small limit a library's own buffers may be too much already.
memlock=/run/memlock # where anyone can reach it
cp "$(binary verbs/memlock)" $memlock
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
for way in $(ways); do
    for kib in 8192 32768; do
        timed "$way: $kib KiB of locked memory" over "$way" 120 \
            bash -c "ulimit -l $kib && exec \"\$@\"" - "${nobody[@]}" "$memlock" "$(transport_of "$way")"
        printf '%s\n' "$output" | grep 'LIMIT'
    done
done
# A job that wants more than it may lock, but less than the libraries need for themselves: it works, by messages, and one
# warning says why.
mkdir /run/lib
cp "$B"/.libs/libweir.so* /run/lib 2>/dev/null
cp "$weirrun" "$mem" /run
for way in $(ways); do
    timed "$way: a job beyond its limit of locked memory" over "$way" 120 \
        bash -c "ulimit -l 98304 && exec \"\$@\"" - "${nobody[@]}" \
        env TEST_LOG=1 LD_LIBRARY_PATH=/run/lib /run/weirrun -n 2 /run/mem_test large 128
    warnings=$(printf '%s\n' "$output" | grep -c 'cannot be registered with the network.*RLIMIT_MEMLOCK.*ulimit -l')
    run "$way: $warnings warnings instead of one:$(printf '\n%s' "$output")" test "$warnings" -eq 1
done
finish
