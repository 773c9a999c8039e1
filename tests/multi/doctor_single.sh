#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-doctor as a single process: everything is looked at, a limit that hurts is a PROBLEM and exit code 1.
# timeout: 150
doctor=$top_builddir/tools/weir-doctor
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"
"$doctor" --help | grep -q '^usage: weir-doctor' || complain "--help"
"$doctor" --nonsense 2>/dev/null
[ $? -eq 2 ] || complain "a wrong option is not exit code 2"

out=$("$doctor" 2>&1)
code=$?
problems=$(grep -c '^  PROBLEM ' <<<"$out")
[ $code -eq $((problems > 0)) ] || complain "exit code $code with $problems problems"
for subject in launcher PMI /dev/shm 'huge pages' 'memory limit' 'ptrace scope' cross-memory kernel network 'locked memory' \
    'open files' cpus 'network interface' 'ranks and cpus'; do
    grep -qE "^  (ok|note|WARNING|PROBLEM) +$subject  " <<<"$out" || complain "nothing on '$subject' in: $out"
done
grep -qE '^[0-9]+ ok, [0-9]+ notes?, [0-9]+ warnings?, [0-9]+ problems?$' <<<"$out" || complain "no totals"

# 40 descriptors are enough for the doctor, but no job can live on them
out=$(ulimit -n 40 && "$doctor" 2>&1)
code=$?
[ $code -eq 1 ] || complain "exit code $code with 40 open files"
grep -qE '^  PROBLEM  open files +limited to 40; connections to 1 ranks? may need 66' <<<"$out" || complain "no PROBLEM of open files in: $out"
grep -q 'fix: ulimit -n 65536' <<<"$out" || complain "no fix of open files"

# what the ranks could not start with is a PROBLEM, and the rest is looked at all the same
out=$(WEIR_NODES=many "$doctor" 2>&1)
code=$?
[ $code -eq 1 ] || complain "exit code $code with a bad configuration"
grep -q 'PROBLEM  launcher.*WEIR_NODES=many' <<<"$out" || complain "a bad configuration is not reported: $out"
grep -q ' cross-memory ' <<<"$out" || complain "a bad configuration ends the search"

if out=$("$doctor" --json 2>&1) || grep -q '"findings"' <<<"$out"; then
    grep -q '"subject": "cross-memory"' <<<"$out" || complain "no finding in the JSON"
    if command -v python3 >/dev/null; then
        python3 -c 'import json, sys; json.loads(sys.stdin.read())' <<<"$out" || complain "not valid JSON: $out"
    fi
else
    grep -q 'built without jansson' <<<"$out" || complain "--json: $out"
fi
exit $fail
