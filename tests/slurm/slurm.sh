# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Sourced after tests/net/hosts.sh: a private Slurm (munged, slurmctld, one slurmd a host) on the hosts of this test.
#
#   slurm_need            ends with 77 when a program is missing
#   slurm_up N            on hosts h0..h(N-1), with a tree of switches when N is 4: leaf0 (h0, h1), leaf1 (h2, h3), spine
#   in_slurm COMMAND...   runs srun, sbatch, salloc, ... on h0

slurm_need() {
    local program
    for program in munged slurmctld slurmd srun sinfo; do
        command -v $program >/dev/null || { echo "missing: $program (packages slurm-wlm, slurm-client and munge)"; exit 77; }
    done
}

slurm_configuration() {
    local n=$1 i
    cat <<END
ClusterName=weir
SlurmctldHost=h0(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# a job that is queued again waits until its credential has expired
AuthInfo=socket=$slurm/run/munge.sock,cred_expire=5
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool-%n
SlurmctldPidFile=$slurm/run/slurmctld.pid
SlurmdPidFile=$slurm/run/slurmd-%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd-%n.log
# PMIx keeps its folder of the job there: hosts that share /tmp must not share it
TmpFS=$slurm/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
END
    [ "$n" -ne 4 ] || echo "TopologyPlugin=topology/tree"
    for ((i = 0; i < n; i++)); do
        echo "NodeName=h$i NodeAddr=10.77.0.$((i + 1)) CPUs=16 RealMemory=1000 State=UNKNOWN"
    done
    echo "PartitionName=p Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=FORCE:8"
}

slurm_up() {
    local n=$1 i try version
    slurm=$scratch/slurm
    mkdir -p "$slurm"/{munge,state,run}
    chmod 755 "$slurm" "$slurm/run" # munged insists that its socket can be reached
    chmod 700 "$slurm/munge"
    for ((i = 0; i < n; i++)); do mkdir -p "$slurm/spool-h$i" "$slurm/tmp-h$i"; done
    export SLURM_CONF=$slurm/slurm.conf
    unset "${!SLURM_JOB@}" "${!SLURM_STEP@}" "${!PMI@}"
    slurm_configuration "$n" >"$SLURM_CONF"
    printf 'SwitchName=leaf0 Nodes=h0,h1\nSwitchName=leaf1 Nodes=h2,h3\nSwitchName=spine Switches=leaf0,leaf1\n' \
        >"$slurm/topology.conf"
    version=$(slurmctld -V | tr -dc '0-9.' | cut -d. -f1)
    [ "${version:-0}" -lt 24 ] || echo "CgroupPlugin=disabled" >"$slurm/cgroup.conf"
    head -c 128 /dev/urandom >"$slurm/munge/key"
    chmod 600 "$slurm/munge/key"
    # One munged serves all hosts: they reach its socket by path.
    munged --key-file="$slurm/munge/key" --socket="$slurm/run/munge.sock" --pid-file="$slurm/run/munged.pid" \
        --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" || slurm_failed munged
    on h0 slurmctld -i || slurm_failed slurmctld
    for ((i = 0; i < n; i++)); do
        on "h$i" slurmd -N "h$i" || slurm_failed slurmd
    done
    for ((try = 0; try < 300; try++)); do
        [ "$(on h0 sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -ne "$n" ] || return 0
        sleep 0.1
    done
    slurm_failed "a node did not become idle, so something"
}

slurm_failed() {
    echo "$1 did not start; the logs end with:"
    tail -n 15 "$slurm"/*.log "$slurm/munge/log" 2>/dev/null
    exit 1
}

in_slurm() {
    on h0 "$@"
}
