#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The shared library exports weir_* and nothing else.
# timeout: 60
lib=$top_builddir/.libs/libweir.so
[ -e "$lib" ] || { echo "no shared library was built (--disable-shared)"; exit 77; }
fail=0
exported=$(nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
others=$(grep -v '^weir_' <<<"$exported")
[ -z "$others" ] || { echo "exported, but not a public name:" $others; fail=1; }
[ -n "$exported" ] || { echo "nothing is exported"; fail=1; }
echo "$(wc -w <<<"$exported") exported"
exit $fail
