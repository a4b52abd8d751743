#!/usr/bin/env bash
# An array job of four shards of which two are cancelled while they run, and the same line again; cluster/slurm_here.sh runs
# it:  slurm_array.sh DSHAP JOB.toml STORE
set -euo pipefail
dshap=$1
job=$2
store=$3

n_blocks() {  # with receipts of their own, or packed into one
    {
        find "$store" -path '*/receipts/*.json' -printf '0-0.json\n'
        find "$store" -path '*/packs/blocks-*.json'
    } | awk -F '[-.]' '{ n += $(NF - 1) - $(NF - 2) + 1 } END { print n + 0 }'
}

n_jobs() {
    squeue --noheader --array --format=%i | wc -l
}

submit() {
    sbatch --parsable --array=1-4 --output=/dev/null --wrap "$dshap run $job --shard auto/4 -q"
}

"$dshap" run "$job" --only learn -q
tasks=$(submit)
for _ in $(seq 2400); do
    [ "$(n_blocks)" -ge 3 ] && break
    sleep 0.05
done
scancel "${tasks}_1" "${tasks}_3"
for _ in $(seq 2400); do
    [ "$(n_jobs)" = 0 ] && break
    sleep 0.05
done
echo "after two were cancelled: $(n_blocks)"
status=0
"$dshap" run "$job" --only finish -q || status=$?
echo "finish: $status"
tasks=$(submit)
for _ in $(seq 2400); do
    [ "$(n_jobs)" = 0 ] && break
    sleep 0.05
done
echo "after the same line: $(n_blocks)"
"$dshap" run "$job" --only finish -q
