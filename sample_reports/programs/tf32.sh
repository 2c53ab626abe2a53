#!/usr/bin/env bash
# Collects five float32 products, and the same on the tensor cores: bash tf32.sh FOLDER
# Needs a GPU of compute capability 9.0, ncu and a python3 with PyTorch. Writes tf32_off.ncu-rep and tf32_on.ncu-rep.
set -u

mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2

names=dram__bytes.sum,dram__bytes_read.sum,dram__bytes_write.sum
for operation in ffma fadd fmul; do
    names+=,smsp__sass_thread_inst_executed_op_${operation}_pred_on.sum.per_cycle_elapsed
done
names+=,sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained
for source in bf16_dst_fp32 fp16 tf32_dst_fp32 fp8; do
    for sparsity in "" _sparsity_off; do
        metric=sm__ops_path_tensor_src_$source$sparsity
        names+=,$metric.sum,$metric.sum.per_second,$metric.sum.peak_sustained
    done
done
sections=()
for section in SpeedOfLight ComputeWorkloadAnalysis MemoryWorkloadAnalysis MemoryWorkloadAnalysis_Tables LaunchStats \
    Occupancy SchedulerStats WarpStateStats InstructionStats; do
    sections+=(--section "$section")
done
for mode in off on; do
    timeout 100 ncu --clock-control none --profile-from-start off --nvtx --target-processes all -f \
        --metrics "$names" "${sections[@]}" -o "$out/full" python3 tf32.py "$mode" &&
        python3 slim.py "$out/full.ncu-rep" "$out/tf32_$mode.ncu-rep" without-sections && rm "$out/full.ncu-rep"
done
