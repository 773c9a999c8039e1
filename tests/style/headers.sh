#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each installed header compiles alone, as C11 and as C++17, without a warning.
# timeout: 120
fail=0 count=0
CC=${CC:-cc} CXX=${CXX:-c++}
includes="-I$top_builddir/include -I$top_srcdir/include"
$CXX --version >/dev/null 2>&1 || { echo "missing: a C++ compiler ($CXX)"; exit 77; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
for header in "$top_srcdir"/include/weir/*.h "$top_builddir"/include/weir/version.h; do
    name=$(basename "$header")
    printf '#include <weir/%s>\nint used(void);\n' "$name" >"$tmp/one.c"
    cp "$tmp/one.c" "$tmp/one.cpp"
    # shellcheck disable=SC2086
    $CC -std=c11 -pedantic -Wall -Wextra -Werror $includes -fsyntax-only "$tmp/one.c" || { echo "$name: not C11 on its own"; fail=1; }
    # shellcheck disable=SC2086
    $CXX -std=c++17 -pedantic -Wall -Wextra -Werror $includes -fsyntax-only "$tmp/one.cpp" || { echo "$name: not C++17 on its own"; fail=1; }
    count=$((count + 1))
done
[ $count -ge 4 ] || { echo "only $count headers found"; exit 1; }
echo "$count headers"
exit $fail
