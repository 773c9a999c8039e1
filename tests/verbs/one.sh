# SPDX-License-Identifier: BSD-3-Clause
# All in one machine: the rules of the transports, and the refused registrations of a user without privileges.
. "$top_srcdir/tests/verbs/job_lib.sh"
for way in $(ways); do
    timed "$way: rules" over "$way" 60 "$conformance" -t "$(transport_of "$way")" -n 2 -b 64K -r 5
done
# Root may lock what it wants; others may not. Under the small limit a library's own buffers may be too much already.
memlock=$(binary verbs/memlock)
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
for way in $(ways); do
    for kib in 8192 32768; do
        timed "$way: $kib KiB of locked memory" over "$way" 30 \
            bash -c "ulimit -l $kib && exec \"\$@\"" - "${nobody[@]}" "$memlock" "$(transport_of "$way")"
        printf '%s\n' "$output" | grep '^limit'
    done
done
finish
