#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 60
# Includes go only down: which folder may include which, as doc/architecture.md has it. Tests may include anything.
set -u
cd "${top_srcdir:-.}" || exit 99

# "path:line:included" for each #include "..." outside the tests
list() {
    for dir in include base topo comm optim mpi tools perf examples; do
        [ -d "$dir" ] && find "$dir" -name '*.[ch]' -type f
    done | sort | xargs grep -nE '^[ 	]*#[ 	]*include[ 	]*["<]' /dev/null |
        sed -nE 's/^([^:]*):([0-9]+):[^"<]*["<]([^">]*)[">].*/\1:\2:\3/p'
}

list | awk -F: '
function folder(path) { # the owner in the table of a path, "" for none of ours
    if (path ~ /^comm\/context/) return "comm/context"
    if (path ~ /^comm\/comm\./) return "comm/comm"
    if (path ~ /^comm\/(boot|engine|kernel|p2p|mem|plan|coll)\//) { split(path, p, "/"); return p[1] "/" p[2] }
    if (path ~ /^comm\/transport\/[^\/]*\//) { split(path, p, "/"); return p[1] "/" p[2] "/" p[3] }
    if (path ~ /^comm\/transport\//) return "comm/transport"
    if (path ~ /^(base|topo|comm|optim|mpi|tools|perf|examples|tests|include)\//) { split(path, p, "/"); return p[1] }
    return ""
}
function lists(who, what) { split(what, w, " "); for (i in w) may[who, w[i]] = 1 }
BEGIN {
    lists("base", "base")
    lists("topo", "topo base")
    lists("comm/boot", "comm/boot topo base")
    lists("comm/transport", "comm/transport topo base")
    lists("comm/kernel", "comm/kernel base")
    lists("comm/context", "comm/context comm/boot topo base")
    lists("comm/engine", "comm/engine comm/context comm/boot comm/transport topo base")
    lists("comm/p2p", "comm/p2p comm/comm comm/engine comm/context comm/transport topo base")
    lists("comm/comm", "comm/comm comm/p2p comm/engine comm/context comm/transport topo base")
    lists("comm/mem", "comm/mem comm/comm comm/p2p comm/engine comm/context comm/transport topo base")
    lists("comm/plan", "comm/plan comm/kernel comm/mem comm/comm comm/p2p comm/engine comm/context comm/transport topo base")
    lists("comm/coll", "comm/coll comm/plan comm/kernel comm/mem comm/comm comm/p2p comm/engine comm/context comm/transport topo base")
    lists("comm", "comm comm/coll comm/plan comm/kernel comm/mem comm/comm comm/p2p comm/engine comm/context comm/transport comm/boot topo base")
    lists("optim", "optim base")
    lists("tools", "tools base")
    lists("mpi", "mpi"); lists("perf", "perf"); lists("examples", "examples")
}
{
    from = folder($1); what = $3; to = folder(what); n++
    if (what ~ /^weir\//) next                        # public headers: everybody
    if (to == "" && (system("test -f " substr($1, 1, match($1, /[^\/]*$/) - 1) what) != 0)) next  # a system header
    ok = ((from, to) in may)
    if (from ~ /^comm\/transport\//)                  # a transport: its own folder and the common header, no sibling
        ok = to == from || to == "comm/transport" || to == "topo" || to == "base"
    if (from == "comm" && to ~ /^comm\/transport\//) ok = 1                # the table of all transports
    if (from == "comm/engine" && to ~ /^comm\/transport\/(trace|fault|contrary)$/) ok = 1  # the layers that it puts on
    if (from ~ /^comm\/(mem|plan|coll)$/ && what == "comm/transport/shm/shm.h") ok = 1  # memory and sleepers of the node
    if ($1 ~ /^comm\/transport\/[^\/]*$/ && $1 ~ /table/ && to ~ /^comm\/transport\//) ok = 1
    if ($1 ~ /^tools\/weirrun/ && (to == "comm/boot" || to == "topo")) ok = 1  # the server; the check of placements
    if ($1 ~ /^tools\/weir-plan/ && to == "comm/plan") ok = 1
    if (!ok) { print $1 ":" $2 ": may not include \"" what "\""; bad++ }
}
END {
    if (!n) { print "no include was found: is top_srcdir right?"; exit 99 }
    if (bad) { print bad " includes go up or sideways"; exit 1 }
    print n " includes looked at, all go down"
}'
