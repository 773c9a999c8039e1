#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What can be checked by reading: licence lines, the environment read in one place only,
# lengths of files and functions, no unfinished work.
# timeout: 60
cd "${top_srcdir:-.}" || exit 99
fail=0
complain() {
    echo "$*"
    fail=1
}

mapfile -t files < <(find include base topo comm optim tools perf mpi examples tests -name '*.[ch]' 2>/dev/null | sort)
[ ${#files[@]} -gt 10 ] || { echo "no sources found in $PWD"; exit 99; }

awk 'function end() {
         limit = name ~ /^tests\// ? 700 : 600
         if (lines > limit) { print name ": " lines " lines; split it (" limit " are the limit)"; bad = 1 }
         if (name && !spdx) { print name ": no SPDX line at the top"; bad = 1 }
     }
     FNR == 1 { end(); name = FILENAME; spdx = 0 }
     FNR <= 2 && /SPDX-License-Identifier: BSD-3-Clause/ { spdx = 1 }
     { lines = FNR }
     END { end(); exit bad }' "${files[@]}" || fail=1

# Functions: from a "{" to a "}" in column 0.
awk 'FNR == 1 { start = 0 }
     /^\{/ { start = FNR }
     /^\}/ { if (start && FNR - start - 1 > 80) { print FILENAME ":" start ": a function of " FNR - start - 1 " lines (80 are the limit)"; bad = 1 } start = 0 }
     END { exit bad }' "${files[@]}" || fail=1

# One place reads the environment.
grep -nE '\b(secure_)?getenv[ ]*\(' "${files[@]}" | grep -vE '^(base/config\.c|tests/|examples/)' &&
    complain "only base/config.c reads the environment"
# Programs that start others hand it on.
grep -nE '\bextern char \*\*environ' "${files[@]}" | grep -vE '^(base/config\.c|tests/|perf/|tools/)' &&
    complain "only base/config.c reads the environment"

# The library does not end or print for its user.
grep -nE '\b(abort|exit|printf|puts|perror)[ ]*\(' $(find base topo comm optim -name '*.c' 2>/dev/null) |
    grep -vE '^[^:]*:[0-9]+: *(/?\*|//)|->abort *\(|\.abort *\(' >/tmp/style.$$
grep -vE '_exit *\(' /tmp/style.$$ && complain "the library neither ends the process nor prints"
rm -f /tmp/style.$$

grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "${files[@]}" && complain "unfinished work has no place in the tree"
grep -nE '[[:space:]]+$' "${files[@]}" | head -n 5 | grep . && complain "white space at the end of lines"
exit $fail
