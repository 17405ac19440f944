#!/bin/sh
# parallel.sh MODEL IN OUT PARTS [OPTION OF PARALLEL...]: GNU parallel, a process for each part of the lines; those that die are tried again.
# On other machines: -S host1,host2, where MODEL, IN and OUT are on a file system that all of them have. Threads of each: THREADS=8
set -eu
model=$1 in=$2 out=$3 parts=$4
shift 4
seq 0 $((parts - 1)) | parallel --retries 3 "$@" "${INFER:-infer}" map "$model" -t "${THREADS:-1}" --in "$in" --part "{}/$parts" \
    --out "$out.{}.jsonl" --resume --allow-failed
