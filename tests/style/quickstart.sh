#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What quickstart does before it builds: its options, and on a system without apt the names for the others.
# timeout: 60
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cp "$top_srcdir/quickstart" "$tmp/"
cd "$tmp" || exit 99
fail=0
complain() {
    echo "$*"
    fail=1
}
./quickstart --help | grep -q '^usage:' || complain "--help prints no usage"
for wrong in --no-such "-j" "-j 0" "check twice"; do
    # shellcheck disable=SC2086
    if ./quickstart $wrong >out 2>&1; then complain "'$wrong' is accepted"; fi
    grep -q '^quickstart: ' out || complain "'$wrong' is refused without a sentence"
done

# A system with everything but apt and dpkg.
mkdir bin
for program in bash cat dirname mkdir nproc sed env; do ln -s "$(command -v $program)" "bin/$program"; done
PATH=$tmp/bin bash ./quickstart >out 2>&1
status=$?
[ $status -eq 1 ] || complain "ended with $status without apt"
for text in 'dnf install .*hwloc-devel' 'zypper install' 'spack install' 'libfabric' 'ucx'; do
    tr '\n' ' ' <out | grep -qE "$text" || complain "without apt there is no '$text'"
done

# Debian, but neither root nor sudo: says which packages are wanted.
printf '#!/bin/bash\n[ "$1" != -u ] || echo 1000\n' >bin/id
printf '#!/bin/bash\nexit 1\n' >bin/dpkg-query
printf '#!/bin/bash\necho called >&2\nexit 1\n' >bin/apt-get
chmod +x bin/*
PATH=$tmp/bin bash ./quickstart >out 2>&1
status=$?
[ $status -eq 1 ] || complain "ended with $status without root"
grep -q 'root is needed.*libhwloc-dev' out || complain "does not say what root should install: $(cat out)"
[ $fail -ne 0 ] || echo "as promised"
exit $fail
