#!/usr/bin/env bash
# Times the training loop of train_loop.py and collects its timelines: bash timeline.sh FOLDER
# Needs an NVIDIA GPU and a python3 with PyTorch; with two GPUs it also records two ranks, the second one
# late; where nsys is installed, it also records with that.
set -u

if [ $# -ne 1 ]; then
    echo "usage: bash timeline.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
programs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deadline=400

. "$programs/collecting.sh"
cd "$out" || exit
loop=$programs/train_loop.py

# One core is left to each loader process and to the loop.
export OMP_NUM_THREADS=1

one_gpu() {
    local mode run
    for mode in wasteful tuned graph; do
        for run in 1 2; do
            step "$mode, timed, run $run" 60 python3 "$loop" $mode
        done
        step "$mode, PyTorch profiler" 90 python3 "$loop" $mode --record torch --out timeline_$mode
        ! command -v nsys >/dev/null || step "$mode, nsys" 90 env NSYS_NVTX_PROFILER_REGISTER_ONLY=0 \
            nsys profile --trace cuda,nvtx,osrt --cuda-graph-trace node --osrt-threshold 5000 --sample none \
            --cpuctxsw none --backtrace none --capture-range nvtx --nvtx-capture record --capture-range-end stop \
            --force-overwrite true --output timeline_$mode python3 "$loop" $mode --record nvtx
    done
}

two_ranks() {
    local ranks=(torchrun --standalone --nproc-per-node 2 "$loop" tuned)
    step "two ranks, timed" 90 "${ranks[@]}"
    step "two ranks, the second late, timed" 90 "${ranks[@]}" --late-rank 1
    step "two ranks, the second late, PyTorch profiler" 90 "${ranks[@]}" --late-rank 1 --record torch \
        --out timeline_ddp
}

main() {
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)'
    one_gpu
    [ "$(nvidia-smi --list-gpus | wc -l)" -lt 2 ] || two_ranks
    ls -l
    if [ ${#failures[@]} -ne 0 ]; then
        printf 'failed: %s\n' "${failures[@]}"
        return 1
    fi
}

main 2>&1 | tee "$out/timeline.log"
exit "${PIPESTATUS[0]}"
