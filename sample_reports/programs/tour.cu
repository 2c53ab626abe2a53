// A tour of GPU performance problems: each weak kernel is followed by its cure, which does the same
// work, and both results are compared. A plain copy and a large tensor-core product close the tour.
//
// Build: nvcc -O3 -arch=sm_90 -lineinfo -o tour tour.cu
// Every kernel is launched exactly once, between cudaProfilerStart and cudaProfilerStop. The data
// are filled on the host, so that no set-up kernel appears in a report.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        const cudaError_t status_ = (call);                                              \
        if (status_ != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                      \
                         cudaGetErrorString(status_));                                   \
            std::exit(2);                                                                \
        }                                                                                \
    } while (0)

constexpr int WARP = 32;

// One step of the logistic map, the arithmetic that several kernels below repeat.
__device__ __forceinline__ float logistic_step(float x) {
    const float scaled = 3.9f * x;
    return fmaf(-scaled, x, scaled);
}

// ---------------------------------------------------------------- uncoalesced store: transpose

constexpr int TRANSPOSE_N = 8192;
constexpr int TILE = 32;
constexpr int TILE_ROWS = 8;

// Slow: the 32 threads of a warp write down a column, so each store touches 32 separate sectors.
__global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out) {
    const int x = blockIdx.x * TILE + threadIdx.x;
    const int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += TILE_ROWS) {
        out[size_t(x) * TRANSPOSE_N + y + j] = in[size_t(y + j) * TRANSPOSE_N + x];
    }
}

// Cure: turn the tile in shared memory (padded by one column) and write whole rows.
__global__ void transpose_tiled(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float tile[TILE][TILE + 1];
    const int x = blockIdx.x * TILE + threadIdx.x;
    const int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += TILE_ROWS) {
        tile[threadIdx.y + j][threadIdx.x] = in[size_t(y + j) * TRANSPOSE_N + x];
    }
    __syncthreads();
    const int out_x = blockIdx.y * TILE + threadIdx.x;
    const int out_y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += TILE_ROWS) {
        out[size_t(out_y + j) * TRANSPOSE_N + out_x] = tile[threadIdx.x][threadIdx.y + j];
    }
}

// ---------------------------------------------------------- uncoalesced load: array of structures

constexpr int PARTICLES = 1 << 23;

struct Particle {
    float vx, vy, vz, mass, x, y, z, charge;
};

// Slow: neighbouring threads read 4 bytes out of every 32, so most of each sector is wasted.
__global__ void energy_array_of_structs(const Particle* __restrict__ particles,
                                        float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float vx = particles[i].vx, vy = particles[i].vy, vz = particles[i].vz;
    out[i] = vx * vx + vy * vy + vz * vz;
}

// Cure: one array a field, so that neighbouring threads read neighbouring floats.
__global__ void energy_struct_of_arrays(const float* __restrict__ vx, const float* __restrict__ vy,
                                        const float* __restrict__ vz, float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = vx[i] * vx[i] + vy[i] * vy[i] + vz[i] * vz[i];
}

// ------------------------------------------------------------------------------- bank conflicts

constexpr int WALK_BLOCKS = 4096;
constexpr int WALK_THREADS = 256;
constexpr int WALK_READS = 256;

// Every lane walks along its own row of a 32 x 32 tile; the warp reads one column at a time.
template <int PITCH>
__device__ __forceinline__ void shared_walk(const float* in, float* out, unsigned stride) {
    __shared__ float tile[TILE * PITCH];
    const float* source = in + blockIdx.x * TILE * TILE;
#pragma unroll
    for (int pass = 0; pass < TILE * TILE / WALK_THREADS; ++pass) {
        const int i = pass * WALK_THREADS + threadIdx.x;
        tile[(i / TILE) * PITCH + i % TILE] = source[i];
    }
    __syncthreads();
    const float* row = tile + (threadIdx.x % WARP) * PITCH;
    unsigned column = threadIdx.x / WARP;
    float total = 0.0f;
#pragma unroll 8
    for (int k = 0; k < WALK_READS; ++k) {
        total = fmaf(total, 0.5f, row[column]);
        column = (column + stride) % TILE;
    }
    out[blockIdx.x * WALK_THREADS + threadIdx.x] = total;
}

// Slow: rows of 32 floats put a whole column in one bank, so each read is split into 32.
__global__ void __launch_bounds__(WALK_THREADS)
shared_walk_conflicts(const float* __restrict__ in, float* __restrict__ out, unsigned stride) {
    shared_walk<TILE>(in, out, stride);
}

// Cure: rows of 33 floats spread a column over all 32 banks.
__global__ void __launch_bounds__(WALK_THREADS)
shared_walk_padded(const float* __restrict__ in, float* __restrict__ out, unsigned stride) {
    shared_walk<TILE + 1>(in, out, stride);
}

// ------------------------------------------------------------------------------- register spills

constexpr int FILTER_BLOCKS = 1056;
constexpr int FILTER_THREADS = 256;
constexpr int FILTER_VALUES = 64;
constexpr int FILTER_STEPS = 64;

// Every thread keeps 64 values and mixes each with its neighbour, 64 times over.
__device__ __forceinline__ void filter(const float* in, float* out) {
    constexpr int STRIDE = FILTER_BLOCKS * FILTER_THREADS;
    const int thread = blockIdx.x * FILTER_THREADS + threadIdx.x;
    float v[FILTER_VALUES];
#pragma unroll
    for (int i = 0; i < FILTER_VALUES; ++i) v[i] = in[i * STRIDE + thread];
#pragma unroll 1
    for (int step = 0; step < FILTER_STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < FILTER_VALUES; ++i) {
            v[i] = fmaf(v[i], 0.9f, 0.1f * v[(i + 1) % FILTER_VALUES]);
        }
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < FILTER_VALUES; ++i) total = fmaf(total, 0.9f, v[i]);
    out[thread] = total;
}

