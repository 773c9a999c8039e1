# SPDX-License-Identifier: BSD-3-Clause
# What the tests of weirrun share; sourced by them.
set -u
W=$(cd "${top_builddir:-.}" && pwd)/tools/weirrun
dir=$(mktemp -d "${TMPDIR:-/tmp}/weirrun-test.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
failures=0

# An argument for sleep(1) that no other process has.
mark=7777.$$

# For a rank: on how many command lines of this machine its secret can be seen.
see_secret='cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" |
    awk "index(\$0, ENVIRON[\"WEIR_JOB_SECRET\"]) { n++ } END { print n + 0 }"'

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect STATUS COMMAND...: runs it with output in $dir/out and $dir/err.
expect() {
    local want=$1 got
    shift
    "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    [ $got -eq "$want" ] || {
        fail "exit code $got instead of $want: $*"
        sed 's/^/    /' "$dir/out" "$dir/err" | head -n 20
    }
}

# err_has PATTERN: the standard error of the last expect matches.
err_has() {
    grep -qE -- "$1" "$dir/err" || {
        fail "the standard error does not match '$1':"
        sed 's/^/    /' "$dir/err" | head -n 20
    }
}

out_is() {
    [ "$(cat "$dir/out")" = "$1" ] || {
        fail "the standard output is not '$1':"
        sed 's/^/    /' "$dir/out" | head -n 20
    }
}

# until_true SECONDS COMMAND...: repeats the command until it succeeds.
until_true() {
    local tries=$(($1 * 50 * ${TEST_TIME_FACTOR:-1}))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.02
    done
}

# How many processes run "sleep $mark..." (a zombie has no command line).
sleepers() {
    pgrep -fc "^sleep ${1:-$mark}" || true
}
sleepers_are() {
    [ "$(sleepers "${2:-$mark}")" -eq "$1" ]
}
none_left() {
    until_true 10 sleepers_are 0 || {
        fail "$1: processes are left:"
        pgrep -fa "^sleep $mark"
        pkill -KILL -f "^sleep $mark"
    }
}

# The processes of weirrun with process id $1.
agent_of() {
    pgrep -P "$1" weir-agent
}

finish() {
    [ $failures -eq 0 ] || exit 1
    exit 0
}
