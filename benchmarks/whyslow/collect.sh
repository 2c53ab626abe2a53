#!/usr/bin/env bash
# Collects the reports of the planted kernels: bash collect.sh FOLDER
# Needs an NVIDIA H200 (compute capability 9.0, 132 SMs), nvcc, ncu and a python3 with PyTorch and Triton.
#
# FOLDER gets whyslow_{memory,waits,compute,triton,torch,source}.ncu-rep, timings.json and collect.log.
#
# WHYSLOW_ONLY names the programs to collect instead, WHYSLOW_PAIRS a regular expression of their pairs and controls:
#     WHYSLOW_ONLY="held_out torch" WHYSLOW_PAIRS="^(held-|torch-flash2)" bash collect.sh FOLDER
# FOLDER then gets whyslow_PROGRAM_more.ncu-rep (whyslow_held_out.ncu-rep) and timings_more.json: beside the reports of a
# whole collection, they replace what they hold of it.
set -u

if [ $# -ne 1 ]; then
    echo "usage: bash collect.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=$(cd "$here/../../sample_reports/programs" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

everything="memory waits compute triton torch"
read -r -a wanted <<<"${WHYSLOW_ONLY:-$everything}"
pairs=${WHYSLOW_PAIRS:-}

# No step starts, or goes on, after this many seconds.
if [ "${wanted[*]}" = "$everything" ]; then
    deadline=${WHYSLOW_SECONDS:-540}
    more=""
else
    deadline=${WHYSLOW_SECONDS:-280}
    more=_more
fi

# The plain runs fill the caches of compiled kernels, so that nothing is compiled under the profiler.
export TORCHINDUCTOR_CACHE_DIR=$build/inductor TRITON_CACHE_DIR=$build/triton
# One thread, so that no process of workers is started for the profiler to follow.
export TORCHINDUCTOR_COMPILE_THREADS=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

. "$programs/collecting.sh"

began_at=$(date +%s)
cuda=() python=()
for name in "${wanted[@]}"; do
    case $name in
    triton | torch) python+=("$name") ;;
    *) cuda+=("$name") ;;
    esac
done

# report_of PROGRAM: the name of its report. What is held out has a report of its own anyway.
report_of() {
    case $1 in
    held_out) echo whyslow_held_out ;;
    *) echo "whyslow_$1$more" ;;
    esac
}

# until_second N: the programs start no further pair after second N, so that ncu still writes its report.
until_second() { export WHYSLOW_DEADLINE=$((began_at + $1)); }

build_all() {
    local name jobs=()
    echo "== build"
    find_headers
    for name in "${cuda[@]}"; do
        step "build $name" 120 nvcc -O3 -arch=sm_90 -lineinfo -std=c++17 "${includes[@]}" -o "$name" "$name.cu" &
        jobs+=($!)
    done
    wait "${jobs[@]}"
    # What a background step appends to the failures is lost.
    for name in "${cuda[@]}"; do
        [ -x "$name" ] || failures+=("build $name")
    done
}

# A pair that fails ends a CUDA program, because the device may be unusable for it: the next try leaves the pair out.
plain_runs() {
    local name try
    echo "== plain runs"
    until_second $((deadline * 4 / 9))
    for name in "${cuda[@]}"; do
        for try in 1 2 3 4 5; do
            rm -f "$name.times"
            step "$name, plain, try $try" 60 \
                "./$name" --only "$pairs" --skip "$name.skip" --timings "$name.times" && break
        done
    done
    for name in "${python[@]}"; do
        step "$name, plain" 120 \
            python3 "whyslow_$name.py" --only "$pairs" --skip "$name.skip" --timings "$name.times"
    done
}

# profile NAME SECOND COMMAND...: no pair starts after that second; a kernel and the writing of the report come after.
profile() {
    local name=$1 second=$2
    shift 2
    until_second "$second"
    collect_sections "$(report_of "$name")" $((second + 30 - SECONDS)) "${sections[@]}" -- \
        "$@" --profile --only "$pairs" --skip "$name.skip"
}

profile_all() {
    local name
    echo "== profiles"
    if [ -n "$more" ]; then
        for name in "${cuda[@]}"; do profile "$name" $((deadline - 60)) "./$name"; done
        for name in "${python[@]}"; do profile "$name" $((deadline - 40)) python3 "whyslow_$name.py"; done
        return
    fi
    profile memory 270 ./memory
    profile waits 360 ./waits
    profile compute 400 ./compute
    profile triton 440 python3 whyslow_triton.py
    profile torch 505 python3 whyslow_torch.py
    profile_with_source
}

# A few weak kernels once more with their source lines: two programs, one report.
profile_with_source() {
    until_second 525
    collect_sections whyslow_source 60 "${sections[@]}" --import-source yes --kernel-name \
        'regex:^(shade_vertices|pack_by_pixel|columns_packed|mix_capped|iterate_mixed)$' -- \
        bash -c "./memory --profile --only '^(load-aos|store-packed|bank-columns|spill-cap)\$'
            ./compute --profile --only '^divergence-loops\$'"
}

times_to_json() {
    python3 - "$out/timings$more.json" ./*.times <<'PYTHON'
import json
import sys

found = {}
for path in sys.argv[2:]:
    with open(path) as file:
        for line in file:
            pair, slow, cured = line.split()
            sides = found.setdefault(pair, {})
            for side, time in (("slow_us", float(slow)), ("cured_us", float(cured))):
                if time:
                    sides[side] = round(time, 1)
with open(sys.argv[1], "w") as file:
    json.dump(found, file, indent=1)
    file.write("\n")
print(f"{len(found)} timings")
PYTHON
}

make_small() {
    local name report
    for name in "${wanted[@]}"; do
        report=$out/$(report_of "$name").ncu-rep
        [ -s "$report" ] || continue
        mv "$report" "$build/$name.full"
        step "slim $name" 60 python3 "$programs/slim.py" "$build/$name.full" "$report" without-sections
    done
}

summarise() {
    local name report names=("${wanted[@]}")
    echo "== summary after $SECONDS s"
    [ -n "$more" ] || names+=(source)
    for name in "${names[@]}"; do
        report=$(report_of "$name").ncu-rep
        if [ -s "$out/$report" ]; then
            printf '%-28s %9d bytes\n' "$report" "$(stat -c %s "$out/$report")"
        else
            printf '%-28s   missing\n' "$report"
        fi
    done
    grep -H . ./*.skip 2>/dev/null | sed 's/^/left out: /'
    echo "pairs with different results: $(grep -c ': DIFFERENT$' "$out/collect.log")"
    if [ ${#failures[@]} -eq 0 ]; then
        echo "every step went well"
    else
        printf 'failed: %s\n' "${failures[@]}"
        return 1
    fi
}

main() {
    cp "$here"/*.cu "$here"/*.cuh "$here"/*.py "$build" && cd "$build" || return
    show_tools
    choose_sections_and_metrics
    build_all
    plain_runs
    times_to_json
    profile_all
    make_small
    summarise
}

main 2>&1 | tee "$out/collect.log"
exit "${PIPESTATUS[0]}"
