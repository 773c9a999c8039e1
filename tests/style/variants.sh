#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The library and its tools compile without a warning when a part is left out, with clang, and with the oldest gcc and
# clang that are installed. Not part of make check (it takes minutes); continuous integration runs it.
# usage: variants.sh [NAME...]
cd "$(dirname "$0")/../.." || exit 99
src=$PWD
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
# Most sources do not care what is left out: preprocessed they are the same in all variants.
ccache=$(command -v ccache)
export CCACHE_DIR=$tmp/ccache

# variant NAME ARGUMENTS...: objects and programs, without optimisation to save time. Those that differ in a --without
# share what configure finds out of the system.
variant() {
    local name=$1 start=$SECONDS
    shift
    mkdir "$tmp/$name"
    if (cd "$tmp/$name" && "$src/configure" --enable-werror --disable-shared CFLAGS=-O0 "$@" && make -j"$(nproc)") \
        </dev/null >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
        echo "PASS: variant $name ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        grep -E 'error|warning|undefined' "$tmp/log" | head -n 20
        tail -n 5 "$tmp/log"
        echo "FAIL: variant $name: configure $*"
    fi
    rm -rf "${tmp:?}/$name"
}
# oldest NAME LOWEST: the command NAME-N with the smallest N from LOWEST on
oldest() {
    compgen -c "$1-" | grep -E "^$1-[0-9]+\$" | sort -uV | awk -F- -v lowest="$2" '$2 >= lowest {print; exit}'
}
variants=(libfabric ucx pmix pmi2 jansson xxhash liburing clang debug)
for compiler in "$(oldest gcc 10)" "$(oldest clang 12)"; do
    [ -z "$compiler" ] || variants+=("$compiler")
done
[ $# -eq 0 ] || variants=("$@")
for name in "${variants[@]}"; do
    case $name in
    clang) variant clang CC=clang CXX=clang++ ;;
    gcc-[0-9]* | clang-[0-9]*) variant "$name" "CC=$name" ;;
    debug) variant debug --enable-debug "CC=${ccache:+ccache }gcc" ;;
    *) variant "without-$name" "--without-$name" "CC=${ccache:+ccache }gcc" "--cache-file=$tmp/config.cache" ;;
    esac
done
echo "variants: $passed passed, $failed failed"
[ $failed -eq 0 ]
