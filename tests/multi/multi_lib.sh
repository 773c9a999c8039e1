# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts that run a program of several ranks again and again: run WHAT COMMAND...
B=${top_builddir:-.}
weirrun="$B/tools/weirrun"
passed=0
failed=0
skipped=0

# run LABEL COMMAND...: counts; shows the output of what fails.
run() {
    label=$1
    shift
    output=$("$@" 2>&1)
    status=$?
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
    elif [ $status -eq 77 ]; then
        skipped=$((skipped + 1))
        echo "SKIP $label: $(printf '%s\n' "$output" | tail -n 1)"
    else
        failed=$((failed + 1))
        echo "FAIL $label (status $status):"
        # what a sanitizer found stands above its map of the memory
        printf '%s\n' "$output" | grep -E '(ERROR|WARNING): .*Sanitizer|runtime error|^ +#[0-9]+ ' | head -n 30 | sed 's/^/    /'
        printf '%s\n' "$output" | tail -n 20 | sed 's/^/    /'
    fi
}

# survive LABEL COMMAND...: the job ends with the code of the rank that is killed; the survivors' verdict is in the output.
survive() {
    label=$1
    shift
    output=$("$@" 2>&1)
    if printf '%s\n' "$output" | grep -q '^PASS' && ! printf '%s\n' "$output" | grep -q '^FAIL'; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $label:"
        printf '%s\n' "$output" | tail -n 20 | sed 's/^/    /'
    fi
}

# The networks that this build has.
networks() {
    for n in ofi ucx; do
        case $n in
        ofi) grep -q '^#define HAVE_LIBFABRIC 1' "$B/config.h" && echo ofi ;;
        ucx) grep -q '^#define HAVE_UCX 1' "$B/config.h" && echo ucx ;;
        esac
    done
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed -eq 0 ] || exit 1
    [ $passed -gt 0 ] || exit 77
    exit 0
}
