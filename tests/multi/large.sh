#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# Sizes past 2^32 bytes on the node, and offsets past it over each network.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
if [ -n "${TSAN_OPTIONS:-}" ]; then
    echo "ThreadSanitizer keeps several times the memory that is looked at; the other builds run this"
    exit 77
fi
have=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
if [ "${have:-0}" -lt 12 ]; then
    echo "12 GiB of available memory are needed for two windows of more than 4 GiB; there are ${have:-0}"
    exit 77
fi
t="$B/tests/multi/large_test"
window=$(((1 << 32) + (64 << 20) + 4104))
whole=$(((1 << 32) + 8200))
[ -z "${TEST_TIME_FACTOR:-}" ] || whole=$((48 << 20)) # a sanitizer looks at each of them
run "on the node" "$weirrun" -n 2 "$t" $window $whole
for net in $(networks); do
    run "$net" env WEIR_TRANSPORT=$net "$weirrun" -n 2 "$t" $window $((48 << 20))
done
finish
