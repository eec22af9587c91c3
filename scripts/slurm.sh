#!/bin/bash
# Train, sweep or evolve on several nodes: sbatch scripts/slurm.sh train ppo CartPole-v1 --seeds 64 --out runs/many
# Every task is one process; JAX finds the others through SLURM's variables. If the job is preempted or reaches its time
# limit, it is queued again and resumes. It also resumes if you submit it again.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

command=${1:?say what to run: train, sweep or evolve}
shift
out=$(printf '%s\n' "$@" | sed -n '/^--out$/{n;p;}')
: "${out:?give --out DIR, a folder that all nodes see}"

late=
stop() { # 120 seconds before the time limit
  late=1
  scancel --signal=TERM "$SLURM_JOB_ID" # the processes save and end
}
trap stop USR1

if [[ -d "$out" ]]; then
  srun --kill-on-bad-exit=1 purerl "$command" --distributed --plain --resume "$out" &
else
  srun --kill-on-bad-exit=1 purerl "$command" --distributed --plain "$@" &
fi
step=$! code=
while [[ -z $code ]]; do
  wait "$step" && code=0 || code=$?
  if kill -0 "$step" 2>/dev/null; then code=; fi # the trap interrupted `wait`; the processes still run
done
if [[ -n $late && $code -ne 0 ]]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
