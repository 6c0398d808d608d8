#!/usr/bin/env bash
#SBATCH --job-name=ztensor-convert
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --requeue
# A Slurm array: each element does the task of its index, and is queued again where its node fails. In a folder of all nodes:
#   ztensor convert source.safetensors out/model.safetensors --plan > job.json
#   tasks=$(node -p 'require("./job.json").tasks.length')
#   id=$(sbatch --parsable --array="0-$((tasks - 1))" slurm.sh job.json)
#   sbatch --dependency="afterok:$id" --wrap='ztensor finish job.json results/*.json'
set -euo pipefail

job=${1:?usage: sbatch --array=0-N slurm.sh job.json}
results=$(dirname "$job")/results
mkdir -p "$results"

# The result gets its name when it is whole.
temporary=$(mktemp "$results/.$SLURM_ARRAY_TASK_ID.XXXXXX")
trap 'rm -f "$temporary"' EXIT
ztensor task "$job" "$SLURM_ARRAY_TASK_ID" > "$temporary"
mv "$temporary" "$results/$SLURM_ARRAY_TASK_ID.json"
