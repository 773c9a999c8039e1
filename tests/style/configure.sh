#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What configure promises: --with-X=DIR takes X from there, --without-X leaves it out, the table says what that costs,
# and only without hwloc, or without libfabric and UCX both, does it stop, with one sentence.
# timeout: 600
set -u
for tool in pkg-config gcc; do
    command -v $tool >/dev/null || { echo "missing: $tool"; exit 77; }
done
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
src=$(cd "$top_srcdir" && pwd)
[ ! -e "$src/config.status" ] || { echo "the source folder is configured itself (built in the tree)"; exit 77; }
unset CONFIG_SITE PKG_CONFIG_PATH PKG_CONFIG_LIBDIR
fail=0

# run NAME ARGUMENTS...: configures in a folder of its own, output in $tmp/NAME.out; returns configure's status
run() {
    local name=$1 status
    shift
    mkdir -p "$tmp/$name"
    # What was learnt about the compiler is learnt once; what depends on packages each time.
    [ ! -e "$tmp/cache.all" ] || grep -vE '^(ac_cv_(path|prog|header|file)_|pkg_cv_|ac_cv_env_|ac_cv_search)' "$tmp/cache.all" >"$tmp/cache"
    (cd "$tmp/$name" && "$src/configure" --cache-file="$tmp/cache" "$@") </dev/null >"$tmp/$name.out" 2>&1
    status=$?
    [ -e "$tmp/cache.all" ] || cp "$tmp/cache" "$tmp/cache.all"
    return $status
}
complain() {
    echo "$*"
    fail=1
}
# stops NAME SENTENCE ARGUMENTS...: configure must fail, and its error must be this one
stops() {
    local name=$1 sentence=$2
    shift 2
    run "$name" "$@" && complain "$name: configure went through"
    grep -q "configure: error: .*$sentence" "$tmp/$name.out" || {
        complain "$name: no sentence '$sentence' but:"
        tail -n 3 "$tmp/$name.out"
    }
}
# says NAME TEXT: a line of the table
says() {
    grep -qE "$2" "$tmp/$1.out" || {
        complain "$1: no line '$2'"
        sed -n '/what was found/,$p' "$tmp/$1.out"
    }
}

# Everything that can be left out, left out at once.
run least --without-ucx --without-pmix --without-pmi2 --without-openblas --without-jansson --without-xxhash --without-liburing --without-cmocka \
    --without-openmpi --without-mpich || { complain "configure fails without the optional parts"; tail -n 5 "$tmp/least.out"; }
says least '^  UCX +no +no UCX transport'
says least '^  PMIx +no +no srun --mpi=pmix'
says least '^  PMI-2 +no +no PMI-2 library'
says least '^  OpenBLAS +no +no Muon'
says least '^  jansson +no +no JSON'
says least '^  xxhash +no +no checkpoints'
says least '^  liburing +no +threads'
says least '^  cmocka +no +make check'
says least '^  Open MPI +no +no '
says least '^  MPICH +no +no '
says least '^  libfabric +yes'
run fabric --without-libfabric || complain "configure fails without libfabric though UCX is there"
says fabric '^  libfabric +no +no transport'
says fabric '^  UCX +yes'

stops no-hwloc 'hwloc .* was not found; install ' --without-hwloc
stops no-network 'neither libfabric nor UCX was found, .*; install ' --without-libfabric --without-ucx

# A machine where they are not installed: only the other .pc files are visible.
visible() {
    mkdir -p "$tmp/pc"
    rm -f "$tmp"/pc/*
    local dir pattern=$1
    for dir in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
        [ ! -d "$dir" ] || find "$dir" -name '*.pc' | grep -vE "/($pattern)\.pc$" | xargs -r -I{} ln -sf {} "$tmp/pc/"
    done
}
visible 'hwloc'
PKG_CONFIG_LIBDIR=$tmp/pc stops hidden-hwloc 'hwloc .* was not found; install '
visible 'libfabric|ucx.*'
PKG_CONFIG_LIBDIR=$tmp/pc stops hidden-network 'neither libfabric nor UCX was found'
visible 'pmix'
PKG_CONFIG_LIBDIR=$tmp/pc stops hidden-pmix 'with-pmix was asked for' --with-pmix
PKG_CONFIG_LIBDIR=$tmp/pc run auto-pmix || complain "configure fails without PMIx"
says auto-pmix '^  PMIx +no'

stops no-directory 'there is no such directory' --with-ucx="$tmp/nowhere"
stops both-sanitizers 'exclude each other' --enable-asan --enable-tsan

# DIR with a .pc file, DIR without one, DIR with nothing in it.
mkdir -p "$tmp/fab/lib/pkgconfig" "$tmp/ucx/include/ucp/api" "$tmp/ucx/lib" "$tmp/mpi/bin" "$tmp/empty" "$tmp/pmi2/lib"
cat >"$tmp/fab/lib/pkgconfig/libfabric.pc" <<END
libdir=$tmp/fab/lib
Name: libfabric
Description: a copy elsewhere
Version: 97.5
Libs: -L$tmp/fab/lib -lfabric
Cflags: -I$tmp/fab/include
END
touch "$tmp/ucx/include/ucp/api/ucp.h"
printf '#!/bin/sh\n' | tee "$tmp/mpi/bin/mpicc" >"$tmp/mpi/bin/mpiexec"
chmod +x "$tmp"/mpi/bin/*
run elsewhere --with-libfabric="$tmp/fab" --with-ucx="$tmp/ucx" --with-openmpi="$tmp/mpi" --with-pmi2="$tmp/pmi2" \
    || { complain "configure fails with DIRs"; tail -n 3 "$tmp/elsewhere.out"; }
says elsewhere '^  libfabric +yes +97.5'
says elsewhere "^  UCX +yes +in $tmp/ucx"
says elsewhere "^  Open MPI +yes +$tmp/mpi/bin/mpicc"
for flag in "-Wl,-rpath,$tmp/fab/lib" "-Wl,-rpath,$tmp/ucx/lib" "-Wl,-rpath,$tmp/pmi2/lib"; do
    grep '^WEIR_DEP_LIBS' "$tmp/elsewhere/Makefile" | grep -qF -e "$flag" || complain "elsewhere: $flag is not in the link line"
done
for name in hwloc ucx openmpi; do # one macro makes all of the first kind, one the MPIs
    stops "empty-$name" "with-$name was asked for but" --with-$name="$tmp/empty"
done
[ $fail -ne 0 ] || echo "all of configure's promises held"
exit $fail
