#!/usr/bin/env bash
# Counts the tensor operations of products of known size: bash tensor_counts.sh FOLDER
# Needs a GPU of compute capability 9.0, ncu and a python3 with PyTorch. Writes tensor_counts.ncu-rep.
set -u

mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2

names=gpu__time_duration.sum,sm__cycles_elapsed.avg.per_second,sass__inst_executed_per_opcode
names+=,sass__inst_executed_per_opcode_with_modifier_all
names+=,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
for source in bf16_dst_fp32 fp16 tf32_dst_fp32 fp8 int8 fp64; do
    for sparsity in "" _sparsity_off; do
        metric=sm__ops_path_tensor_src_$source$sparsity
        names+=,$metric.sum,$metric.sum.peak_sustained
    done
done
timeout 100 ncu --clock-control none --profile-from-start off --nvtx --target-processes all -f \
    --metrics "$names" -o "$out/tensor_counts" python3 tensor_counts.py
