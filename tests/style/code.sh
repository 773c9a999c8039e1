#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What can be checked by reading: licence lines, direction of includes, the environment read in one place only,
# lengths of files and functions, no unfinished work.
# timeout: 60
cd "${top_srcdir:-.}" || exit 99
fail=0
complain() {
    echo "$*"
    fail=1
}

# layer(FILE): the layer that a file belongs to, the lowest number at the bottom
# shellcheck disable=SC2034
declare -A layer=([include]=0 [base]=1 [topo]=2 [comm/boot]=3 [comm/transport]=4 [comm/mem]=5 [comm/plan]=6
    [comm/coll]=7 [comm]=8 [optim]=9)
folder_of() {
    case $1 in
    comm/*/*) echo "${1%%/*}/$(cut -d/ -f2 <<<"$1")" ;;
    *) echo "${1%%/*}" ;;
    esac
}

mapfile -t files < <(find include base topo comm optim tools perf mpi examples tests -name '*.[ch]' 2>/dev/null | sort)
[ ${#files[@]} -gt 10 ] || { echo "no sources found in $PWD"; exit 99; }

for file in "${files[@]}"; do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' || complain "$file: no SPDX line at the top"
    lines=$(wc -l <"$file")
    [ "$lines" -le 700 ] || complain "$file: $lines lines; split it (the aim is below 600)"
done

# Functions: from a "{" to a "}" in column 0.
awk 'FNR == 1 { start = 0 }
     /^\{/ { start = FNR }
     /^\}/ { if (start && FNR - start - 1 > 80) { print FILENAME ":" start ": a function of " FNR - start - 1 " lines (80 are the limit)"; bad = 1 } start = 0 }
     END { exit bad }' "${files[@]}" || fail=1

# Includes go down only. Sibling transports do not know each other.
while IFS=: read -r file _ line; do
    target=$(sed -n 's/.*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' <<<"$line")
    from=$(folder_of "$file")
    to=$(folder_of "$target")
    case $from in
    tests) continue ;;
    tools)
        case $to in tools | base | include | comm/boot | comm/plan) ;; *) complain "$file includes $target: tools use public headers and base" ;; esac
        continue
        ;;
    perf | mpi | examples)
        [ "$to" = "$from" ] || complain "$file includes $target: $from uses public headers only"
        continue
        ;;
    esac
    if [ -z "${layer[$to]}" ]; then
        complain "$file includes $target: not a folder of the library (write includes from the top of the tree)"
    elif [ "${layer[$to]}" -gt "${layer[$from]}" ]; then
        complain "$file includes $target: includes only go down"
    fi
    if [ "$from" = comm/transport ] && [ "$to" = comm/transport ]; then
        a=$(cut -d/ -f3 <<<"$file") b=$(cut -d/ -f3 <<<"$target")
        [[ $b == *.h || $a == "$b" || $a == *.[ch] ]] || complain "$file includes $target: sibling transports do not know each other"
    fi
done < <(grep -nE '^[ \t]*#[ \t]*include[ \t]*"' "${files[@]}" | sed 's/^include\/weir\//include\/weir\//')

# One place reads the environment.
grep -nE '\b(secure_)?getenv[ ]*\(|\bextern char \*\*environ' "${files[@]}" |
    grep -vE '^(base/config\.c|tests/|examples/|perf/|tools/[a-z-]*/?)' && complain "only base/config.c reads the environment"

# The library does not end or print for its user.
grep -nE '\b(abort|exit|printf|puts|perror)[ ]*\(' $(find base topo comm optim -name '*.c' 2>/dev/null) |
    grep -vE '^[^:]*:[0-9]+: *(/?\*|//)|->abort *\(|\.abort *\(' >/tmp/style.$$
grep -vE '_exit *\(' /tmp/style.$$ && complain "the library neither ends the process nor prints"
rm -f /tmp/style.$$

grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "${files[@]}" && complain "unfinished work has no place in the tree"
grep -nE '[[:space:]]+$' "${files[@]}" | head -n 5 | grep . && complain "white space at the end of lines"
exit $fail