// Slow: asking for 8 blocks an SM leaves 32 registers a thread, so most of the 64 values spill.
__global__ void __launch_bounds__(FILTER_THREADS, 8)
filter_spilled(const float* __restrict__ in, float* __restrict__ out) {
    filter(in, out);
}

// Cure: no minimum of blocks, so that all 64 values stay in registers.
__global__ void __launch_bounds__(FILTER_THREADS)
filter_in_registers(const float* __restrict__ in, float* __restrict__ out) {
    filter(in, out);
}

// ----------------------------------------------------------------------------- thread divergence

constexpr int BRANCH_ITEMS = 1 << 22;
constexpr int BRANCH_KINDS = 4;
constexpr int BRANCH_STEPS = 128;
constexpr int BRANCH_GROUP = BRANCH_KINDS * WARP;

// Four kinds of item, each with a long calculation of its own.
__device__ __forceinline__ void branch_item(const float* items, const int* kinds, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = items[i];
    float y = 0.5f;
    uint32_t bits = __float_as_uint(x);
    switch (kinds[i]) {
        case 0:
#pragma unroll 4
            for (int k = 0; k < BRANCH_STEPS; ++k) x = logistic_step(x);
            break;
        case 1:
#pragma unroll 4
            for (int k = 0; k < BRANCH_STEPS; ++k) y = y * fmaf(-(x + 0.5f), y, 2.0f) + 0.001f;
            x = y;
            break;
        case 2:
#pragma unroll 4
            for (int k = 0; k < BRANCH_STEPS; ++k) {
                const float next = fmaf(0.8f, x, -0.6f * y);
                y = fmaf(0.6f, x, 0.8f * y);
                x = next;
            }
            break;
        default:
#pragma unroll 4
            for (int k = 0; k < BRANCH_STEPS; ++k) {
                bits ^= bits << 13;
                bits ^= bits >> 17;
                bits ^= bits << 5;
            }
            x = float(bits) * 0x1p-32f;
    }
    out[i] = x;
}

// Slow: all four kinds meet in each warp, which runs the four branches in turn, 8 threads a time.
__global__ void branches_mixed_in_warp(const float* __restrict__ items,
                                       const int* __restrict__ kinds, float* __restrict__ out) {
    branch_item(items, kinds, out);
}

// Cure: the items are sorted so that a warp holds one kind only.
__global__ void branches_grouped_by_warp(const float* __restrict__ items,
                                         const int* __restrict__ kinds, float* __restrict__ out) {
    branch_item(items, kinds, out);
}

// --------------------------------------------------------- matrix products, CUDA and tensor cores

constexpr int GEMM_N = 2048;
constexpr int GEMM_LARGE_N = 4096;
constexpr int GEMM_TILE = 128;

constexpr int FP32_K = 8;
constexpr int FP32_THREADS = 256;

