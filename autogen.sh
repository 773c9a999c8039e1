#!/bin/sh
# Makes ./configure from configure.ac. Needed once after a git clone; release tarballs carry it already.
set -e
cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize pkg-config; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "autogen.sh: '$tool' is missing; install autoconf, automake, libtool and pkg-config" >&2
        exit 1
    }
done
mkdir -p build-aux m4
exec autoreconf --install --warnings=all,no-obsolete "$@"
