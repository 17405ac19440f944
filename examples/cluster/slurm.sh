#!/bin/bash
# slurm.sh: one array task for each part of the lines: sbatch --export=ALL,MODEL=model.gguf,IN=in.jsonl,OUT=out slurm.sh
#SBATCH --job-name=infer-map --array=0-7 --cpus-per-task=8 --requeue --time=08:00:00
#SBATCH --signal=B:TERM@60
# A task that is ended or requeued goes on where it was. The replies are in OUT.0.jsonl, OUT.1.jsonl, ...
part=$SLURM_ARRAY_TASK_ID
exec "${INFER:-infer}" map "$MODEL" -t "${SLURM_CPUS_PER_TASK:-1}" --grace 30 --in "$IN" --part "$part/$SLURM_ARRAY_TASK_COUNT" \
    --out "$OUT.$part.jsonl" --resume --allow-failed
