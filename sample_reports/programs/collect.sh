#!/usr/bin/env bash
# Collects the sample reports: bash collect.sh FOLDER
# Needs an NVIDIA GPU of compute capability 9.0, nvcc, ncu and a python3 with PyTorch.
set -u

if [ $# -ne 1 ]; then
    echo "usage: bash collect.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
programs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

# No step starts, or goes on, after this many seconds.
deadline=500

# Caches of compiled kernels live in the build folder: the plain run fills them, so that nothing is
# compiled under the profiler.
export TORCHINDUCTOR_CACHE_DIR=$build/inductor TRITON_CACHE_DIR=$build/triton
export TORCHINDUCTOR_COMPILE_THREADS=1

. "$programs/collecting.sh"

collect_tour() {
    echo "== tour"
    find_headers
    step "build tour" 120 nvcc -O3 -arch=sm_90 -lineinfo "${includes[@]}" -o tour tour.cu || return
    step "tour, plain" 60 env CUDA_MODULE_LOADING=EAGER ./tour
    collect_sections tour 170 "${sections[@]}" -- ./tour
    collect_sections tour_source 60 "${sections[@]}" --import-source yes --kernel-name \
        'regex:^(energy_array_of_structs|shared_walk_conflicts|filter_spilled|branches_mixed_in_warp)$' \
        -- ./tour
}

collect_attention() {
    local mode
    echo "== attention"
    for mode in eager sdpa compile; do
        step "attention $mode, plain" 90 python3 attention.py "$mode" &&
            collect_sections "attention_$mode" 90 "${sections[@]}" -- python3 attention.py "$mode"
    done
}

# Source is kept in tour_source alone; the others shrink to a tenth.
make_small() {
    local name
    echo "== small reports"
    for name in tour attention_eager attention_sdpa attention_compile; do
        [ -s "$out/$name.ncu-rep" ] || continue
        mv "$out/$name.ncu-rep" "$build/$name.full"
        step "slim $name" 60 python3 "$programs/slim.py" "$build/$name.full" "$out/$name.ncu-rep"
    done
}

summarise() {
    local name
    echo "== summary after $SECONDS s"
    for name in tour tour_source attention_eager attention_sdpa attention_compile; do
        if [ -s "$out/$name.ncu-rep" ]; then
            printf '%-28s %9d bytes\n' "$name.ncu-rep" "$(stat -c %s "$out/$name.ncu-rep")"
        else
            printf '%-28s   missing\n' "$name.ncu-rep"
        fi
    done
    if [ ${#failures[@]} -eq 0 ]; then
        echo "every step went well"
    else
        printf 'failed: %s\n' "${failures[@]}"
        return 1
    fi
}

main() {
    cp "$programs/tour.cu" "$programs/attention.py" "$build" && cd "$build" || return
    show_tools
    choose_sections_and_metrics
    collect_tour
    collect_attention
    make_small
    summarise
}

main 2>&1 | tee "$out/collect.log"
exit "${PIPESTATUS[0]}"
