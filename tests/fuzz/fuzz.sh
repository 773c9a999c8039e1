#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs libFuzzer for some seconds on each reader of what others have written, compiled here with clang and the sanitizers; a
# configure with --enable-fuzzers makes the programs for longer runs. usage: fuzz.sh [SECONDS]
set -eu
clang=${CLANG:-$(command -v clang || true)}
if [ -z "$clang" ]; then
    echo "SKIP: clang is not installed"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags="-g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined"
if ! echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' |
    $clang $flags -x c - -o "$dir/probe" 2>"$dir/log"; then
    echo "SKIP: $clang has no libFuzzer"
    exit 77
fi
cd "$top_srcdir"
# fuzz NAME SOURCE...
libraries=
seconds=${1:-2}
fuzz() {
    name=$1
    shift
    $clang $flags -include "$top_builddir/config.h" -Iinclude -I"$top_builddir/include" -I. "tests/fuzz/$name.c" "$@" \
        base/error.c base/config.c base/status.c base/str.c -o "$dir/$name" $libraries -lm
    mkdir -p "$dir/corpus/$name"
    "$dir/$name" -max_total_time="$seconds" -max_len=2048 -print_final_stats=1 -artifact_prefix="$dir/" "$dir/corpus/$name" >"$dir/log" 2>&1 || {
        tail -40 "$dir/log"
        exit 1
    }
    echo "$name: $(grep -E "number_of_executed_units|new_units_added" "$dir/log" | tr '\n' ' ')"
}
fuzz fuzz_wire comm/boot/wire.c comm/boot/siphash.c comm/boot/mapping.c comm/boot/pmi1_wire.c comm/boot/sock.c comm/boot/launcher.c
mkdir -p "$dir/corpus/fuzz_tuning"
printf 'weir-tuning 1\n# host\nflag 300\ncopy 0.034\nhop1 1e2\nuplink 0\nrails 2\nend\n' >"$dir/corpus/fuzz_tuning/good"
fuzz fuzz_tuning comm/plan/tuning.c comm/plan/cost.c base/file.c base/log.c
libraries=-lhwloc
c=$dir/corpus/fuzz_topo
mkdir -p "$c"
printf '0SwitchName=leaf0 Nodes=h[0-1,3]\nSwitchName=leaf1 Nodes=h2\nSwitchName=spine Switches=leaf[0-1]\n' >"$c/switches"
printf '0BlockName=b0 Nodes=h[0-3]\nBlockSizes=4\n' >"$c/blocks"
printf '1switch:2 node:2 package:2 numa:2 cache:1 core:2' >"$c/words"
printf '3\001\000\001' >"$c/card"
if grep -q '^#define HAVE_JANSSON 1' "$top_builddir/config.h"; then libraries+=" -ljansson"; fi
fuzz fuzz_topo topo/*.c base/pool.c base/log.c base/file.c
libraries=
if grep -q '^#define HAVE_JANSSON 1' "$top_builddir/config.h"; then
    libraries=-ljansson
    c=$dir/corpus/fuzz_ckpt
    mkdir -p "$c"
    printf '0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' >"$c/header"
    printf '1{"__metadata__":{"weir.block":"262144","weir.xxh3":"0123456789abcdef"},"a":{"dtype":"U8","shape":[7,7],"data_offsets":[0,49]}}' >"$c/sums"
    printf '2{"format":"weir-checkpoint","version":1,"step":1,"saved":1,"ranks":1,"shards":[{"file":"s","bytes":9,"header_xxh3":"0123456789abcdef"}],"tensors":{"a":{"dtype":"F32","shape":[4],"parts":[[0,0,1],[0,1,3]]}},"entries":{"k":{"hex":"00"},"j":{"json":1}}}' >"$c/index"
    printf '3{"weight_map":{"a":"x.safetensors","b":"y.safetensors"}}' >"$c/map"
    fuzz fuzz_ckpt optim/ckpt_header.c optim/ckpt_index.c optim/ckpt_index_json.c optim/ckpt_dtype.c
fi
