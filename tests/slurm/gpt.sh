#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# The trainer as a batch job of a private Slurm: stopped by a signal it saves, is queued again, and goes on to the last step.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
. "$top_srcdir/tests/slurm/slurm.sh"
slurm_need
gpt=$top_builddir/examples/gpt/weir-gpt
[ -x "$gpt" ] || { echo "there is no trainer in this build"; exit 77; }
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 1
slurm_up 1
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%d and %d make %d;\n", i % 7, i % 5, i % 7 + i % 5 }' >"$scratch/text"
# The number of steps changes while the job is in the queue.
cat >"$scratch/gpt" <<END
#!/bin/sh
exec "$gpt" "\$@" --steps "\$(cat "$scratch/steps")"
END
chmod +x "$scratch/gpt"
echo 10000000 >"$scratch/steps"
export WEIR_GPT=$scratch/gpt GPT_CHECKPOINTS=$scratch/ckpt OPENBLAS_NUM_THREADS=1
model="--layers 2 --width 16 --heads 2 --context 16 --pp 2 --zero 3 --eval-every 0 --lr-schedule constant --log-every 10"
mpi=pmi2
grep -q '^#define HAVE_PMIX 1' "$top_builddir/config.h" && mpi=pmix
export GPT_MPI=$mpi

steps() { sed -n 's/^step *\([0-9]*\).*/\1/p' "$scratch/out" | tail -n 1; }
GPT_OPTIONS="$model" in_slurm sbatch -n2 -o "$scratch/out" "$top_srcdir/examples/gpt/weir-gpt.sbatch" "$scratch/text" >"$scratch/job"
job=$(grep -oE '[0-9]+$' "$scratch/job")
for _ in $(seq 200); do
    [ -s "$scratch/ckpt.out" ] && grep -q '^step' "$scratch/ckpt.out" && break
    sleep 0.1
done
in_slurm scancel --signal=USR1 "$job.0" || in_slurm scancel --signal=USR1 "$job"
for _ in $(seq 200); do
    [ -e "$scratch/out" ] && grep -q 'stopped by a signal' "$scratch/out" && break
    sleep 0.1
done
out=$(cat "$scratch/out" "$scratch/ckpt.out" 2>/dev/null)
has 'stopped by a signal'
compgen -G "$scratch/ckpt/*/COMMITTED" >/dev/null || complain "nothing was saved"
made=$(steps)
echo $((made + 1000)) >"$scratch/steps"
# It is in the queue again, and goes on at that step.
ended() {
    for _ in $(seq 400); do
        grep -q 'trained after' "$scratch/out" && return
        sleep 0.1
    done
    return 1
}
run "queued again" ended
out=$(cat "$scratch/out"; in_slurm scontrol show job "$job")
has "trained after $((made + 1000)) steps"
has 'Restarts=1'
first=$(sed -n 's/^step *\([0-9]*\).*/\1/p' "$scratch/ckpt.out" | head -n 1)
[ "$first" -gt "$((made - 10))" ] && [ "$first" -le "$((made + 10))" ] || complain "went on at step $first after $made"
verdict
