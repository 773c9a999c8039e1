#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 100
# The network between nodes is chosen by a measurement that is kept in a file: it is made when there is none or a damaged
# one, believed when there is one, overruled by WEIR_NETWORK, and no place for a file is no error.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
if [ "$(networks | wc -l)" -lt 2 ]; then
    echo "there are not two networks to choose from"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WEIR_CACHE_DIR=$folder/deep/er

# over LABEL NETWORKS COMMAND...: the job must use one of those networks.
over() {
    if output=$("${@:3}" "$weirrun" -n 2 --nodes 2 "$B/tests/multi/large_test" 1000 800 2>&1) &&
        [[ $output =~ over\ ($2)$ ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: $output"
    fi
}

# faster NETWORK: writes a file in which that one is the faster.
faster() {
    sed -i -e 's/^\(ofi\|ucx\) .*/\1 90000 9000000/' -e "s/^$1 .*/$1 1000 100000/" "$file"
}

over "no file" "ofi|ucx" env
file=$(ls "$WEIR_CACHE_DIR"/networks.*)
[ "$(tail -n 1 "$file")" = end ] || { echo "FAIL: no whole file was written"; failed=$((failed + 1)); }
for net in ofi ucx; do
    faster $net
    over "$net is faster" $net env
    over "overruled" ofi env WEIR_NETWORK=ofi
    over "overruled" ucx env WEIR_NETWORK=ucx
done
head -c 40 "$file" >"$folder/half" && cp "$folder/half" "$file"
over "half a file" "ofi|ucx" env
cmp -s "$folder/half" "$file" && { echo "FAIL: half a file was not replaced"; failed=$((failed + 1)); }
over "no folder for it" "ofi|ucx" env WEIR_CACHE_DIR=/proc/weir
over "no file wanted" "ofi|ucx" env WEIR_CACHE_DIR=off
[ "$(find "$WEIR_CACHE_DIR" -type f | wc -l)" = 1 ] || { echo "FAIL: files were left behind"; failed=$((failed + 1)); }
finish
