#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All sources of the library and its programs compile for aarch64, without a warning. The headers of the dependencies do
# not depend on the processor, so the host's serve; the C library's are the cross compiler's own. Nothing is linked or optimised.
# timeout: 600
cross=aarch64-linux-gnu
command -v $cross-gcc >/dev/null || { echo "missing: $cross-gcc, a cross compiler for aarch64"; exit 77; }
src=$(cd "$top_srcdir" && pwd)
[ ! -e "$src/config.status" ] || { echo "the source folder is configured itself (built in the tree)"; exit 77; }
unset MAKEFLAGS MFLAGS MAKELEVEL CONFIG_SITE CC CXX
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
# hwloc's generated header is in a folder that is named after the host's processor.
mkdir include
multiarch=/usr/include/$(gcc -print-multiarch 2>/dev/null)
[ ! -d "$multiarch/hwloc" ] || ln -s "$multiarch/hwloc" include/hwloc
headers="-idirafter /usr/include -idirafter $tmp/include"
"$src/configure" --host=$cross CC="$cross-gcc $headers" CXX=false PKG_CONFIG="$(command -v pkg-config)" --disable-shared \
    --enable-werror --without-cmocka --without-openmpi --without-mpich CFLAGS=-O0 </dev/null >log 2>&1 ||
    { tail -n 20 log; echo "configure --host=$cross fails"; exit 1; }
make -j2 CCLD=true CXXLD=true </dev/null >log 2>&1 || { grep -E 'error|warning' log; tail -n 20 log; exit 1; }
objects=$(grep -cE '^  CC ' log)
[ "$objects" -gt 20 ] || { cat log; echo "only $objects objects were compiled"; exit 1; }
file=$(find . -name 'libweir-core.a' | head -n 1)
$cross-readelf -h "$file" 2>/dev/null | grep -q AArch64 || { echo "the objects are not for aarch64"; exit 1; }
echo "$objects objects compiled by $cross-gcc"
