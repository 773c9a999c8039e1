#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A libfabric provider that crashes or hangs while it is loaded: weir-doctor and weir-info say so, and end.
# timeout: 180
grep -q 'define HAVE_LIBFABRIC' "$top_builddir/config.h" || { echo "weir was built without libfabric"; exit 77; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"
provider() { # statement
    printf '#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nvoid *fi_prov_ini(void);\nvoid *fi_prov_ini(void) { %s; return 0; }\n' "$1" >"$tmp/p.c"
    mkdir -p "$tmp/prov"
    # shellcheck disable=SC2086 # CC may be two words
    ${CC:-cc} -shared -fPIC -o "$tmp/prov/libweirtest-fi.so" "$tmp/p.c"
}
run() { timeout -k 1 100 env FI_PROVIDER_PATH="$tmp/prov" "$@" 2>&1; }

# other libraries may have put a handler of their own on the signal
provider 'signal(SIGABRT, SIG_DFL); abort()' || { echo "no shared object can be made"; exit 77; }
out=$(run "$top_builddir/tools/weir-doctor")
code=$?
if ! grep -q 'libfabric.*crashed' <<<"$out"; then
    [ $code -le 1 ] && { echo "this libfabric loads no providers from FI_PROVIDER_PATH"; exit 77; }
    complain "$out"
fi
[ $code -eq 1 ] || complain "exit code $code with a provider that crashes: $out"
grep -q 'PROBLEM  libfabric .*signal 6' <<<"$out" || complain "no PROBLEM of the crash in: $out"

provider 'for (;;) pause()'
begin=$SECONDS
out=$(run "$top_builddir/tools/weir-doctor")
code=$?
[ $code -eq 1 ] || complain "exit code $code with a provider that hangs: $out"
grep -q 'PROBLEM  libfabric .*hung: no answer within' <<<"$out" || complain "no PROBLEM of the hang in: $out"
[ $((SECONDS - begin)) -ge 9 ] || complain "the hanging provider was not waited for"
out=$(run "$top_builddir/tools/weir-info" --transports)
[ $? -eq 1 ] || complain "weir-info --transports finds a hanging provider all right: $out"
grep -q 'listing libfabric hung' <<<"$out" || complain "weir-info does not say that it hung: $out"
exit $fail
