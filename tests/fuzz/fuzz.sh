#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs libFuzzer for some seconds on the bootstrap's parser, compiled here with clang and the sanitizers; a configure with
# --enable-fuzzers makes the program for longer runs. usage: fuzz.sh [SECONDS]
set -eu
clang=${CLANG:-$(command -v clang || true)}
if [ -z "$clang" ]; then
    echo "SKIP: clang is not installed"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/corpus"
flags="-g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined"
if ! echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' |
    $clang $flags -x c - -o "$dir/probe" 2>"$dir/log"; then
    echo "SKIP: $clang has no libFuzzer"
    exit 77
fi
cd "$top_srcdir"
$clang $flags -include "$top_builddir/config.h" -Iinclude -I"$top_builddir/include" -I. tests/fuzz/fuzz_wire.c comm/boot/wire.c \
    comm/boot/siphash.c comm/boot/mapping.c comm/boot/pmi1_wire.c comm/boot/sock.c comm/boot/launcher.c base/str.c \
    base/error.c base/config.c base/status.c -o "$dir/fuzz_wire" -lm
"$dir/fuzz_wire" -max_total_time="${1:-5}" -max_len=2048 -print_final_stats=1 -artifact_prefix="$dir/" "$dir/corpus" >"$dir/log" 2>&1 || {
    tail -40 "$dir/log"
    exit 1
}
grep -E "number_of_executed_units|new_units_added" "$dir/log"