// Slow: a well tiled product, but in fp32 on the ordinary cores; the tensor cores stay idle.
__global__ void __launch_bounds__(FP32_THREADS)
gemm_fp32_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                int n) {
    __shared__ __align__(16) float tile_a[FP32_K][GEMM_TILE + 4];
    __shared__ __align__(16) float tile_b[FP32_K][GEMM_TILE];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    const int a_row = threadIdx.x / 2, a_column = (threadIdx.x % 2) * 4;
    const int b_row = threadIdx.x / 32, b_column = (threadIdx.x % 32) * 4;
    const float* a_source = a + size_t(blockIdx.y * GEMM_TILE + a_row) * n + a_column;
    const float* b_source = b + size_t(b_row) * n + blockIdx.x * GEMM_TILE + b_column;

    float sums[8][8] = {};
    float4 next_a = *reinterpret_cast<const float4*>(a_source);
    float4 next_b = *reinterpret_cast<const float4*>(b_source);
    for (int k0 = 0; k0 < n; k0 += FP32_K) {
        tile_a[a_column + 0][a_row] = next_a.x;
        tile_a[a_column + 1][a_row] = next_a.y;
        tile_a[a_column + 2][a_row] = next_a.z;
        tile_a[a_column + 3][a_row] = next_a.w;
        *reinterpret_cast<float4*>(&tile_b[b_row][b_column]) = next_b;
        __syncthreads();
        if (k0 + FP32_K < n) {
            next_a = *reinterpret_cast<const float4*>(a_source + k0 + FP32_K);
            next_b = *reinterpret_cast<const float4*>(b_source + size_t(k0 + FP32_K) * n);
        }
#pragma unroll
        for (int k = 0; k < FP32_K; ++k) {
            float left[8], right[8];
            *reinterpret_cast<float4*>(left) = *reinterpret_cast<float4*>(&tile_a[k][ty * 4]);
            *reinterpret_cast<float4*>(left + 4) =
                *reinterpret_cast<float4*>(&tile_a[k][64 + ty * 4]);
            *reinterpret_cast<float4*>(right) = *reinterpret_cast<float4*>(&tile_b[k][tx * 4]);
            *reinterpret_cast<float4*>(right + 4) =
                *reinterpret_cast<float4*>(&tile_b[k][64 + tx * 4]);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = blockIdx.y * GEMM_TILE + (i / 4) * 64 + ty * 4 + i % 4;
        float* target = c + size_t(row) * n + blockIdx.x * GEMM_TILE + tx * 4;
        *reinterpret_cast<float4*>(target) =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        *reinterpret_cast<float4*>(target + 64) =
            make_float4(sums[i][4], sums[i][5], sums[i][6], sums[i][7]);
    }
}

constexpr int BF16_K = 32;
constexpr int BF16_THREADS = 128;
constexpr int BF16_STAGES = 4;
constexpr int BF16_PITCH_A = BF16_K + 8;       // padded so that a warp's reads miss no bank twice
constexpr int BF16_PITCH_B = GEMM_TILE + 8;
constexpr int BF16_STAGE = GEMM_TILE * BF16_PITCH_A + BF16_K * BF16_PITCH_B;
constexpr int BF16_SHARED_BYTES = BF16_STAGES * BF16_STAGE * sizeof(__nv_bfloat16);

// Copies one 128 x 32 slice of a and one 32 x 128 slice of b to shared memory, in the background.
__device__ __forceinline__ void bf16_fetch(__nv_bfloat16* stage, const __nv_bfloat16* a,
                                           const __nv_bfloat16* b, int n, int k0) {
    __nv_bfloat16* tile_a = stage;
    __nv_bfloat16* tile_b = stage + GEMM_TILE * BF16_PITCH_A;
#pragma unroll
    for (int pass = 0; pass < GEMM_TILE * BF16_K / 8 / BF16_THREADS; ++pass) {
        const int i = pass * BF16_THREADS + threadIdx.x;
        const int row = i / (BF16_K / 8), column = i % (BF16_K / 8) * 8;
        __pipeline_memcpy_async(tile_a + row * BF16_PITCH_A + column,
                                a + size_t(blockIdx.y * GEMM_TILE + row) * n + k0 + column, 16);
    }
#pragma unroll
    for (int pass = 0; pass < GEMM_TILE * BF16_K / 8 / BF16_THREADS; ++pass) {
        const int i = pass * BF16_THREADS + threadIdx.x;
        const int row = i / (GEMM_TILE / 8), column = i % (GEMM_TILE / 8) * 8;
        __pipeline_memcpy_async(tile_b + row * BF16_PITCH_B + column,
                                b + size_t(k0 + row) * n + blockIdx.x * GEMM_TILE + column, 16);
    }
}

// Four 8 x 8 matrices from shared memory to the registers of a warp, as they are or transposed.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const __nv_bfloat16* source) {
    const uint32_t address = uint32_t(__cvta_generic_to_shared(source));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const __nv_bfloat16* source) {
    const uint32_t address = uint32_t(__cvta_generic_to_shared(source));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a b on the tensor cores: a is 16 x 16, b is 16 x 8, c is 16 x 8.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A 128 x 128 tile a block, 64 x 64 a warp, on the tensor cores, with fp32 sums.
__device__ __forceinline__ void gemm_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c,
                                          int n) {
    extern __shared__ __align__(128) __nv_bfloat16 stages[];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_row = warp / 2 * 64, warp_column = warp % 2 * 64;
    const int lane_row = lane % 16, lane_column = lane / 16 * 8;

    float sums[4][8][4] = {};
    const int slices = n / BF16_K;
    for (int s = 0; s < BF16_STAGES - 1; ++s) {
        bf16_fetch(stages + s * BF16_STAGE, a, b, n, s * BF16_K);
        __pipeline_commit();
    }
    for (int s = 0; s < slices; ++s) {
        __pipeline_wait_prior(BF16_STAGES - 2);
        __syncthreads();
        const int ahead = s + BF16_STAGES - 1;
        if (ahead < slices) {
            bf16_fetch(stages + ahead % BF16_STAGES * BF16_STAGE, a, b, n, ahead * BF16_K);
        }
        __pipeline_commit();
        const __nv_bfloat16* tile_a = stages + s % BF16_STAGES * BF16_STAGE;
        const __nv_bfloat16* tile_b = tile_a + GEMM_TILE * BF16_PITCH_A;
#pragma unroll
        for (int k = 0; k < BF16_K; k += 16) {
            uint32_t left[4][4], right[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrices(left[i], tile_a + (warp_row + i * 16 + lane_row) * BF16_PITCH_A + k +
                                           lane_column);
                load_transposed(right[i], tile_b + (k + lane_row) * BF16_PITCH_B + warp_column +
                                              i * 16 + lane_column);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    mma_bf16(sums[i][j], left[i], right[j / 2][j % 2 * 2],
                             right[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const size_t row = blockIdx.y * GEMM_TILE + warp_row + i * 16 + lane / 4;
            const size_t column = blockIdx.x * GEMM_TILE + warp_column + j * 8 + lane % 4 * 2;
            const float(&sum)[4] = sums[i][j];
            *reinterpret_cast<float2*>(c + row * n + column) = make_float2(sum[0], sum[1]);
            *reinterpret_cast<float2*>(c + (row + 8) * n + column) = make_float2(sum[2], sum[3]);
        }
    }
}

// Cure: the same product with bf16 inputs on the tensor cores.
__global__ void __launch_bounds__(BF16_THREADS, 2)
gemm_bf16_mma(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
               float* __restrict__ c, int n) {
    gemm_bf16(a, b, c, n);
}

// Nothing planted: a product large enough to keep the tensor cores of the whole GPU busy.
__global__ void __launch_bounds__(BF16_THREADS, 2)
gemm_bf16_large(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                float* __restrict__ c, int n) {
    gemm_bf16(a, b, c, n);
}

// ------------------------------------------------------------------ small grid and partial warps

constexpr int LOGISTIC_ITEMS = 1 << 22;
constexpr int LOGISTIC_STEPS = 256;

__device__ __forceinline__ float logistic(float x) {
#pragma unroll 8
    for (int k = 0; k < LOGISTIC_STEPS; ++k) x = logistic_step(x);
    return x;
}

__device__ __forceinline__ void logistic_all(const float* in, float* out) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < LOGISTIC_ITEMS;
         i += gridDim.x * blockDim.x) {
        out[i] = logistic(in[i]);
    }
}

// Slow: launched with 16 blocks, so that at most 16 SMs have anything to do.
__global__ void __launch_bounds__(1024, 2)
logistic_16_blocks(const float* __restrict__ in, float* __restrict__ out) {
    logistic_all(in, out);
}

// Cure: the same loop, launched with as many blocks as the GPU can hold.
__global__ void __launch_bounds__(1024, 2)
logistic_full_grid(const float* __restrict__ in, float* __restrict__ out) {
    logistic_all(in, out);
}

__device__ __forceinline__ void logistic_one(const float* in, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < LOGISTIC_ITEMS) out[i] = logistic(in[i]);
}

