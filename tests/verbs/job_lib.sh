# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# Sourced by the jobs of the emulated machines.
. "$top_srcdir/tests/multi/multi_lib.sh"
export WEIR_LOG=warn

# The program itself instead of libtool's script, which would write into the build folder.
binary() {
    local path=$B/tests/$1
    if [ -x "$(dirname "$path")/.libs/$(basename "$path")" ]; then
        path=$(dirname "$path")/.libs/$(basename "$path")
    fi
    echo "$path"
}
export LD_LIBRARY_PATH=$B/.libs
weirrun=$B/tools/weirrun
[ ! -x "$B/tools/.libs/weirrun" ] || weirrun=$B/tools/.libs/weirrun
conformance=$(binary multi/transport_conformance)
p2p=$(binary multi/p2p_test)
mem=$(binary multi/mem_test)

# timed LABEL COMMAND...: run, and say when it ended
timed() {
    run "$@"
    echo "[$(cut -d' ' -f1 /proc/uptime)] $label: status $status"
}

# over WAY SECONDS COMMAND...: with a limit and the variables that choose the way
over() {
    local way=$1 limit=(timeout -k 5 "$2")
    shift 2
    case $way in
    any) "${limit[@]}" "$@" ;;
    rxm) WEIR_TRANSPORT=ofi WEIR_OFI_PROVIDER='verbs;ofi_rxm' "${limit[@]}" "$@" ;;
    rc) WEIR_TRANSPORT=ucx WEIR_UCX_TLS=rc_verbs,ud_verbs:aux,self "${limit[@]}" "$@" ;;
    ud) WEIR_TRANSPORT=ucx WEIR_UCX_TLS=ud_verbs,self "${limit[@]}" "$@" ;;
    esac
}
transport_of() { [ "$1" = rxm ] && echo ofi || echo ucx; }
# The ways that this build has.
ways() {
    networks | sed 's/ofi/rxm/; s/ucx/rc ud/'
}
