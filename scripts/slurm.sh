#!/bin/bash
# Train, sweep or evolve on several nodes: sbatch scripts/slurm.sh train ppo CartPole-v1 --seeds 64 --out runs/many
# Every task is a process; JAX finds the others by SLURM's variables. Submitted again, it goes on where it stopped.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@60
#SBATCH --requeue
set -euo pipefail

command=${1:?say what to run: train, sweep or evolve}
shift
out=$(printf '%s\n' "$@" | sed -n '/^--out$/{n;p;}')
: "${out:?give --out DIR, a folder that all nodes see}"

if [[ -d "$out" ]]; then
  srun --kill-on-bad-exit=1 purerl "$command" --distributed --plain --resume "$out"
else
  srun --kill-on-bad-exit=1 purerl "$command" --distributed --plain "$@"
fi