// Slow: 33 threads need two warps, and the second one works for a single thread.
__global__ void logistic_blocks_of_33(const float* __restrict__ in, float* __restrict__ out) {
    logistic_one(in, out);
}

// Cure: 64 threads fill both warps.
__global__ void logistic_blocks_of_64(const float* __restrict__ in, float* __restrict__ out) {
    logistic_one(in, out);
}

// ------------------------------------------------------------------- dependent look-ups in a table

// A line holds 8 copies of the number of the next line: a warp reads one whole 32-byte sector a
// look-up, and the next look-up cannot start before it has come back. A mask keeps the walk in the
// first lines of the table: 16 MB, which the L2 cache holds, or 128 MB, which it does not.
constexpr int LINE_WORDS = 8;
constexpr int TABLE_LINES = 1 << 22;
constexpr int L2_MASK = (1 << 19) - 1;
constexpr int DRAM_MASK = TABLE_LINES - 1;

__device__ __forceinline__ int follow(const int* table, int line, int mask) {
    return table[line * LINE_WORDS + threadIdx.x % LINE_WORDS] & mask;
}

// The line that starts the walk of this number; the 32 threads of a warp share one.
__device__ __forceinline__ int start_line(int number, int mask) {
    return int(uint32_t(number / WARP) * 2654435761u >> 9) & mask;
}

// --------------------------------------------------------------------------------------- tail wave

constexpr int TAIL_THREADS = 256;
constexpr int TAIL_BLOCKS_PER_SM = 8;
constexpr int TAIL_TASKS_PER_THREAD = 32;
constexpr int TAIL_CHUNK = TAIL_THREADS * TAIL_TASKS_PER_THREAD;

// A task is 8 to 12 dependent look-ups; the tasks of one chunk are equally long.
__device__ __forceinline__ float lookup_task(const int* table, int task) {
    const int length = 8 + int(uint32_t(task / TAIL_CHUNK) * 2654435761u >> 16) % 5;
    int line = start_line(task, L2_MASK);
    float total = 0.0f;
#pragma unroll 1
    for (int k = 0; k < length; ++k) {
        line = follow(table, line, L2_MASK);
        total = fmaf(total, 0.5f, float(line));
    }
    return total;
}

// Slow: one block more for each SM than fits at once, so a nearly empty second wave follows.
__global__ void __launch_bounds__(TAIL_THREADS, TAIL_BLOCKS_PER_SM)
lookup_tail_wave(const int* __restrict__ table, float* __restrict__ out) {
    const int first = blockIdx.x * TAIL_CHUNK + threadIdx.x;
#pragma unroll 1
    for (int task = first; task < first + TAIL_CHUNK; task += TAIL_THREADS) {
        out[task] = lookup_task(table, task);
    }
}

// Cure: exactly one wave of blocks, which share all tasks evenly.
__global__ void __launch_bounds__(TAIL_THREADS, TAIL_BLOCKS_PER_SM)
lookup_whole_wave(const int* __restrict__ table, float* __restrict__ out, int tasks) {
#pragma unroll 1
    for (int task = blockIdx.x * TAIL_THREADS + threadIdx.x; task < tasks;
         task += gridDim.x * TAIL_THREADS) {
        out[task] = lookup_task(table, task);
    }
}

// ------------------------------------------------------------------------------- uneven SM load

constexpr int UNEVEN_BLOCKS = 2112;
constexpr int UNEVEN_THREADS = 256;
constexpr int UNEVEN_CHUNK = UNEVEN_THREADS * 8;
constexpr int UNEVEN_HEAVY_BLOCKS = 16;
constexpr int UNEVEN_HEAVY_FACTOR = 20;
constexpr int UNEVEN_STEPS = 128;

__device__ __forceinline__ void own_items(const float* in, const int* offsets, float* out) {
    const int end = offsets[blockIdx.x + 1];
#pragma unroll 1
    for (int i = offsets[blockIdx.x] + threadIdx.x; i < end; i += UNEVEN_THREADS) {
        float x = in[i];
#pragma unroll 8
        for (int k = 0; k < UNEVEN_STEPS; ++k) x = logistic_step(x);
        out[i] = x;
    }
}

// Slow: the first 16 blocks own 20 times as many items as the others, so 16 SMs finish last.
__global__ void __launch_bounds__(UNEVEN_THREADS, 8)
blocks_uneven(const float* __restrict__ in, const int* __restrict__ offsets,
              float* __restrict__ out) {
    own_items(in, offsets, out);
}

// Cure: all blocks own equally many items.
__global__ void __launch_bounds__(UNEVEN_THREADS, 8)
blocks_even(const float* __restrict__ in, const int* __restrict__ offsets,
            float* __restrict__ out) {
    own_items(in, offsets, out);
}

// --------------------------------------------------------------- occupancy limited by registers

constexpr int REPLAY_THREADS = 128;
constexpr int REPLAY_BLOCKS = 2112;
constexpr int REPLAY_STEPS = 192;
constexpr int REPLAY_SEGMENT = 16;
constexpr int REPLAY_SEGMENTS = REPLAY_STEPS / REPLAY_SEGMENT;

__device__ __forceinline__ float replay_backward(float gradient, float state, int line) {
    return fmaf(gradient, 0.9f, state * float(line));
}

// Slow: keeps the history of 192 steps in registers, so that few warps fit to hide the look-ups.
__global__ void __launch_bounds__(REPLAY_THREADS)
replay_all_in_registers(const float* __restrict__ in, const int* __restrict__ table,
                        float* __restrict__ out) {
    const int i = blockIdx.x * REPLAY_THREADS + threadIdx.x;
    float history[REPLAY_STEPS];
    history[0] = in[i];
#pragma unroll
    for (int k = 1; k < REPLAY_STEPS; ++k) history[k] = logistic_step(history[k - 1]);
    int line = start_line(i, L2_MASK);
    float gradient = 0.0f;
#pragma unroll
    for (int k = REPLAY_STEPS - 1; k >= 0; --k) {
        line = follow(table, line, L2_MASK);
        gradient = replay_backward(gradient, history[k], line);
    }
    out[i] = gradient;
}

