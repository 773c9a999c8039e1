#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# make html goes through without a warning, and so does every manual page under mandoc's eyes.
# timeout: 120
unset MAKEFLAGS MFLAGS MAKELEVEL
for tool in doxygen mandoc; do
    command -v $tool >/dev/null || { echo "missing: $tool"; exit 77; }
done
fail=0
make -s -C "$top_builddir" html || { echo "make html has something to say"; fail=1; }
grep -q WEIR_ERR_PEER_LOST "$top_builddir/doc/html/status_8h.html" || { echo "the reference lacks the status codes"; fail=1; }
mapfile -t pages < <(find "$top_srcdir/doc/man" "$top_builddir/doc/man" -name '*.[1-8]' 2>/dev/null | sort -u)
[ ${#pages[@]} -gt 0 ] || { echo "no manual pages were found"; exit 1; }
for page in "${pages[@]}"; do
    # A page that is generated has no date of its own.
    if mandoc -T lint -W warning "$page" | grep -v 'missing date'; then fail=1; fi
done
echo "${#pages[@]} manual pages"
exit $fail
