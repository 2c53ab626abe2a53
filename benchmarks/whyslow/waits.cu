// Planted problems of launch shape, occupancy and waiting. See README.md; harness.cuh runs the pairs.
//
// Build: nvcc -O3 -arch=sm_90 -lineinfo -std=c++17 -o waits waits.cu

#include "harness.cuh"

// ------------------------------------------------------------------------- small grid: one block sums

constexpr int SUMMED = 16 << 20;  // floats: 64 MB

__device__ __forceinline__ void add_to_sum(const float4* in, float* sum) {
    __shared__ float parts[WARP];
    const int threads = gridDim.x * blockDim.x;
    float total = 0.0f;
#pragma unroll 8
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < SUMMED / 4; i += threads) {
        const float4 v = in[i];
        total += (v.x + v.y) + (v.z + v.w);
    }
    for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned warp = 1; warp < blockDim.x / WARP; ++warp) total += parts[warp];
        atomicAdd(sum, total);
    }
}

// Slow: launched with a single block.
__global__ void __launch_bounds__(1024) sum_one_block(const float4* __restrict__ in, float* __restrict__ sum) {
    add_to_sum(in, sum);
}

// Cure: two blocks for every SM.
__global__ void __launch_bounds__(1024) sum_all_blocks(const float4* __restrict__ in, float* __restrict__ sum) {
    add_to_sum(in, sum);
}

void small_grid_sum(Bench& bench) {
    Buffer<float> in(SUMMED), slow(1), cured(1);
    in.random(1);
    float* raw = in;
    const float4* wide = reinterpret_cast<const float4*>(raw);
    const auto clear = [&] { slow.clear(), cured.clear(); };
    bench.pair([&] { sum_one_block<<<1, 1024>>>(wide, slow); },
               [&] { sum_all_blocks<<<SMS * 2, 1024>>>(wide, cured); }, clear);
    clear();
    sum_one_block<<<1, 1024>>>(wide, slow);
    sum_all_blocks<<<SMS * 2, 1024>>>(wide, cured);
    bench.same(slow, cured, 1e-4);
}

// --------------------------------------------------------------- small grid: a block for each of 32 heads

constexpr int HEADS = 32;
constexpr int KEYS = 8192;
constexpr int HEAD_WIDTH = 128;

// A warp scores one key at a time: the dot product of query and key.
__device__ __forceinline__ void score(const float4* query, const float4* keys, float* scores) {
    const int lane = threadIdx.x % WARP, head = blockIdx.x;
    const float4 q = query[head * (HEAD_WIDTH / 4) + lane];
#pragma unroll 4
    for (int key = blockIdx.y * 8 + threadIdx.x / WARP; key < KEYS; key += gridDim.y * 8) {
        const float4 k = keys[(size_t(head) * KEYS + key) * (HEAD_WIDTH / 4) + lane];
        float total = q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
        for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
        if (lane == 0) scores[head * KEYS + key] = total;
    }
}

// Slow: a block a head, so 100 of the 132 SMs have nothing to do.
__global__ void __launch_bounds__(256) score_by_head(const float4* __restrict__ query, const float4* __restrict__ keys,
                                                     float* __restrict__ scores) {
    score(query, keys, scores);
}

// Cure: the keys of each head are divided among 64 blocks.
__global__ void __launch_bounds__(256) score_by_part(const float4* __restrict__ query, const float4* __restrict__ keys,
                                                     float* __restrict__ scores) {
    score(query, keys, scores);
}

void small_grid_heads(Bench& bench) {
    Buffer<float> query(HEADS * HEAD_WIDTH), keys(size_t(HEADS) * KEYS * HEAD_WIDTH);
    Buffer<float> slow(HEADS * KEYS), cured(HEADS * KEYS);
    query.random(2), keys.random(3);
    float *q = query, *k = keys;
    const float4 *wide_q = reinterpret_cast<const float4*>(q), *wide_k = reinterpret_cast<const float4*>(k);
    bench.pair([&] { score_by_head<<<HEADS, 256>>>(wide_q, wide_k, slow); },
               [&] { score_by_part<<<dim3(HEADS, 64), 256>>>(wide_q, wide_k, cured); });
    bench.same(slow, cured, 1e-6);
}

// ------------------------------------------------------------------------------------------ tail wave

constexpr int WAVE_BLOCKS = SMS * 8;  // of 256 threads
constexpr int TAIL_BLOCKS = WAVE_BLOCKS + SMS / 2;
constexpr int TAIL_CHAINS = 16;  // a thread of the slow side
constexpr int TAIL_LENGTH = 12;
constexpr int TAIL_TASKS = TAIL_BLOCKS * 256 * TAIL_CHAINS;

__device__ __forceinline__ float lookup_chain(const int* table, int task, int length) {
    int line = start_line(task, L2_LINES);
    float total = 0.0f;
#pragma unroll 1
    for (int k = 0; k < length; ++k) {
        line = follow(table, line);
        total = fmaf(total, 0.5f, float(line));
    }
    return total;
}

// Slow: half a block more for each SM than fits at once, and the second wave takes as long as the first.
__global__ void __launch_bounds__(256, 8) tail_of_a_wave(const int* __restrict__ table, float* __restrict__ out) {
    const int first = blockIdx.x * 256 * TAIL_CHAINS + threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < TAIL_CHAINS; ++k) out[first + k * 256] = lookup_chain(table, first + k * 256, TAIL_LENGTH);
}

// Cure: one whole wave shares the tasks.
__global__ void __launch_bounds__(256, 8) one_whole_wave(const int* __restrict__ table, float* __restrict__ out) {
#pragma unroll 1
    for (int task = blockIdx.x * 256 + threadIdx.x; task < TAIL_TASKS; task += WAVE_BLOCKS * 256) {
        out[task] = lookup_chain(table, task, TAIL_LENGTH);
    }
}