// Cure: keeps every 16th step in shared memory and calculates the others again.
__global__ void __launch_bounds__(REPLAY_THREADS)
replay_with_checkpoints(const float* __restrict__ in, const int* __restrict__ table,
                        float* __restrict__ out) {
    __shared__ float checkpoints[REPLAY_SEGMENTS][REPLAY_THREADS];
    const int i = blockIdx.x * REPLAY_THREADS + threadIdx.x;
    float state = in[i];
#pragma unroll 1
    for (int segment = 0; segment < REPLAY_SEGMENTS; ++segment) {
        checkpoints[segment][threadIdx.x] = state;
#pragma unroll
        for (int k = 0; k < REPLAY_SEGMENT; ++k) state = logistic_step(state);
    }
    int line = start_line(i, L2_MASK);
    float gradient = 0.0f;
#pragma unroll 1
    for (int segment = REPLAY_SEGMENTS - 1; segment >= 0; --segment) {
        float history[REPLAY_SEGMENT];
        history[0] = checkpoints[segment][threadIdx.x];
#pragma unroll
        for (int k = 1; k < REPLAY_SEGMENT; ++k) history[k] = logistic_step(history[k - 1]);
#pragma unroll
        for (int k = REPLAY_SEGMENT - 1; k >= 0; --k) {
            line = follow(table, line, L2_MASK);
            gradient = replay_backward(gradient, history[k], line);
        }
    }
    out[i] = gradient;
}

// ----------------------------------------------------------- occupancy limited by shared memory

constexpr int RESERVE_THREADS = 128;
constexpr int RESERVE_BLOCKS = 4224;
constexpr int RESERVE_STEPS = 128;
constexpr int RESERVE_TOO_MUCH_BYTES = 100 * 1024;
static_assert(RESERVE_STEPS == RESERVE_THREADS, "each thread loads one weight");

__device__ __forceinline__ void lookup_weighted(const float* in, const int* table, float* out) {
    extern __shared__ float weights[];
    weights[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * RESERVE_THREADS + threadIdx.x;
    int line = start_line(i, L2_MASK);
    float total = 0.0f;
#pragma unroll 4
    for (int k = 0; k < RESERVE_STEPS; ++k) {
        line = follow(table, line, L2_MASK);
        total = fmaf(total, 0.9f, weights[k] * float(line));
    }
    out[i] = total;
}

// Slow: launched with 100 KB of shared memory a block, so that two blocks of 4 warps fill an SM.
__global__ void __launch_bounds__(RESERVE_THREADS, 16)
lookup_shared_reserved(const float* __restrict__ in, const int* __restrict__ table,
                       float* __restrict__ out) {
    lookup_weighted(in, table, out);
}

// Cure: launched with the 512 bytes that the kernel uses.
__global__ void __launch_bounds__(RESERVE_THREADS, 16)
lookup_shared_needed(const float* __restrict__ in, const int* __restrict__ table,
                     float* __restrict__ out) {
    lookup_weighted(in, table, out);
}

// ------------------------------------------------------------------ waiting for global memory

constexpr int CHASE_THREADS = 512;
constexpr int CHASE_BLOCKS = 264;
constexpr int CHASE_CHAINS = 8;
constexpr int CHASE_STEPS = 32;
constexpr int CHASE_TOTAL_THREADS = CHASE_THREADS * CHASE_BLOCKS;

// Slow: each thread follows 8 chains one after another, so a warp has one read under way.
__global__ void __launch_bounds__(CHASE_THREADS)
chase_one_at_a_time(const int* __restrict__ table, float* __restrict__ out) {
    const int i = blockIdx.x * CHASE_THREADS + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int chain = 0; chain < CHASE_CHAINS; ++chain) {
        int line = start_line(chain * CHASE_TOTAL_THREADS + i, DRAM_MASK);
#pragma unroll 4
        for (int k = 0; k < CHASE_STEPS; ++k) {
            line = follow(table, line, DRAM_MASK);
            total += float(line);
        }
    }
    out[i] = total;
}

// Cure: the 8 chains advance together, so a warp has 8 reads under way.
__global__ void __launch_bounds__(CHASE_THREADS)
chase_eight_at_once(const int* __restrict__ table, float* __restrict__ out) {
    const int i = blockIdx.x * CHASE_THREADS + threadIdx.x;
    int line[CHASE_CHAINS];
    float total[CHASE_CHAINS] = {};
#pragma unroll
    for (int chain = 0; chain < CHASE_CHAINS; ++chain) {
        line[chain] = start_line(chain * CHASE_TOTAL_THREADS + i, DRAM_MASK);
    }
#pragma unroll 1
    for (int k = 0; k < CHASE_STEPS; ++k) {
#pragma unroll
        for (int chain = 0; chain < CHASE_CHAINS; ++chain) {
            line[chain] = follow(table, line[chain], DRAM_MASK);
        }
#pragma unroll
        for (int chain = 0; chain < CHASE_CHAINS; ++chain) total[chain] += float(line[chain]);
    }
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < CHASE_CHAINS; ++chain) sum += total[chain];
    out[i] = sum;
}

// -------------------------------------------------------------------------- waiting at a barrier

constexpr int ROWS = 1 << 15;
constexpr int ROW_LENGTH = 1024;

// Slow: one warp adds up the row while the other 31 wait for it at the barrier.
__global__ void __launch_bounds__(ROW_LENGTH, 2)
row_sum_one_warp(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ __align__(16) float squares[ROW_LENGTH];
    for (int row = blockIdx.x; row < ROWS; row += gridDim.x) {
        const float x = in[row * ROW_LENGTH + threadIdx.x];
        squares[threadIdx.x] = x * x;
        __syncthreads();
        if (threadIdx.x < WARP) {
            float total = 0.0f;
#pragma unroll 16
            for (int k = 0; k < ROW_LENGTH; ++k) total += squares[k];
            if (threadIdx.x == 0) out[row] = total;
        }
        __syncthreads();
    }
}

