#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All sources of the library and its tools compile for aarch64, without a warning. The headers of the dependencies do
# not depend on the processor, so the host's serve; the C library's are the cross compiler's own.
# timeout: 300
cross=${AARCH64_CC:-aarch64-linux-gnu-gcc}
command -v "$cross" >/dev/null || { echo "missing: $cross, a cross compiler for aarch64"; exit 77; }
cd "$top_srcdir" || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
mapfile -t sources < <(find base topo comm optim tools -name '*.c' 2>/dev/null | sort)
[ ${#sources[@]} -gt 5 ] || { echo "only ${#sources[@]} sources found in $PWD"; exit 99; }
# The build's own lines say which flags and which parts (transports that were not found are not compiled).
flags=$(sed -n 's/^WEIR_DEP_CFLAGS = *//p; s/^CMOCKA_CFLAGS = *//p; s/^WEIR_WARN = *//p' "$top_builddir/Makefile" | tr '\n' ' ')
# hwloc's generated header is in a folder that is named after the host's processor.
mkdir "$tmp/include"
multiarch=/usr/include/$(${CC:-cc} -print-multiarch 2>/dev/null)
[ ! -d "$multiarch/hwloc" ] || ln -s "$multiarch/hwloc" "$tmp/include/hwloc"
compile() {
    local object
    object=$(tr / _ <<<"$1").o
    # shellcheck disable=SC2086
    "$cross" -std=gnu11 -O1 -fno-strict-aliasing -pthread -include "$top_builddir/config.h" -Iinclude \
        -I"$top_builddir/include" -I. $flags -idirafter /usr/include -idirafter "$tmp/include" -Werror -c "$1" -o "$tmp/$object" || exit 255
    rm -f "$tmp/$object"
}
export -f compile
export cross flags tmp
built() { # is this source part of this build?
    case $1 in
    comm/transport/ofi/*) grep -q '^#define HAVE_LIBFABRIC 1' "$top_builddir/config.h" ;;
    comm/transport/ucx/*) grep -q '^#define HAVE_UCX 1' "$top_builddir/config.h" ;;
    *) true ;;
    esac
}
for source in "${sources[@]}"; do
    ! built "$source" || echo "$source"
done | xargs -P 2 -I{} bash -c 'compile {}' || exit 1
echo "${#sources[@]} sources compiled by $cross"
