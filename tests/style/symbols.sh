#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The shared library exports weir_* and nothing else, and all that the public headers declare.
# timeout: 60
lib=$top_builddir/.libs/libweir.so
[ -e "$lib" ] || { echo "no shared library was built (--disable-shared)"; exit 77; }
fail=0
exported=$(nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
others=$(grep -v '^weir_' <<<"$exported")
[ -z "$others" ] || { echo "exported, but not a public name:" $others; fail=1; }
[ -n "$exported" ] || { echo "nothing is exported"; fail=1; }
declared=$(${CC:-cc} -E -P -I"$top_builddir/include" -I"$top_srcdir/include" - <<<'#include <weir/weir.h>' |
    tr '\n' ' ' | tr ';{}' '\n\n\n' | grep -v typedef | sed -n 's/^.*[ *]\(weir_[a-z0-9_]*\)(.*)[^()]*$/\1/p' | sort -u)
[ -n "$declared" ] || { echo "no declarations were found in weir.h"; exit 99; }
for name in $declared; do
    grep -qx "$name" <<<"$exported" || { echo "$name is declared but not in the library"; fail=1; }
done
echo "$(wc -w <<<"$declared") declared, $(wc -w <<<"$exported") exported"
exit $fail
