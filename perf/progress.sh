# SPDX-License-Identifier: BSD-3-Clause
# Put into scripts that run for long: how far they are, on stderr. A terminal has one line that changes; what is not one gets a
# line now and then. The script sets `program`, `steps` (how many there are) and `quiet` (not empty: nothing is told).
step=0 told_at=-1

# tell WHAT: the next step begins
tell() {
    step=$((step + 1))
    [ -z "$quiet" ] || return 0
    local line
    printf -v line '%s: %d of %d, %d:%02d: %s' "$program" $step "$steps" $((SECONDS / 60)) $((SECONDS % 60)) "$1"
    if [ -t 2 ]; then
        printf '\r\033[K%s' "$line" >&2
    elif [ $told_at -lt 0 ] || [ $((SECONDS - told_at)) -ge 20 ]; then
        told_at=$SECONDS
        printf '%s\n' "$line" >&2
    fi
}

# told: they are all done
told() {
    if [ -z "$quiet" ] && [ -t 2 ]; then printf '\r\033[K' >&2; fi
}
