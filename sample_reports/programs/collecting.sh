# What the scripts that collect reports share; to be sourced. The caller sets out (the folder of the reports), build (a
# folder to work in) and deadline (no step goes on after so many seconds).

failures=()

# step NAME SECONDS COMMAND...: runs a command with a time limit and says how it went.
step() {
    local name=$1 limit=$2 began=$SECONDS status
    shift 2
    [ $((SECONDS + limit)) -le $deadline ] || limit=$((deadline - SECONDS))
    if [ "$limit" -le 0 ]; then
        echo "--- $name: skipped, no time left"
        failures+=("$name (skipped)")
        return 124
    fi
    echo "--- $name"
    timeout --kill-after=10 "$limit" "$@"
    status=$?
    echo "--- $name: $((SECONDS - began)) s, status $status"
    [ $status -eq 0 ] || failures+=("$name (status $status)")
    return $status
}

common=(--clock-control none --profile-from-start off --nvtx --target-processes all -f)

# collect NAME SECONDS OPTION... -- COMMAND...: writes NAME.ncu-rep.
collect() {
    local name=$1 limit=$2
    local options=()
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    step "$name" "$limit" ncu "${common[@]}" "${options[@]}" -o "$out/$name" "$@"
}

# collect_sections: the same with the sections and, unless ncu refuses them, the tensor metrics.
collect_sections() {
    local name=$1 limit=$2
    shift 2
    collect "$name" "$limit" "${metrics[@]}" "$@"
    local status=$?
    if [ ${#metrics[@]} -gt 0 ] && [ ! -s "$out/$name.ncu-rep" ] && [ $status -lt 124 ]; then
        echo "once more without the tensor metrics"
        collect "$name" "$limit" "$@"
    fi
}

show_tools() {
    echo "== tools"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    nvcc --version | tail -n 2
    ncu --version
    ncu --list-sets
    ncu --list-sections | tee "$build/sections.txt"
    ncu --query-metrics --chips gh100 >"$build/metrics.txt" 2>&1
    grep ops_path_tensor_src "$build/metrics.txt"
}

# Keeps the names that this ncu knows.
choose_sections_and_metrics() {
    # Everything in the set `full` but the sampled timelines, the links between GPUs and three roofline
    # charts: the tensor one alone takes 0.5 MB a kernel, and the metrics below say the same.
    local wanted="SpeedOfLight SpeedOfLight_RooflineChart SpeedOfLight_HierarchicalSingleRooflineChart
        ComputeWorkloadAnalysis MemoryWorkloadAnalysis MemoryWorkloadAnalysis_Chart
        MemoryWorkloadAnalysis_Tables LaunchStats Occupancy SchedulerStats WarpStateStats
        InstructionStats SourceCounters WorkloadDistribution"
    local section source sparsity metric names=""
    sections=()
    for section in $wanted; do
        if ! awk '{print $1}' "$build/sections.txt" | grep -x "$section" >/dev/null; then
            echo "this ncu has no section $section"
            continue
        fi
        sections+=(--section "$section")
    done

    # Exact counts of tensor operations, by the type of their inputs.
    for source in bf16_dst_fp32 fp16 tf32_dst_fp32 fp8 int8 fp64; do
        for sparsity in "" _sparsity_off; do
            metric=sm__ops_path_tensor_src_$source$sparsity
            if awk '{print $1}' "$build/metrics.txt" | grep -x "$metric" >/dev/null; then
                names+=,$metric.sum,$metric.sum.per_second,$metric.sum.peak_sustained
            fi
        done
    done
    metrics=()
    [ -z "$names" ] || metrics=(--metrics "${names#,}")
    echo "sections: ${sections[*]}"
    echo "metrics: ${metrics[*]}"
}

# The folders of headers that a slim CUDA toolkit may lack but Python's packages hold.
find_headers() {
    local header found
    includes=()
    for header in nvtx3/nvToolsExt.h cuda_profiler_api.h; do
        if ! echo "#include <$header>" | nvcc -E -x cu - >/dev/null 2>&1; then
            found=$(find "$(python3 -c 'import sys; print(sys.prefix)')" -path "*/include/$header" \
                -print -quit)
            echo "nvcc does not find $header; taking ${found:-none}"
            [ -z "$found" ] || includes+=(-I "${found%/"$header"}")
        fi
    done
}