// Cure: every warp adds up a row of its own with shuffles and needs no barrier.
__global__ void __launch_bounds__(256)
row_sum_every_warp(const float* __restrict__ in, float* __restrict__ out) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP;
    const float4* source = reinterpret_cast<const float4*>(in + row * ROW_LENGTH);
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < ROW_LENGTH / 4 / WARP; ++k) {
        const float4 v = source[k * WARP + lane];
        total += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        total += __shfl_down_sync(0xffffffffu, total, offset);
    }
    if (lane == 0) out[row] = total;
}

// ---------------------------------------------------------------------------------------- copy

// Nothing planted: a straight copy, bound by the memory of the GPU.
__global__ void copy_plain(const float4* __restrict__ in, float4* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}

// ---------------------------------------------------------------------------------------- host

constexpr size_t VALUES = size_t(TRANSPOSE_N) * TRANSPOSE_N;

template <class T>
T* upload(const std::vector<T>& host) {
    T* device = nullptr;
    CHECK(cudaMalloc(&device, host.size() * sizeof(T)));
    CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

std::vector<float> download(const float* device, size_t count) {
    std::vector<float> host(count);
    CHECK(cudaMemcpy(host.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
}

// Numbers in (0, 1), the same ones at each run.
std::vector<float> random_values(size_t count, uint32_t seed) {
    std::vector<float> values(count);
    uint32_t state = seed;
    for (float& value : values) {
        state = state * 1664525u + 1013904223u;
        value = (float(state >> 9) + 0.5f) * 0x1p-23f;
    }
    return values;
}

struct Outputs {
    float* weak;
    float* cured;
    std::vector<float> unwritten;  // not-a-number, so that an element nobody wrote is found
    bool all_equal = true;

    void clear(size_t count) {
        const size_t bytes = count * sizeof(float);
        CHECK(cudaMemcpy(weak, unwritten.data(), bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(cured, unwritten.data(), bytes, cudaMemcpyHostToDevice));
    }
};

template <class Launch>
void timed(const char* kernel, Launch launch) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(stop));
    CHECK(cudaDeviceSynchronize());
    float milliseconds = 0.0f;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    std::printf("  %-28s %9.1f us\n", kernel, milliseconds * 1e3f);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
}

// The largest difference, relative to the largest value; element i of weak belongs to at(i) of cured.
template <class At>
bool same(const std::vector<float>& weak, const std::vector<float>& cured, float tolerance, At at) {
    double largest = 0.0, difference = 0.0;
    bool written = true;
    for (size_t i = 0; i < weak.size(); ++i) {
        const double x = weak[i], y = cured[at(i)];
        written = written && std::isfinite(x) && std::isfinite(y);
        largest = std::fmax(largest, std::fabs(x));
        difference = std::fmax(difference, std::fabs(x - y));
    }
    const bool equal = written && largest > 0.0 && difference <= tolerance * largest;
    std::printf("  largest difference %.2e of %.2e: %s\n", difference, largest,
                equal ? "same" : "DIFFERENT");
    return equal;
}

size_t in_place(size_t i) { return i; }

template <class Weak, class Cured, class At>
void pair(Outputs& outputs, const char* range, size_t count, float tolerance, const char* weak_name,
          Weak weak, const char* cured_name, Cured cured, At at) {
    outputs.clear(count);
    std::printf("%s\n", range);
    nvtxRangePushA(range);
    timed(weak_name, weak);
    timed(cured_name, cured);
    nvtxRangePop();
    const bool equal =
        same(download(outputs.weak, count), download(outputs.cured, count), tolerance, at);
    outputs.all_equal = outputs.all_equal && equal;
}

template <class Weak, class Cured>
void pair(Outputs& outputs, const char* range, size_t count, float tolerance, const char* weak_name,
          Weak weak, const char* cured_name, Cured cured) {
    pair(outputs, range, count, tolerance, weak_name, weak, cured_name, cured, in_place);
}

std::vector<__nv_bfloat16> to_bf16(const std::vector<float>& values) {
    std::vector<__nv_bfloat16> rounded(values.size());
    for (size_t i = 0; i < values.size(); ++i) rounded[i] = __float2bfloat16(values[i] - 0.5f);
    return rounded;
}

std::vector<float> to_fp32(const std::vector<__nv_bfloat16>& values) {
    std::vector<float> widened(values.size());
    for (size_t i = 0; i < values.size(); ++i) widened[i] = __bfloat162float(values[i]);
    return widened;
}

// The first and the last item of each block; the first blocks own `factor` chunks, the others one.
std::vector<int> uneven_offsets(int factor) {
    std::vector<int> offsets(UNEVEN_BLOCKS + 1, 0);
    for (int block = 0; block < UNEVEN_BLOCKS; ++block) {
        const int chunks = block < UNEVEN_HEAVY_BLOCKS ? factor : 1;
        offsets[block + 1] = offsets[block] + chunks * UNEVEN_CHUNK;
    }
    return offsets;
}

std::vector<int> even_offsets(int items) {
    std::vector<int> offsets(UNEVEN_BLOCKS + 1);
    for (int block = 0; block <= UNEVEN_BLOCKS; ++block) {
        offsets[block] = int(int64_t(items) * block / UNEVEN_BLOCKS);
    }
    return offsets;
}

// Where an item goes when each group of 128 is sorted by kind.
size_t grouped_position(size_t i) {
    const size_t group = i / BRANCH_GROUP, inside = i % BRANCH_GROUP;
    return group * BRANCH_GROUP + inside % BRANCH_KINDS * WARP + inside / BRANCH_KINDS;
}

int main() {
    int sm_count = 0;
    CHECK(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, 0));

    // Set-up: everything is filled on the host and copied, so no kernel runs here.
    const std::vector<float> values = random_values(VALUES, 1);
    const float* in = upload(values);

    std::vector<float> fields[3];
    for (int field = 0; field < 3; ++field) {
        fields[field].resize(PARTICLES);
        for (size_t i = 0; i < PARTICLES; ++i) fields[field][i] = values[i * 8 + field];
    }
    const float* vx = upload(fields[0]);
    const float* vy = upload(fields[1]);
    const float* vz = upload(fields[2]);

    std::vector<int> table_lines(size_t(TABLE_LINES) * LINE_WORDS);
    for (size_t line = 0; line < TABLE_LINES; ++line) {
        const int next = int((uint32_t(line) * 1664525u + 1013904223u) & DRAM_MASK);
        for (int word = 0; word < LINE_WORDS; ++word) {
            table_lines[line * LINE_WORDS + word] = next;
        }
    }
    const int* table = upload(table_lines);

    std::vector<int> mixed_kinds(BRANCH_ITEMS), grouped_kinds(BRANCH_ITEMS);
    std::vector<float> grouped_values(BRANCH_ITEMS);
    for (size_t i = 0; i < BRANCH_ITEMS; ++i) {
        mixed_kinds[i] = int(i % BRANCH_KINDS);
        grouped_kinds[grouped_position(i)] = mixed_kinds[i];
        grouped_values[grouped_position(i)] = values[i];
    }
    const int* kinds_mixed = upload(mixed_kinds);
    const int* kinds_grouped = upload(grouped_kinds);
    const float* items_grouped = upload(grouped_values);

    const std::vector<int> heavy_offsets = uneven_offsets(UNEVEN_HEAVY_FACTOR);
    const int uneven_items = heavy_offsets.back();
    const int* offsets_uneven = upload(heavy_offsets);
    const int* offsets_even = upload(even_offsets(uneven_items));

    const size_t large_size = size_t(GEMM_LARGE_N) * GEMM_LARGE_N;
    const std::vector<__nv_bfloat16> host_a = to_bf16(random_values(large_size, 2));
    const std::vector<__nv_bfloat16> host_b = to_bf16(random_values(large_size, 3));
    const std::vector<float> wide_a = to_fp32(host_a), wide_b = to_fp32(host_b);
    const __nv_bfloat16* bf16_a = upload(host_a);
    const __nv_bfloat16* bf16_b = upload(host_b);
    const size_t product_size = size_t(GEMM_N) * GEMM_N;
    const float* fp32_a = upload(std::vector<float>(wide_a.begin(), wide_a.begin() + product_size));
    const float* fp32_b = upload(std::vector<float>(wide_b.begin(), wide_b.begin() + product_size));
    CHECK(cudaFuncSetAttribute(gemm_bf16_mma, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               BF16_SHARED_BYTES));
    CHECK(cudaFuncSetAttribute(gemm_bf16_large, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               BF16_SHARED_BYTES));
    CHECK(cudaFuncSetAttribute(lookup_shared_reserved, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               RESERVE_TOO_MUCH_BYTES));

    Outputs outputs;
    CHECK(cudaMalloc(&outputs.weak, VALUES * sizeof(float)));
    CHECK(cudaMalloc(&outputs.cured, VALUES * sizeof(float)));
    outputs.unwritten.assign(VALUES, std::numeric_limits<float>::quiet_NaN());
    float* weak = outputs.weak;
    float* cured = outputs.cured;

    CHECK(cudaProfilerStart());

    const dim3 tiles(TRANSPOSE_N / TILE, TRANSPOSE_N / TILE), tile_threads(TILE, TILE_ROWS);
    pair(outputs, "uncoalesced store", VALUES, 0.0f,
         "transpose_naive", [&] { transpose_naive<<<tiles, tile_threads>>>(in, weak); },
         "transpose_tiled", [&] { transpose_tiled<<<tiles, tile_threads>>>(in, cured); });

    const Particle* particles = reinterpret_cast<const Particle*>(in);
    pair(outputs, "uncoalesced load", PARTICLES, 1e-5f,
         "energy_array_of_structs",
         [&] { energy_array_of_structs<<<PARTICLES / 256, 256>>>(particles, weak); },
         "energy_struct_of_arrays",
         [&] { energy_struct_of_arrays<<<PARTICLES / 256, 256>>>(vx, vy, vz, cured); });

    pair(outputs, "bank conflicts", size_t(WALK_BLOCKS) * WALK_THREADS, 0.0f,
         "shared_walk_conflicts",
         [&] { shared_walk_conflicts<<<WALK_BLOCKS, WALK_THREADS>>>(in, weak, 5); },
         "shared_walk_padded",
         [&] { shared_walk_padded<<<WALK_BLOCKS, WALK_THREADS>>>(in, cured, 5); });

    pair(outputs, "register spill", size_t(FILTER_BLOCKS) * FILTER_THREADS, 1e-6f,
         "filter_spilled", [&] { filter_spilled<<<FILTER_BLOCKS, FILTER_THREADS>>>(in, weak); },
         "filter_in_registers",
         [&] { filter_in_registers<<<FILTER_BLOCKS, FILTER_THREADS>>>(in, cured); });

    pair(outputs, "thread divergence", BRANCH_ITEMS, 1e-6f,
         "branches_mixed_in_warp",
         [&] { branches_mixed_in_warp<<<BRANCH_ITEMS / 256, 256>>>(in, kinds_mixed, weak); },
         "branches_grouped_by_warp",
         [&] {
             branches_grouped_by_warp<<<BRANCH_ITEMS / 256, 256>>>(items_grouped, kinds_grouped,
                                                                   cured);
         },
         grouped_position);

    const dim3 product_tiles(GEMM_N / GEMM_TILE, GEMM_N / GEMM_TILE);
    pair(outputs, "tensor cores unused", product_size, 1e-4f,
         "gemm_fp32_tiled",
         [&] { gemm_fp32_tiled<<<product_tiles, FP32_THREADS>>>(fp32_a, fp32_b, weak, GEMM_N); },
         "gemm_bf16_mma",
         [&] {
             gemm_bf16_mma<<<product_tiles, BF16_THREADS, BF16_SHARED_BYTES>>>(bf16_a, bf16_b,
                                                                                cured, GEMM_N);
         });

    pair(outputs, "small grid", LOGISTIC_ITEMS, 1e-6f,
         "logistic_16_blocks", [&] { logistic_16_blocks<<<16, 1024>>>(in, weak); },
         "logistic_full_grid", [&] { logistic_full_grid<<<2 * sm_count, 1024>>>(in, cured); });

    const int wave = TAIL_BLOCKS_PER_SM * sm_count;
    const int tail_tasks = (wave + sm_count) * TAIL_CHUNK;
    pair(outputs, "tail wave", tail_tasks, 1e-6f,
         "lookup_tail_wave",
         [&] { lookup_tail_wave<<<wave + sm_count, TAIL_THREADS>>>(table, weak); },
         "lookup_whole_wave",
         [&] { lookup_whole_wave<<<wave, TAIL_THREADS>>>(table, cured, tail_tasks); });

    pair(outputs, "uneven SM load", uneven_items, 1e-6f,
         "blocks_uneven",
         [&] { blocks_uneven<<<UNEVEN_BLOCKS, UNEVEN_THREADS>>>(in, offsets_uneven, weak); },
         "blocks_even",
         [&] { blocks_even<<<UNEVEN_BLOCKS, UNEVEN_THREADS>>>(in, offsets_even, cured); });

    pair(outputs, "occupancy limited by registers", size_t(REPLAY_BLOCKS) * REPLAY_THREADS, 1e-5f,
         "replay_all_in_registers",
         [&] { replay_all_in_registers<<<REPLAY_BLOCKS, REPLAY_THREADS>>>(in, table, weak); },
         "replay_with_checkpoints",
         [&] { replay_with_checkpoints<<<REPLAY_BLOCKS, REPLAY_THREADS>>>(in, table, cured); });

    pair(outputs, "occupancy limited by shared memory", size_t(RESERVE_BLOCKS) * RESERVE_THREADS,
         1e-6f,
         "lookup_shared_reserved",
         [&] {
             lookup_shared_reserved<<<RESERVE_BLOCKS, RESERVE_THREADS, RESERVE_TOO_MUCH_BYTES>>>(
                 in, table, weak);
         },
         "lookup_shared_needed",
         [&] {
             lookup_shared_needed<<<RESERVE_BLOCKS, RESERVE_THREADS,
                                    RESERVE_STEPS * sizeof(float)>>>(in, table, cured);
         });

    pair(outputs, "waiting for global memory", CHASE_TOTAL_THREADS, 1e-4f,
         "chase_one_at_a_time",
         [&] { chase_one_at_a_time<<<CHASE_BLOCKS, CHASE_THREADS>>>(table, weak); },
         "chase_eight_at_once",
         [&] { chase_eight_at_once<<<CHASE_BLOCKS, CHASE_THREADS>>>(table, cured); });

    pair(outputs, "waiting at a barrier", ROWS, 1e-4f,
         "row_sum_one_warp", [&] { row_sum_one_warp<<<2 * sm_count, ROW_LENGTH>>>(in, weak); },
         "row_sum_every_warp", [&] { row_sum_every_warp<<<ROWS * WARP / 256, 256>>>(in, cured); });

    pair(outputs, "partial warp", LOGISTIC_ITEMS, 1e-6f,
         "logistic_blocks_of_33",
         [&] { logistic_blocks_of_33<<<(LOGISTIC_ITEMS + 32) / 33, 33>>>(in, weak); },
         "logistic_blocks_of_64",
         [&] { logistic_blocks_of_64<<<LOGISTIC_ITEMS / 64, 64>>>(in, cured); });

    outputs.clear(VALUES);
    std::printf("plain copy\n");
    nvtxRangePushA("plain copy");
    timed("copy_plain", [&] {
        copy_plain<<<int(VALUES / 4 / 256), 256>>>(reinterpret_cast<const float4*>(in),
                                                   reinterpret_cast<float4*>(weak));
    });
    nvtxRangePop();
    outputs.all_equal &= same(values, download(weak, VALUES), 0.0f, in_place);

    const dim3 large_tiles(GEMM_LARGE_N / GEMM_TILE, GEMM_LARGE_N / GEMM_TILE);
    outputs.clear(large_size);
    std::printf("tensor product\n");
    nvtxRangePushA("tensor product");
    timed("gemm_bf16_large", [&] {
        gemm_bf16_large<<<large_tiles, BF16_THREADS, BF16_SHARED_BYTES>>>(bf16_a, bf16_b, weak,
                                                                          GEMM_LARGE_N);
    });
    nvtxRangePop();

    CHECK(cudaProfilerStop());

    // The whole large product would take too long on the host: a sample of it is checked.
    const std::vector<float> product = download(weak, large_size);
    std::vector<float> expected, found;
    for (size_t row = 0; row < GEMM_LARGE_N; row += 61) {
        const size_t column = (row * 37 + 11) % GEMM_LARGE_N;
        double sum = 0.0;
        for (size_t k = 0; k < GEMM_LARGE_N; ++k) {
            sum += double(wide_a[row * GEMM_LARGE_N + k]) * wide_b[k * GEMM_LARGE_N + column];
        }
        expected.push_back(float(sum));
        found.push_back(product[row * GEMM_LARGE_N + column]);
    }
    outputs.all_equal &= same(expected, found, 1e-4f, in_place);

    std::printf("%s\n", outputs.all_equal ? "all results agree" : "RESULTS DIFFER");
    return outputs.all_equal ? 0 : 1;
}