void tail_wave(Bench& bench) {
    Lines table(L2_LINES);
    Buffer<float> slow(TAIL_TASKS), cured(TAIL_TASKS);
    bench.pair([&] { tail_of_a_wave<<<TAIL_BLOCKS, 256>>>(table, slow); },
               [&] { one_whole_wave<<<WAVE_BLOCKS, 256>>>(table, cured); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------------------------------- partial warp

constexpr int PARTIAL_ITEMS = 320 * 12000;

__device__ __forceinline__ void iterate_item(const float* in, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], y = 1.0f - x;
#pragma unroll 8
    for (int k = 0; k < 192; ++k) {
        x = fused_step(x);
        y = fused_step(y);
    }
    out[i] = x + y;
}

// Slow: blocks of 40 threads take two warps.
__global__ void iterate_blocks_of_40(const float* __restrict__ in, float* __restrict__ out) { iterate_item(in, out); }

// Cure: blocks of 64 threads fill both.
__global__ void iterate_blocks_of_64(const float* __restrict__ in, float* __restrict__ out) { iterate_item(in, out); }

void partial_warp(Bench& bench) {
    Buffer<float> in(PARTIAL_ITEMS), slow(PARTIAL_ITEMS), cured(PARTIAL_ITEMS);
    in.random(4);
    bench.pair([&] { iterate_blocks_of_40<<<PARTIAL_ITEMS / 40, 40>>>(in, slow); },
               [&] { iterate_blocks_of_64<<<PARTIAL_ITEMS / 64, 64>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------- few blocks: one an SM, and barriers

constexpr int SCAN_LENGTH = 1024;
constexpr int SCAN_ROWS = SMS * 64;

// Running sums of a row, PARTS elements a thread, with two barriers for each doubling of the distance.
template <int THREADS>
__device__ __forceinline__ void scan_rows(const float* in, float* out) {
    constexpr int PARTS = SCAN_LENGTH / THREADS;
    __shared__ float sums[THREADS];
#pragma unroll 1
    for (int row = blockIdx.x; row < SCAN_ROWS; row += gridDim.x) {
        float own[PARTS];
        float total = 0.0f;
#pragma unroll
        for (int k = 0; k < PARTS; ++k) own[k] = total += in[row * SCAN_LENGTH + threadIdx.x * PARTS + k];
        float before = total;
        sums[threadIdx.x] = total;
        __syncthreads();
#pragma unroll 1
        for (int distance = 1; distance < THREADS; distance *= 2) {
            const float left = int(threadIdx.x) >= distance ? sums[threadIdx.x - distance] : 0.0f;
            __syncthreads();
            sums[threadIdx.x] = before += left;
            __syncthreads();
        }
        before -= total;
#pragma unroll
        for (int k = 0; k < PARTS; ++k) out[row * SCAN_LENGTH + threadIdx.x * PARTS + k] = before + own[k];
    }
}

// Slow: one block of 1024 threads an SM: while it waits at a barrier the SM has nothing else to do.
__global__ void __launch_bounds__(1024, 2) scan_one_block_an_sm(const float* __restrict__ in, float* __restrict__ out) {
    scan_rows<1024>(in, out);
}

// Cure: two of the same blocks an SM.
__global__ void __launch_bounds__(1024, 2) scan_two_blocks_an_sm(const float* __restrict__ in, float* __restrict__ out) {
    scan_rows<1024>(in, out);
}

void few_blocks(Bench& bench) {
    const size_t size = size_t(SCAN_ROWS) * SCAN_LENGTH;
    Buffer<float> in(size), slow(size), cured(size);
    in.random(5);
    bench.pair([&] { scan_one_block_an_sm<<<SMS, 1024>>>(in, slow); },
               [&] { scan_two_blocks_an_sm<<<SMS * 2, 1024>>>(in, cured); });
    bench.same(slow, cured, 1e-5);
}

// ---------------------------------------------------------------- uneven SMs: the rows of a triangle

constexpr int TRIANGLE_ROWS = SMS * 32;

__device__ __forceinline__ void triangle_row(const float* in, float* out, int row) {
    float total = 0.0f;
#pragma unroll 1
    for (int column = threadIdx.x % WARP; column <= row; column += WARP) {
        float x = in[column], y = in[row];
#pragma unroll 8
        for (int k = 0; k < 64; ++k) {
            x = fused_step(x);
            y = fused_step(y);
        }
        total += x * y;
    }
    for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
    if (threadIdx.x % WARP == 0) out[row] = total;
}

// Slow: a block takes 32 rows in a run, and the last rows are the longest.
__global__ void __launch_bounds__(1024) triangle_in_runs(const float* __restrict__ in, float* __restrict__ out) {
    triangle_row(in, out, blockIdx.x * WARP + threadIdx.x / WARP);
}

// Cure: the rows are dealt out in turn.
__global__ void __launch_bounds__(1024) triangle_dealt_out(const float* __restrict__ in, float* __restrict__ out) {
    triangle_row(in, out, threadIdx.x / WARP * SMS + blockIdx.x);
}

void imbalance_triangle(Bench& bench) {
    Buffer<float> in(TRIANGLE_ROWS), slow(TRIANGLE_ROWS), cured(TRIANGLE_ROWS);
    in.random(6);
    bench.pair([&] { triangle_in_runs<<<SMS, 1024>>>(in, slow); },
               [&] { triangle_dealt_out<<<SMS, 1024>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------- uneven SMs: a few long sequences

constexpr int SEQUENCES = SMS * 8;
constexpr int SHORT_SEQUENCE = 1024;
constexpr int LONG_SEQUENCE = 16 * SHORT_SEQUENCE;
constexpr int LONG_SEQUENCES = 20;

__device__ __forceinline__ void own_items(const float* in, const int* offsets, float* out) {
    const int end = offsets[blockIdx.x + 1];
#pragma unroll 1
    for (int i = offsets[blockIdx.x] + threadIdx.x; i < end; i += 256) {
        float x = in[i], y = 1.0f - x;
#pragma unroll 8
        for (int k = 0; k < 256; ++k) {
            x = fused_step(x);
            y = fused_step(y);
        }
        out[i] = x + y;
    }
}

// Slow: a block a sequence, and a few sequences are 16 times as long as the others.
__global__ void __launch_bounds__(256, 8) block_a_sequence(const float* __restrict__ in,
                                                           const int* __restrict__ offsets, float* __restrict__ out) {
    own_items(in, offsets, out);
}

// Cure: the items are cut into equal parts, wherever a sequence ends.
__global__ void __launch_bounds__(256, 8) block_an_equal_part(const float* __restrict__ in,
                                                              const int* __restrict__ offsets,
                                                              float* __restrict__ out) {
    own_items(in, offsets, out);
}

void imbalance_sequences(Bench& bench) {
    std::vector<int> ragged(SEQUENCES + 1, 0), equal(SEQUENCES + 1);
    for (int i = 0; i < SEQUENCES; ++i) {
        ragged[i + 1] = ragged[i] + (i % 52 == 7 && i / 52 < LONG_SEQUENCES ? LONG_SEQUENCE : SHORT_SEQUENCE);
    }
    const int items = ragged.back();
    for (int i = 0; i <= SEQUENCES; ++i) equal[i] = int(int64_t(items) * i / SEQUENCES);
    Buffer<int> ragged_offsets(ragged), equal_offsets(equal);
    Buffer<float> in(items), slow(items), cured(items);
    in.random(7);
    bench.pair([&] { block_a_sequence<<<SEQUENCES, 256>>>(in, ragged_offsets, slow); },
               [&] { block_an_equal_part<<<SEQUENCES, 256>>>(in, equal_offsets, cured); });
    bench.same(slow, cured, 0.0);
}

// ---------------------------------------------------------------------------------- clusters that do not fit

constexpr int CLUSTER_TASKS = SMS * 10;
constexpr int CLUSTER_SHARED_BYTES = 200 * 1024;  // one block an SM, on both sides

__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Each block works by itself but meets the others of its cluster at both ends, as kernels that share tiles do.
template <bool CLUSTERED>
__device__ __forceinline__ void cluster_task(const float* in, float* out) {
    extern __shared__ float scratch[];
    if (CLUSTERED) meet_cluster();
    if (blockIdx.x < CLUSTER_TASKS) {
        const int i = blockIdx.x * 1024 + threadIdx.x;
        float x = in[i], y = 1.0f - x;
#pragma unroll 8
        for (int k = 0; k < 512; ++k) {
            x = fused_step(x);
            y = fused_step(y);
        }
        scratch[threadIdx.x] = x + y;
        __syncthreads();
        out[i] = scratch[threadIdx.x ^ 1];
    }
    if (CLUSTERED) meet_cluster();
}

// Slow: clusters of a size that leaves many SMs of a GPC without a partner.
__global__ void __launch_bounds__(1024) tasks_in_clusters(const float* __restrict__ in, float* __restrict__ out) {
    cluster_task<true>(in, out);
}

// Cure: no clusters.
__global__ void __launch_bounds__(1024) tasks_alone(const float* __restrict__ in, float* __restrict__ out) {
    cluster_task<false>(in, out);
}

cudaLaunchConfig_t cluster_launch(int size, cudaLaunchAttribute& attribute) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = unsigned(size);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(unsigned((CLUSTER_TASKS + size - 1) / size * size));
    config.blockDim = dim3(1024);
    config.dynamicSmemBytes = CLUSTER_SHARED_BYTES;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return config;
}

void cluster_limits(Bench& bench) {
    CHECK(cudaFuncSetAttribute(tasks_in_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize, CLUSTER_SHARED_BYTES));
    CHECK(cudaFuncSetAttribute(tasks_alone, cudaFuncAttributeMaxDynamicSharedMemorySize, CLUSTER_SHARED_BYTES));
    CHECK(cudaFuncSetAttribute(tasks_in_clusters, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    // How many SMs the GPCs of a part have differs: the size that leaves most of them empty is looked for.
    int worst = 8, fewest = SMS + 1;
    for (const int size : {6, 7, 8, 9, 10, 11, 12, 16}) {
        cudaLaunchAttribute attribute;
        const cudaLaunchConfig_t config = cluster_launch(size, attribute);
        int clusters = 0;
        if (cudaOccupancyMaxActiveClusters(&clusters, tasks_in_clusters, &config) != cudaSuccess) {
            cudaGetLastError();
            continue;
        }
        std::printf("  clusters of %d: %d blocks at once\n", size, clusters * size);
        if (clusters > 0 && clusters * size < fewest) worst = size, fewest = clusters * size;
    }
    Buffer<float> in(CLUSTER_TASKS * 1024), slow(CLUSTER_TASKS * 1024), cured(CLUSTER_TASKS * 1024);
    in.random(8);
    cudaLaunchAttribute attribute;
    const cudaLaunchConfig_t config = cluster_launch(worst, attribute);
    const float* from = in;
    float* to = slow;
    bench.pair([&] { CHECK(cudaLaunchKernelEx(&config, tasks_in_clusters, from, to)); },
               [&] { tasks_alone<<<CLUSTER_TASKS, 1024, CLUSTER_SHARED_BYTES>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------- occupancy limited by registers

constexpr int HELD_THREADS = 128;
constexpr int HELD_BLOCKS = SMS * 16;
constexpr int HELD_VALUES = 160;
constexpr int HELD_ROUNDS = 2;

// Slow: 160 coefficients stay in registers, so that few warps are there to cover the dependent look-ups.
__global__ void __launch_bounds__(HELD_THREADS) weigh_from_registers(const float* __restrict__ weights,
                                                                     const int* __restrict__ table,
                                                                     float* __restrict__ out) {
    float held[HELD_VALUES];
#pragma unroll
    for (int k = 0; k < HELD_VALUES; ++k) held[k] = weights[k * HELD_THREADS + threadIdx.x];
    // The compiler must not load them again where they are used.
#pragma unroll
    for (int k = 0; k < HELD_VALUES; ++k) asm volatile("" : "+f"(held[k]));
    const int i = blockIdx.x * HELD_THREADS + threadIdx.x;
    int line = start_line(i, L2_LINES);
    float total = 0.0f;
#pragma unroll 1
    for (int round = 0; round < HELD_ROUNDS; ++round) {
#pragma unroll
        for (int k = 0; k < HELD_VALUES; ++k) {
            line = follow(table, line);
            total = fmaf(total, 0.9f, held[k] * float(line));
        }
    }
    out[i] = total;
}

// Cure: the coefficients come from L1 when they are needed, beside the look-up.
__global__ void __launch_bounds__(HELD_THREADS, 16) weigh_from_cache(const float* __restrict__ weights,
                                                                     const int* __restrict__ table,
                                                                     float* __restrict__ out) {
    const int i = blockIdx.x * HELD_THREADS + threadIdx.x;
    int line = start_line(i, L2_LINES);
    float total = 0.0f;
#pragma unroll 1
    for (int round = 0; round < HELD_ROUNDS; ++round) {
#pragma unroll 4
        for (int k = 0; k < HELD_VALUES; ++k) {
            line = follow(table, line);
            total = fmaf(total, 0.9f, weights[k * HELD_THREADS + threadIdx.x] * float(line));
        }
    }
    out[i] = total;
}

void occupancy_registers(Bench& bench) {
    Lines table(L2_LINES);
    Buffer<float> weights(HELD_VALUES * HELD_THREADS), slow(HELD_BLOCKS * HELD_THREADS);
    Buffer<float> cured(HELD_BLOCKS * HELD_THREADS);
    weights.random(9);
    bench.pair([&] { weigh_from_registers<<<HELD_BLOCKS, HELD_THREADS>>>(weights, table, slow); },
               [&] { weigh_from_cache<<<HELD_BLOCKS, HELD_THREADS>>>(weights, table, cured); });
    bench.same(slow, cured, 1e-6);
}

// --------------------------------------------------------------------- occupancy limited by shared memory

constexpr int HISTORY_STEPS = 96;
constexpr int HISTORY_USED = 8;

// Only the last 8 look-ups are needed at the end.
template <int KEPT>
__device__ __forceinline__ void keep_history(const int* table, float* out) {
    extern __shared__ float history[];
    const int i = blockIdx.x * 128 + threadIdx.x;
    int line = start_line(i, L2_LINES);
#pragma unroll 4
    for (int k = 0; k < HISTORY_STEPS; ++k) {
        line = follow(table, line);
        history[k % KEPT * 128 + threadIdx.x] = float(line);
    }
    float total = 0.0f;
#pragma unroll
    for (int k = HISTORY_STEPS - HISTORY_USED; k < HISTORY_STEPS; ++k) {
        total = fmaf(total, 0.5f, history[k % KEPT * 128 + threadIdx.x]);
    }
    out[i] = total;
}

// Slow: all 96 are kept, 48 KB a block of 4 warps.
__global__ void __launch_bounds__(128, 16) keep_all(const int* __restrict__ table, float* __restrict__ out) {
    keep_history<HISTORY_STEPS>(table, out);
}

// Cure: a ring of 8, 4 KB a block.
__global__ void __launch_bounds__(128, 16) keep_ring(const int* __restrict__ table, float* __restrict__ out) {
    keep_history<HISTORY_USED>(table, out);
}

void occupancy_shared(Bench& bench) {
    constexpr int BLOCKS = SMS * 32, STEP = 128 * sizeof(float), ALL = HISTORY_STEPS * STEP, RING = HISTORY_USED * STEP;
    CHECK(cudaFuncSetAttribute(keep_all, cudaFuncAttributeMaxDynamicSharedMemorySize, ALL));
    Lines table(L2_LINES);
    Buffer<float> slow(BLOCKS * 128), cured(BLOCKS * 128);
    bench.pair([&] { keep_all<<<BLOCKS, 128, ALL>>>(table, slow); },
               [&] { keep_ring<<<BLOCKS, 128, RING>>>(table, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------- occupancy limited by the number, and by the size, of the blocks

constexpr int PLAIN_THREADS = 704 * 2048;  // a multiple of 32, 128, 704 and 1024

// One kernel for four launches: only the block size differs.
__global__ void look_up(const int* __restrict__ table, float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = lookup_chain(table, i, 64);
}

void occupancy_block_count(Bench& bench) {
    Lines table(L2_LINES);
    Buffer<float> slow(PLAIN_THREADS), cured(PLAIN_THREADS);
    bench.pair([&] { look_up<<<PLAIN_THREADS / 32, 32>>>(table, slow); },
               [&] { look_up<<<PLAIN_THREADS / 128, 128>>>(table, cured); });
    bench.same(slow, cured, 0.0);
}

void occupancy_block_size(Bench& bench) {
    Lines table(L2_LINES);
    Buffer<float> slow(PLAIN_THREADS), cured(PLAIN_THREADS);
    bench.pair([&] { look_up<<<PLAIN_THREADS / 704, 704>>>(table, slow); },
               [&] { look_up<<<PLAIN_THREADS / 256, 256>>>(table, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------- waiting for global memory: a pointer chase

constexpr int CHASE_THREADS = SMS * 2048;
constexpr int CHASE_CHAINS = 8;
constexpr int CHASE_STEPS = 16;

// Slow: a warp follows its chains one after another.
__global__ void __launch_bounds__(256, 8) chase_in_turn(const int* __restrict__ table, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int chain = 0; chain < CHASE_CHAINS; ++chain) {
        int line = start_line(chain * CHASE_THREADS + i, DRAM_LINES);
#pragma unroll 1
        for (int k = 0; k < CHASE_STEPS; ++k) line = follow(table, line);
        total += float(line);
    }
    out[i] = total;
}

// Cure: the chains advance together.
__global__ void __launch_bounds__(256, 8) chase_together(const int* __restrict__ table, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    int line[CHASE_CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHASE_CHAINS; ++chain) line[chain] = start_line(chain * CHASE_THREADS + i, DRAM_LINES);
#pragma unroll 1
    for (int k = 0; k < CHASE_STEPS; ++k) {
#pragma unroll
        for (int chain = 0; chain < CHASE_CHAINS; ++chain) line[chain] = follow(table, line[chain]);
    }
    float total = 0.0f;
#pragma unroll
    for (int chain = 0; chain < CHASE_CHAINS; ++chain) total += float(line[chain]);
    out[i] = total;
}

void long_chase(Bench& bench) {
    Lines table(DRAM_LINES);
    Buffer<float> slow(CHASE_THREADS), cured(CHASE_THREADS);
    bench.pair([&] { chase_in_turn<<<CHASE_THREADS / 256, 256>>>(table, slow); },
               [&] { chase_together<<<CHASE_THREADS / 256, 256>>>(table, cured); });
    bench.same(slow, cured, 0.0);
}

// ---------------------------------------------------- waiting for global memory: an index, then the value

constexpr int INDEXED_ROWS = 1 << 19;  // of 32 floats: 64 MB, whole rows at a time
constexpr int INDEXED_READS = 32;

__device__ __forceinline__ float indexed(const int* rows, const float* values, int k) {
    const int warp = (blockIdx.x * 256 + threadIdx.x) / WARP, warps = CHASE_THREADS / WARP;
    return __ldcg(values + __ldcg(rows + (k * warps + warp) % INDEXED_ROWS) * WARP + threadIdx.x % WARP);
}

// Slow: each value decides how the next one counts, and nothing is read ahead.
__global__ void __launch_bounds__(256, 8) index_then_value(const int* __restrict__ rows,
                                                           const float* __restrict__ values, float* __restrict__ out) {
    float total = 0.0f;
#pragma unroll 1
    for (int k = 0; k < INDEXED_READS; ++k) total = fmaf(total, 0.5f, indexed(rows, values, k));
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

// Cure: eight indices, then eight values, are under way at a time.
__global__ void __launch_bounds__(256, 8) indices_ahead(const int* __restrict__ rows,
                                                        const float* __restrict__ values, float* __restrict__ out) {
    float total = 0.0f;
#pragma unroll 1
    for (int k = 0; k < INDEXED_READS; k += 8) {
        float ahead[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) ahead[j] = indexed(rows, values, k + j);
#pragma unroll
        for (int j = 0; j < 8; ++j) total = fmaf(total, 0.5f, ahead[j]);
    }
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

void long_indexed(Bench& bench) {
    std::vector<int> order(INDEXED_ROWS);
    for (int i = 0; i < INDEXED_ROWS; ++i) order[i] = int(hash32(uint32_t(i)) % INDEXED_ROWS);
    Buffer<int> rows(order);
    Buffer<float> values(size_t(INDEXED_ROWS) * WARP), slow(CHASE_THREADS), cured(CHASE_THREADS);
    values.random(10);
    bench.pair([&] { index_then_value<<<CHASE_THREADS / 256, 256>>>(rows, values, slow); },
               [&] { indices_ahead<<<CHASE_THREADS / 256, 256>>>(rows, values, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------- waiting for shared memory

constexpr int SHARED_THREADS = 256;
constexpr int SHARED_CHAINS = 4;
constexpr int SHARED_STEPS = 1024;
constexpr int SHARED_ROWS = 256;

// Each lane walks down its own bank: no conflicts, but each look-up needs the one before.
__device__ __forceinline__ void fill_steps(int* steps) {
    for (int i = threadIdx.x; i < SHARED_ROWS * WARP; i += SHARED_THREADS) {
        const int row = i / WARP;
        steps[i] = ((row * 5 + 77) % SHARED_ROWS) * WARP + i % WARP;
    }
    __syncthreads();
}

__device__ __forceinline__ int first_step(int chain) {
    return (threadIdx.x / WARP * SHARED_CHAINS + chain) * 3 % SHARED_ROWS * WARP + threadIdx.x % WARP;
}

// Slow: four walks one after another.
__global__ void __launch_bounds__(SHARED_THREADS) walk_in_turn(float* __restrict__ out) {
    __shared__ int steps[SHARED_ROWS * WARP];
    fill_steps(steps);
    float total = 0.0f;
#pragma unroll 1
    for (int chain = 0; chain < SHARED_CHAINS; ++chain) {
        int at = first_step(chain);
#pragma unroll 8
        for (int k = 0; k < SHARED_STEPS; ++k) at = steps[at];
        total += float(at);
    }
    out[blockIdx.x * SHARED_THREADS + threadIdx.x] = total;
}

// Cure: the four walks advance together.
__global__ void __launch_bounds__(SHARED_THREADS) walk_together(float* __restrict__ out) {
    __shared__ int steps[SHARED_ROWS * WARP];
    fill_steps(steps);
    int at[SHARED_CHAINS];
#pragma unroll
    for (int chain = 0; chain < SHARED_CHAINS; ++chain) at[chain] = first_step(chain);
#pragma unroll 8
    for (int k = 0; k < SHARED_STEPS; ++k) {
#pragma unroll
        for (int chain = 0; chain < SHARED_CHAINS; ++chain) at[chain] = steps[at[chain]];
    }
    float total = 0.0f;
#pragma unroll
    for (int chain = 0; chain < SHARED_CHAINS; ++chain) total += float(at[chain]);
    out[blockIdx.x * SHARED_THREADS + threadIdx.x] = total;
}

void short_walk(Bench& bench) {
    Buffer<float> slow(SMS * SHARED_THREADS), cured(SMS * SHARED_THREADS);
    bench.pair([&] { walk_in_turn<<<SMS, SHARED_THREADS>>>(slow); },
               [&] { walk_together<<<SMS, SHARED_THREADS>>>(cured); });
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------------------------- waiting at a barrier

constexpr int PIVOT_STEPS = 64;
constexpr int PIVOT_LENGTH = 96;

__device__ __forceinline__ float pivot(float x) {
#pragma unroll 8
    for (int k = 0; k < PIVOT_LENGTH; ++k) x = fused_step(x);
    return x;
}

// Slow: for every step one warp works out a factor while the other 15 wait.
__global__ void __launch_bounds__(512, 4) pivot_by_one_warp(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float factor;
    const int i = blockIdx.x * 512 + threadIdx.x;
    float x = in[i];
#pragma unroll 1
    for (int step = 0; step < PIVOT_STEPS; ++step) {
        if (threadIdx.x < WARP) {
            const float found = pivot(in[blockIdx.x * PIVOT_STEPS + step]);
            if (threadIdx.x == 0) factor = found;
        }
        __syncthreads();
        x = fmaf(x, factor, 0.25f);
        __syncthreads();
    }
    out[i] = x;
}

// Cure: the factors do not need each other: all 16 warps work them out, each its share, with one barrier.
__global__ void __launch_bounds__(512, 4) pivot_all_at_once(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float factors[PIVOT_STEPS];
    const int i = blockIdx.x * 512 + threadIdx.x;
#pragma unroll 1
    for (int step = threadIdx.x / WARP; step < PIVOT_STEPS; step += 512 / WARP) {
        const float found = pivot(in[blockIdx.x * PIVOT_STEPS + step]);
        if (threadIdx.x % WARP == 0) factors[step] = found;
    }
    __syncthreads();
    float x = in[i];
#pragma unroll 8
    for (int step = 0; step < PIVOT_STEPS; ++step) x = fmaf(x, factors[step], 0.25f);
    out[i] = x;
}

void barrier_pivot(Bench& bench) {
    constexpr int BLOCKS = SMS * 16;
    Buffer<float> in(BLOCKS * 512), slow(BLOCKS * 512), cured(BLOCKS * 512);
    in.random(11);
    bench.pair([&] { pivot_by_one_warp<<<BLOCKS, 512>>>(in, slow); },
               [&] { pivot_all_at_once<<<BLOCKS, 512>>>(in, cured); });
    bench.same(slow, cured, 1e-6);
}

// ------------------------------------------------------- the queue of global accesses is full: single bytes

constexpr int BYTE_TILE = 16384;
constexpr int BYTE_BLOCKS = SMS * 16;
constexpr int BYTE_ROUNDS = 16;

// Slow: each load fetches one byte a thread from a tile that lies in L1.
__global__ void __launch_bounds__(256) sum_bytes(const uint8_t* __restrict__ in, float* __restrict__ out) {
    const uint8_t* tile = in + size_t(blockIdx.x % (SMS * 4)) * BYTE_TILE;
    unsigned total = 0;
#pragma unroll 1
    for (int round = 0; round < BYTE_ROUNDS; ++round) {
#pragma unroll 16
        for (int k = 0; k < BYTE_TILE; k += 256) {
            // As assembly, so that the rounds are not merged and L1 may still serve them.
            unsigned byte;
            asm volatile("ld.global.u8 %0, [%1];" : "=r"(byte) : "l"(tile + threadIdx.x + k));
            total += byte;
        }
    }
    out[blockIdx.x * 256 + threadIdx.x] = float(total);
}

// Cure: 16 bytes a load.
__global__ void __launch_bounds__(256) sum_wide(const uint8_t* __restrict__ in, float* __restrict__ out) {
    const uint8_t* tile = in + size_t(blockIdx.x % (SMS * 4)) * BYTE_TILE;
    unsigned total = 0;
#pragma unroll 1
    for (int round = 0; round < BYTE_ROUNDS; ++round) {
#pragma unroll
        for (int k = 0; k < BYTE_TILE; k += 256 * 16) {
            uint4 word;
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                         : "l"(tile + threadIdx.x * 16 + k));
            total = __dp4a(word.x, 0x01010101u, total);
            total = __dp4a(word.y, 0x01010101u, total);
            total = __dp4a(word.z, 0x01010101u, total);
            total = __dp4a(word.w, 0x01010101u, total);
        }
    }
    out[blockIdx.x * 256 + threadIdx.x] = float(total);
}

__global__ void add_up_blocks(const float* parts, float* sums) {
    float total = 0.0f;
    for (int i = 0; i < 256; ++i) total += parts[blockIdx.x * 256 + i];
    sums[blockIdx.x] = total;
}

void lg_bytes(Bench& bench) {
    Buffer<uint32_t> words(size_t(SMS) * BYTE_TILE);
    Buffer<float> slow(BYTE_BLOCKS * 256), cured(BYTE_BLOCKS * 256), slow_sums(BYTE_BLOCKS), cured_sums(BYTE_BLOCKS);
    words.random(12);
    uint32_t* raw = words;
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(raw);
    bench.pair([&] { sum_bytes<<<BYTE_BLOCKS, 256>>>(bytes, slow); },
               [&] { sum_wide<<<BYTE_BLOCKS, 256>>>(bytes, cured); });
    // The threads of a block add other bytes on either side: the sums of blocks are compared.
    add_up_blocks<<<BYTE_BLOCKS, 1>>>(slow, slow_sums);
    add_up_blocks<<<BYTE_BLOCKS, 1>>>(cured, cured_sums);
    bench.same(slow_sums, cured_sums, 1e-5);
}

// ---------------------------------------------------- the queue of shared accesses is full: single words

constexpr int DOT_LENGTH = 4096;
constexpr int DOT_BLOCKS = SMS * 16;
constexpr int DOT_ROUNDS = 32;

// Slow: both vectors are read word by word.
__global__ void __launch_bounds__(256) dot_by_words(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ __align__(16) float data[DOT_LENGTH];
    for (int i = threadIdx.x; i < DOT_LENGTH; i += 256) data[i] = in[i];
    __syncthreads();
    float total = 0.0f;
#pragma unroll 1
    for (int round = 0; round < DOT_ROUNDS; ++round) {
        const volatile float* from = data + threadIdx.x;
#pragma unroll
        for (int k = 0; k < DOT_LENGTH; k += 256) total = fmaf(from[k], 0.25f, total);
#pragma unroll
        for (int k = 0; k < DOT_LENGTH; k += 256) total = fmaf(from[k], 0.5f, total);
    }
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

// Cure: the sums that a thread needs come from registers that four-word reads have filled.
__global__ void __launch_bounds__(256) dot_by_quads(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ __align__(16) float data[DOT_LENGTH];
    // A thread's own 16 words lie side by side in four quads.
    for (int i = threadIdx.x; i < DOT_LENGTH; i += 256) {
        const int word = i / 256, thread = i % 256;
        data[word / 4 * 1024 + thread * 4 + word % 4] = in[i];
    }
    __syncthreads();
    float total = 0.0f;
#pragma unroll 1
    for (int round = 0; round < DOT_ROUNDS; ++round) {
        float own[16];
#pragma unroll
        for (int quad = 0; quad < 4; ++quad) {
            const unsigned address = unsigned(__cvta_generic_to_shared(data + quad * 1024 + threadIdx.x * 4));
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(own[quad * 4]), "=f"(own[quad * 4 + 1]), "=f"(own[quad * 4 + 2]),
                           "=f"(own[quad * 4 + 3])
                         : "r"(address));
        }
#pragma unroll
        for (int k = 0; k < 16; ++k) total = fmaf(own[k], 0.25f, total);
#pragma unroll
        for (int k = 0; k < 16; ++k) total = fmaf(own[k], 0.5f, total);
    }
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

void mio_words(Bench& bench) {
    Buffer<float> in(DOT_LENGTH), slow(DOT_BLOCKS * 256), cured(DOT_BLOCKS * 256);
    in.random(13);
    bench.pair([&] { dot_by_words<<<DOT_BLOCKS, 256>>>(in, slow); },
               [&] { dot_by_quads<<<DOT_BLOCKS, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-6);
}

// ----------------------------------------------------------------------- the queue of textures is full

constexpr int IMAGE = 2048;
constexpr int REACH = 2;
constexpr int PITCH = IMAGE + 64;

// Slow: 25 texture fetches a pixel.
__global__ void __launch_bounds__(256) blur_from_texture(cudaTextureObject_t image, float* __restrict__ out) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float total = 0.0f;
#pragma unroll
    for (int dy = 0; dy <= 2 * REACH; ++dy) {
#pragma unroll
        for (int dx = 0; dx <= 2 * REACH; ++dx) {
            const float pixel = tex2D<float>(image, float(x + dx) + 0.5f, float(y + dy) + 0.5f);
            total = fmaf(float(dy * 5 + dx + 1), pixel, total);
        }
    }
    out[y * IMAGE + x] = total;
}

// Cure: the same pixels by ordinary loads.
__global__ void __launch_bounds__(256) blur_from_memory(const float* __restrict__ image, float* __restrict__ out) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float total = 0.0f;
#pragma unroll
    for (int dy = 0; dy <= 2 * REACH; ++dy) {
#pragma unroll
        for (int dx = 0; dx <= 2 * REACH; ++dx) {
            total = fmaf(float(dy * 5 + dx + 1), image[(y + dy) * PITCH + x + dx], total);
        }
    }
    out[y * IMAGE + x] = total;
}

void tex_blur(Bench& bench) {
    Buffer<float> image(size_t(PITCH) * (IMAGE + 2 * REACH)), slow(size_t(IMAGE) * IMAGE), cured(size_t(IMAGE) * IMAGE);
    image.random(14);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = static_cast<float*>(image);
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = PITCH;
    resource.res.pitch2D.height = IMAGE + 2 * REACH;
    resource.res.pitch2D.pitchInBytes = PITCH * sizeof(float);
    cudaTextureDesc texture = {};
    texture.filterMode = cudaFilterModePoint;
    texture.readMode = cudaReadModeElementType;
    texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t object = 0;
    CHECK(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
    const dim3 blocks(IMAGE / 32, IMAGE / 8), threads(32, 8);
    bench.pair([&] { blur_from_texture<<<blocks, threads>>>(object, slow); },
               [&] { blur_from_memory<<<blocks, threads>>>(image, cured); });
    bench.same(slow, cured, 1e-6);
    CHECK(cudaDestroyTextureObject(object));
}

// ------------------------------------------------------- fixed latency: one dependent chain a thread, few warps

constexpr int CHAIN_ITEMS = 8;
constexpr int CHAIN_STEPS = 4096;

__device__ __forceinline__ float chain_step(float x) { return fmaf(x, 0.999f, 0.0005f); }

// Slow: a thread takes its eight items one after another.
__global__ void __launch_bounds__(128) chains_in_turn(const float* __restrict__ in, float* __restrict__ out) {
    const int first = blockIdx.x * 128 * CHAIN_ITEMS + threadIdx.x;
#pragma unroll 1
    for (int item = 0; item < CHAIN_ITEMS; ++item) {
        float x = in[first + item * 128];
#pragma unroll 32
        for (int k = 0; k < CHAIN_STEPS; ++k) x = chain_step(x);
        out[first + item * 128] = x;
    }
}

// Cure: the eight advance together.
__global__ void __launch_bounds__(128) chains_together(const float* __restrict__ in, float* __restrict__ out) {
    const int first = blockIdx.x * 128 * CHAIN_ITEMS + threadIdx.x;
    float x[CHAIN_ITEMS];
#pragma unroll
    for (int item = 0; item < CHAIN_ITEMS; ++item) x[item] = in[first + item * 128];
#pragma unroll 8
    for (int k = 0; k < CHAIN_STEPS; ++k) {
#pragma unroll
        for (int item = 0; item < CHAIN_ITEMS; ++item) x[item] = chain_step(x[item]);
    }
#pragma unroll
    for (int item = 0; item < CHAIN_ITEMS; ++item) out[first + item * 128] = x[item];
}

void wait_chain(Bench& bench) {
    constexpr int ITEMS = SMS * 128 * CHAIN_ITEMS;
    Buffer<float> in(ITEMS), slow(ITEMS), cured(ITEMS);
    in.random(15);
    bench.pair([&] { chains_in_turn<<<SMS, 128>>>(in, slow); }, [&] { chains_together<<<SMS, 128>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------- low parallelism in a thread: checksums by word

constexpr int CHECK_WORDS = 8192;
constexpr int CHECK_LANES = 4;

__device__ __forceinline__ uint32_t checksum_step(uint32_t sum, uint32_t word) {
    return (sum ^ word) * 0x01000193u + 0x9e3779b9u;
}

// Slow: four checksums one after another, each a chain of dependent multiplications.
__global__ void __launch_bounds__(128) checksums_in_turn(const uint32_t* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    uint32_t all = 0;
#pragma unroll 1
    for (int lane = 0; lane < CHECK_LANES; ++lane) {
        uint32_t sum = in[i] + lane;
#pragma unroll 16
        for (int k = 0; k < CHECK_WORDS / 4; ++k) sum = checksum_step(sum, uint32_t(k));
        all ^= sum;
    }
    out[i] = float(all >> 8);
}

// Cure: the four checksums advance together.
__global__ void __launch_bounds__(128) checksums_together(const uint32_t* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    uint32_t sum[CHECK_LANES];
#pragma unroll
    for (int lane = 0; lane < CHECK_LANES; ++lane) sum[lane] = in[i] + lane;
#pragma unroll 4
    for (int k = 0; k < CHECK_WORDS / 4; ++k) {
#pragma unroll
        for (int lane = 0; lane < CHECK_LANES; ++lane) sum[lane] = checksum_step(sum[lane], uint32_t(k));
    }
    out[i] = float((sum[0] ^ sum[1] ^ sum[2] ^ sum[3]) >> 8);
}

void low_ilp(Bench& bench) {
    Buffer<uint32_t> in(SMS * 2 * 128);
    Buffer<float> slow(SMS * 2 * 128), cured(SMS * 2 * 128);
    in.random(16);
    bench.pair([&] { checksums_in_turn<<<SMS * 2, 128>>>(in, slow); },
               [&] { checksums_together<<<SMS * 2, 128>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// -------------------------------------------------------------- no instruction there: straight-line code

constexpr int CODE_STEPS = 8192;
constexpr int CODE_CHAINS = 4;

// The multipliers are exact in fp32, so that the loop below finds the same ones by subtraction.
template <int FIRST, int COUNT>
__device__ __forceinline__ void straight_steps(float (&x)[CODE_CHAINS]) {
    if constexpr (COUNT > 128) {
        straight_steps<FIRST, COUNT / 2>(x);
        straight_steps<FIRST + COUNT / 2, COUNT - COUNT / 2>(x);
    } else {
#pragma unroll
        for (int k = FIRST; k < FIRST + COUNT; ++k) {
#pragma unroll
            for (int chain = 0; chain < CODE_CHAINS; ++chain) {
                x[chain] = fmaf(x[chain], 1.0f - float(k) * 0x1p-20f, 0x1p-12f);
            }
        }
    }
}

// Slow: 32,768 instructions in a row, half a megabyte of code that every warp walks through once.
__global__ void __launch_bounds__(256) code_unrolled(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x[CODE_CHAINS];
#pragma unroll
    for (int chain = 0; chain < CODE_CHAINS; ++chain) x[chain] = in[i] + float(chain);
    straight_steps<0, CODE_STEPS>(x);
    out[i] = (x[0] + x[1]) + (x[2] + x[3]);
}

// Cure: a loop.
__global__ void __launch_bounds__(256) code_rolled(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x[CODE_CHAINS];
#pragma unroll
    for (int chain = 0; chain < CODE_CHAINS; ++chain) x[chain] = in[i] + float(chain);
    float factor = 1.0f;
#pragma unroll 1
    for (int k = 0; k < CODE_STEPS; k += 4) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int chain = 0; chain < CODE_CHAINS; ++chain) x[chain] = fmaf(x[chain], factor, 0x1p-12f);
            factor -= 0x1p-20f;
        }
    }
    out[i] = (x[0] + x[1]) + (x[2] + x[3]);
}

void no_instruction(Bench& bench) {
    Buffer<float> in(SMS * 2 * 256), slow(SMS * 2 * 256), cured(SMS * 2 * 256);
    in.random(17);
    bench.pair([&] { code_unrolled<<<SMS * 2, 256>>>(in, slow); }, [&] { code_rolled<<<SMS * 2, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-6);
}

// ----------------------------------------------------------------------------- branches: an interpreter

constexpr int VM_STEPS = 8192;

// The next operation follows from the state, which all threads of a warp share: branches, but no divergence.
__device__ __forceinline__ uint32_t next_state(uint32_t state) { return state * 1664525u + 1013904223u; }

__device__ __noinline__ float shrink(float x) { return fmaf(x, 0.5f, 0.125f); }
__device__ __noinline__ float settle(float x) { return fmaf(x, 0.75f, 0.0625f); }

// Slow: each operation is a branch, a call and a return around one instruction.
__global__ void __launch_bounds__(128) interpret(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    uint32_t state = hash32(i / WARP);
    float x = in[i];
#pragma unroll 1
    for (int k = 0; k < VM_STEPS; ++k) {
        state = next_state(state);
        if (state >> 31) {
            x = shrink(x);
        } else {
            x = settle(x);
        }
    }
    out[i] = x;
}

// Cure: the factors are chosen by arithmetic.
__global__ void __launch_bounds__(128) choose(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    uint32_t state = hash32(i / WARP);
    float x = in[i];
#pragma unroll 8
    for (int k = 0; k < VM_STEPS; ++k) {
        state = next_state(state);
        const bool taken = state >> 31;
        x = fmaf(x, taken ? 0.5f : 0.75f, taken ? 0.125f : 0.0625f);
    }
    out[i] = x;
}

void branch_interpreter(Bench& bench) {
    Buffer<float> in(SMS * 2 * 128), slow(SMS * 2 * 128), cured(SMS * 2 * 128);
    in.random(18);
    bench.pair([&] { interpret<<<SMS * 2, 128>>>(in, slow); }, [&] { choose<<<SMS * 2, 128>>>(in, cured); });
    bench.same(slow, cured, 1e-6);
}

// ---------------------------------------------------------------------------------------- memory fences

constexpr int FENCE_STORES = 32;
constexpr int FENCE_THREADS = SMS * 2048;

// Slow: a fence for the whole GPU after every store.
__global__ void __launch_bounds__(256) fence_each_store(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
#pragma unroll 1
    for (int k = 0; k < FENCE_STORES; ++k) {
        x = fused_step(x);
        out[k * FENCE_THREADS + i] = x;
        __threadfence();
    }
}

// Cure: one fence after the last store.
__global__ void __launch_bounds__(256) fence_once(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
#pragma unroll 4
    for (int k = 0; k < FENCE_STORES; ++k) {
        x = fused_step(x);
        out[k * FENCE_THREADS + i] = x;
    }
    __threadfence();
}

void membar_stores(Bench& bench) {
    Buffer<float> in(FENCE_THREADS), slow(size_t(FENCE_THREADS) * FENCE_STORES), cured(slow.count());
    in.random(19);
    bench.pair([&] { fence_each_store<<<FENCE_THREADS / 256, 256>>>(in, slow); },
               [&] { fence_once<<<FENCE_THREADS / 256, 256>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------------------------------------- sleeping

// Slow: a nap of a microsecond after every 16 steps, as a back-off that is far too long.
template <bool NAP>
__device__ __forceinline__ void step_and_rest(const float* in, float* out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
#pragma unroll 1
    for (int k = 0; k < 128; ++k) {
#pragma unroll
        for (int j = 0; j < 16; ++j) x = fused_step(x);
        if (NAP) __nanosleep(1000);
    }
    out[i] = x;
}

__global__ void __launch_bounds__(256) steps_with_naps(const float* __restrict__ in, float* __restrict__ out) {
    step_and_rest<true>(in, out);
}

// Cure: no naps.
__global__ void __launch_bounds__(256) steps_without_naps(const float* __restrict__ in, float* __restrict__ out) {
    step_and_rest<false>(in, out);
}

void sleeping_naps(Bench& bench) {
    Buffer<float> in(SMS * 2048), slow(SMS * 2048), cured(SMS * 2048);
    in.random(20);
    bench.pair([&] { steps_with_naps<<<SMS * 8, 256>>>(in, slow); },
               [&] { steps_without_naps<<<SMS * 8, 256>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------------------- constants that miss their cache

constexpr int CONSTANTS = 2048;
constexpr int CONSTANT_ROUNDS = 16;

__constant__ float constant_table[CONSTANTS];

// Slow: 8 KB of constants, each an operand of one instruction: many times what the cache for such operands holds.
__global__ void __launch_bounds__(256) filter_by_operands(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float factor = in[i];  // a register of its own: an instruction has room for one constant
    float x = factor;
#pragma unroll 1
    for (int round = 0; round < CONSTANT_ROUNDS; ++round) {
#pragma unroll
        for (int k = 0; k < CONSTANTS; ++k) x = fmaf(x, factor, constant_table[k]);
    }
    out[i] = x;
}

// Cure: the same constants from shared memory, four at a time.
__global__ void __launch_bounds__(256) filter_by_loads(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float4 table[CONSTANTS / 4];
    for (int k = threadIdx.x; k < CONSTANTS / 4; k += 256) {
        table[k] = reinterpret_cast<const float4*>(constant_table)[k];
    }
    __syncthreads();
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float factor = in[i];
    float x = factor;
#pragma unroll 1
    for (int round = 0; round < CONSTANT_ROUNDS; ++round) {
#pragma unroll 8
        for (int k = 0; k < CONSTANTS / 4; ++k) {
            const float4 four = table[k];
            x = fmaf(fmaf(fmaf(fmaf(x, factor, four.x), factor, four.y), factor, four.z), factor, four.w);
        }
    }
    out[i] = x;
}

void imc_operands(Bench& bench) {
    Buffer<float> table(CONSTANTS), in(SMS * 2048), slow(SMS * 2048), cured(SMS * 2048);
    table.random(21), in.random(22);
    CHECK(cudaMemcpyToSymbol(constant_table, table, table.bytes(), 0, cudaMemcpyDeviceToDevice));
    bench.pair([&] { filter_by_operands<<<SMS * 8, 256>>>(in, slow); },
               [&] { filter_by_loads<<<SMS * 8, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-6);
}

int main(int argc, char** argv) {
    Bench bench(argc, argv);
    bench.run("small-grid-sum", small_grid_sum);
    bench.run("small-grid-heads", small_grid_heads);
    bench.run("tail-wave", tail_wave);
    bench.run("partial-warp", partial_warp);
    bench.run("few-blocks", few_blocks);
    bench.run("imbalance-triangle", imbalance_triangle);
    bench.run("imbalance-sequences", imbalance_sequences);
    bench.run("cluster-limits", cluster_limits);
    bench.run("occupancy-registers", occupancy_registers);
    bench.run("occupancy-shared", occupancy_shared);
    bench.run("occupancy-block-count", occupancy_block_count);
    bench.run("occupancy-block-size", occupancy_block_size);
    bench.run("long-chase", long_chase);
    bench.run("long-indexed", long_indexed);
    bench.run("short-walk", short_walk);
    bench.run("barrier-pivot", barrier_pivot);
    bench.run("lg-bytes", lg_bytes);
    bench.run("mio-words", mio_words);
    bench.run("tex-blur", tex_blur);
    bench.run("wait-chain", wait_chain);
    bench.run("low-ilp", low_ilp);
    bench.run("no-instruction", no_instruction);
    bench.run("branch-interpreter", branch_interpreter);
    bench.run("membar-stores", membar_stores);
    bench.run("sleeping-naps", sleeping_naps);
    bench.run("imc-operands", imc_operands);
}
