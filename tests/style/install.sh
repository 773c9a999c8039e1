#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What make install lays down is complete: programs, a manual page for each, headers, both libraries, weir.pc. The
# examples compile and run against it, shared and static, and so does the program in README.md; make uninstall removes
# it all.
# timeout: 180
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
command -v pkg-config >/dev/null || { echo "missing: pkg-config"; exit 77; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0
complain() {
    echo "$*"
    fail=1
}
make -s -C "$top_builddir" install DESTDIR="$tmp/root" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
value() { sed -n "s/^$1 = *//p" "$top_builddir/Makefile"; }
prefix=$tmp/root$(value prefix)
pc=$(find "$tmp/root" -name weir.pc)
[ -n "$pc" ] || { echo "no weir.pc was installed"; exit 1; }
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*}
flags() { pkg-config --define-variable=prefix="$prefix" --define-variable=libdir="$libdir" "$@" weir; }

for program in "$prefix"/bin/*; do
    [ -e "$program" ] || break
    name=$(basename "$program")
    [ -e "$prefix/share/man/man1/$name.1" ] || complain "$name has no manual page"
    [ "$("$program" --help 2>&1 </dev/null | wc -l)" -gt 0 ] || complain "$name --help says nothing"
done
[ -e "$prefix/share/man/man7/weir.7" ] || complain "there is no man weir"
for header in "$top_srcdir"/include/weir/*.h; do
    [ -e "$prefix/include/weir/${header##*/}" ] || complain "${header##*/} was not installed"
done
[ -e "$prefix/include/weir/version.h" ] || complain "version.h was not installed"
[ "$(flags --modversion)" = "$(value PACKAGE_VERSION)" ] || complain "weir.pc has another version"

# program NAME FILE: compiles and runs it, as one rank
program() {
    local name=$1 file=$2
    # shellcheck disable=SC2046
    if [ -e "$libdir/libweir.so" ]; then
        if $CC -std=c11 -Wall -Wextra -Werror $(flags --cflags) "$file" -o "$tmp/shared" $(flags --libs); then
            LD_LIBRARY_PATH=$libdir env -u WEIR_BOOT "$tmp/shared" >"$tmp/out" 2>&1 || { cat "$tmp/out"; complain "$name does not run"; }
            grep -q '^rank 0 of 1' "$tmp/out" || complain "$name says: $(cat "$tmp/out")"
        else
            complain "$name does not compile"
        fi
    fi
    [ -e "$libdir/libweir.a" ] || return
    # shellcheck disable=SC2046
    if $CC $(flags --cflags) "$file" -o "$tmp/static" $(flags --static --libs | sed "s#-lweir#$libdir/libweir.a#"); then
        "$tmp/static" >"$tmp/out" 2>&1 || { cat "$tmp/out"; complain "$name does not run when linked statically"; }
    else
        complain "$name does not link with libweir.a"
    fi
}
program examples/hello.c "$top_srcdir/examples/hello.c"
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$top_srcdir/README.md" >"$tmp/readme.c"
[ -s "$tmp/readme.c" ] || complain "README.md shows no program"
program "the program of README.md" "$tmp/readme.c"

make -s -C "$top_builddir" uninstall DESTDIR="$tmp/root" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail=1; }
left=$(find "$tmp/root" ! -type d)
[ -z "$left" ] || complain "make uninstall left $left"
exit $fail
