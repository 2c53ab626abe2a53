// Planted problems of arithmetic: pipes, divergence, and products that leave the tensor cores or their ways unused.
// See README.md; harness.cuh runs the pairs.
//
// Build: nvcc -O3 -arch=sm_90 -lineinfo -std=c++17 -o compute compute.cu

#include "harness.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int ITEMS = SMS * 2048 * 4;

// -------------------------------------------------------------- the special-function pipe: powers

constexpr int POWER_STEPS = 64;

// Without the scaling of denormal numbers that __powf brings along.
__device__ __forceinline__ float power(float x, float exponent) {
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    result *= exponent;
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(result));
    return result;
}

// Slow: a cube by logarithm and exponential, which both go through the special-function pipe.
__global__ void __launch_bounds__(256) cube_by_power(const float* __restrict__ in, float* __restrict__ out,
                                                     float exponent) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i], y = 1.0f - x;
#pragma unroll 8
    for (int k = 0; k < POWER_STEPS; ++k) {
        x = fmaf(power(x, exponent), 0.5f, 0.25f);
        y = fmaf(power(y, exponent), 0.5f, 0.25f);
    }
    out[i] = x + y;
}

// Cure: two multiplications.
__global__ void __launch_bounds__(256) cube_by_product(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i], y = 1.0f - x;
#pragma unroll 8
    for (int k = 0; k < POWER_STEPS; ++k) {
        x = fmaf(x * x * x, 0.5f, 0.25f);
        y = fmaf(y * y * y, 0.5f, 0.25f);
    }
    out[i] = x + y;
}

void xu_power(Bench& bench) {
    Buffer<float> in(ITEMS), slow(ITEMS), cured(ITEMS);
    in.random(1);
    bench.pair([&] { cube_by_power<<<ITEMS / 256, 256>>>(in, slow, 3.0f); },
               [&] { cube_by_product<<<ITEMS / 256, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-4);
}

// ------------------------------------------------------ the special-function pipe: integer division

constexpr int DIVISIONS = 64;

// Slow: every division converts, inverts and converts back, all on the special-function pipe.
__global__ void __launch_bounds__(256) digits_by_division(const uint32_t* __restrict__ in,
                                                          const uint32_t* __restrict__ divisors,
                                                          float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    uint32_t x = in[i];
#pragma unroll 4
    for (int k = 0; k < DIVISIONS; ++k) {
        const uint32_t divisor = divisors[k];
        x = (x / divisor) * 1664525u + x % divisor + 1013904223u;
    }
    out[i] = float(x >> 8);
}

// Cure: the divisors are powers of two, so a shift and a mask do.
__global__ void __launch_bounds__(256) digits_by_shift(const uint32_t* __restrict__ in,
                                                       const uint32_t* __restrict__ shifts, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    uint32_t x = in[i];
#pragma unroll 4
    for (int k = 0; k < DIVISIONS; ++k) {
        const uint32_t shift = shifts[k];
        x = (x >> shift) * 1664525u + (x & ((1u << shift) - 1)) + 1013904223u;
    }
    out[i] = float(x >> 8);
}

void xu_division(Bench& bench) {
    std::vector<uint32_t> shifts(DIVISIONS), divisors(DIVISIONS);
    for (int k = 0; k < DIVISIONS; ++k) {
        shifts[k] = uint32_t(1 + k * 7 % 12);
        divisors[k] = 1u << shifts[k];
    }
    Buffer<uint32_t> by(divisors), shift(shifts), in(ITEMS);
    Buffer<float> slow(ITEMS), cured(ITEMS);
    in.random(2);
    bench.pair([&] { digits_by_division<<<ITEMS / 256, 256>>>(in, by, slow); },
               [&] { digits_by_shift<<<ITEMS / 256, 256>>>(in, shift, cured); });
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------------- the integer pipe: bits one by one

constexpr int MORTON_POINTS = 1 << 25;

__device__ __forceinline__ uint32_t spread_bit_by_bit(uint32_t x) {
    uint32_t spread = 0;
#pragma unroll
    for (int bit = 0; bit < 16; ++bit) {
        // As assembly: the compiler knows shorter ways.
        uint32_t one;
        asm("bfe.u32 %0, %1, %2, 1;" : "=r"(one) : "r"(x), "r"(bit));
        asm("shl.b32 %0, %0, %1;" : "+r"(one) : "r"(2 * bit));
        asm("or.b32 %0, %0, %1;" : "+r"(spread) : "r"(one));
    }
    return spread;
}

__device__ __forceinline__ uint32_t spread_by_masks(uint32_t x) {
    x &= 0xffffu;
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    x = (x | x << 2) & 0x33333333u;
    return (x | x << 1) & 0x55555555u;
}

// Slow: each bit of the coordinates is taken out, moved and put back by itself.
__global__ void __launch_bounds__(256) morton_by_bits(const uint32_t* __restrict__ x, const uint32_t* __restrict__ y,
                                                      uint32_t* __restrict__ codes) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    codes[i] = spread_bit_by_bit(x[i]) | spread_bit_by_bit(y[i]) << 1;
}

// Cure: all bits move at once, in four steps.
__global__ void __launch_bounds__(256) morton_by_masks(const uint32_t* __restrict__ x, const uint32_t* __restrict__ y,
                                                       uint32_t* __restrict__ codes) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    codes[i] = spread_by_masks(x[i]) | spread_by_masks(y[i]) << 1;
}

void alu_morton(Bench& bench) {
    Buffer<uint32_t> x(MORTON_POINTS), y(MORTON_POINTS), slow(MORTON_POINTS), cured(MORTON_POINTS);
    x.random(3), y.random(4);
    bench.pair([&] { morton_by_bits<<<MORTON_POINTS / 256, 256>>>(x, y, slow); },
               [&] { morton_by_masks<<<MORTON_POINTS / 256, 256>>>(x, y, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------------------ unfused arithmetic

constexpr int UNFUSED_STEPS = 256;

// Slow: the roundings asked for keep multiplication and addition apart.
__global__ void __launch_bounds__(256) filter_unfused(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i], y = 1.0f - x;
#pragma unroll 16
    for (int k = 0; k < UNFUSED_STEPS; ++k) {
        x = __fadd_rn(__fmul_rn(x, 0.97f), 0.01f);
        y = __fadd_rn(__fmul_rn(y, 0.95f), 0.02f);
    }
    out[i] = x + y;
}

// Cure: fused multiply-add.
__global__ void __launch_bounds__(256) filter_fused(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i], y = 1.0f - x;
#pragma unroll 16
    for (int k = 0; k < UNFUSED_STEPS; ++k) {
        x = fmaf(x, 0.97f, 0.01f);
        y = fmaf(y, 0.95f, 0.02f);
    }
    out[i] = x + y;
}

void unfused_filter(Bench& bench) {
    Buffer<float> in(ITEMS), slow(ITEMS), cured(ITEMS);
    in.random(4);
    bench.pair([&] { filter_unfused<<<ITEMS / 256, 256>>>(in, slow); },
               [&] { filter_fused<<<ITEMS / 256, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-5);
}

// -------------------------------------------------------------------- thread divergence: loops of other lengths

constexpr int LONGEST = 1024;

__device__ __forceinline__ void iterate_own_count(const float* in, const int* counts, float* out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int count = counts[i];
    float x = in[i];
#pragma unroll 4
    for (int k = 0; k < count; ++k) x = fused_step(x);
    out[i] = x;
}

// Slow: the items of a warp need between one and 1024 steps, and all wait for the longest.
__global__ void __launch_bounds__(256) iterate_mixed(const float* __restrict__ in, const int* __restrict__ counts,
                                                     float* __restrict__ out) {
    iterate_own_count(in, counts, out);
}

// Cure: the items are sorted by the number of their steps.
__global__ void __launch_bounds__(256) iterate_sorted(const float* __restrict__ in, const int* __restrict__ counts,
                                                      float* __restrict__ out) {
    iterate_own_count(in, counts, out);
}

void divergence_loops(Bench& bench) {
    std::vector<int> counts(ITEMS), sorted_counts(ITEMS), order(ITEMS), place(ITEMS);
    for (int i = 0; i < ITEMS; ++i) {
        const float u = unit_value(uint32_t(i) + 77u);
        counts[i] = 1 + int(float(LONGEST - 1) * u * u * u);
        order[i] = i;
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return counts[a] > counts[b]; });
    std::vector<float> values(ITEMS), sorted_values(ITEMS);
    for (int i = 0; i < ITEMS; ++i) values[i] = unit_value(uint32_t(i));
    for (int i = 0; i < ITEMS; ++i) {
        sorted_counts[i] = counts[order[i]];
        sorted_values[i] = values[order[i]];
        place[order[i]] = i;
    }
    Buffer<int> mixed(counts), sorted(sorted_counts);
    Buffer<float> in(values), in_sorted(sorted_values), slow(ITEMS), cured(ITEMS);
    bench.pair([&] { iterate_mixed<<<ITEMS / 256, 256>>>(in, mixed, slow); },
               [&] { iterate_sorted<<<ITEMS / 256, 256>>>(in_sorted, sorted, cured); });
    bench.same(slow, cured, 0.0, [&](size_t i) { return size_t(place[i]); });
}

// ------------------------------------------------------------------ thread divergence: three ways in a warp

constexpr int WAYS_STEPS = 192;

__device__ __forceinline__ float by_kind(float x, int kind) {
    float y = 1.0f - x;
    if (kind == 0) {
#pragma unroll 4
        for (int k = 0; k < WAYS_STEPS; ++k) x = fused_step(x), y = fused_step(y);
    } else if (kind == 1) {
#pragma unroll 4
        for (int k = 0; k < WAYS_STEPS; ++k) x = fmaf(x, y, 0.125f), y = fmaf(y, 0.95f, 0.02f);
    } else {
#pragma unroll 4
        for (int k = 0; k < WAYS_STEPS; ++k) x = fmaf(x, -x, 0.75f), y = fmaf(y, -y, 0.7f);
    }
    return x + y;
}

// Slow: three kinds of item take turns inside a warp.
__global__ void __launch_bounds__(256) kinds_interleaved(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = by_kind(in[i], i % 3);
}

// Cure: a whole warp has one kind.
__global__ void __launch_bounds__(256) kinds_by_warp(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = by_kind(in[i], i / WARP % 3);
}

void divergence_kinds(Bench& bench) {
    // Groups of 96: item j of a group is of kind j % 3 on the slow side and has place j % 3 * 32 + j / 3 on the other.
    const auto place = [](size_t i) { return i / 96 * 96 + i % 96 % 3 * WARP + i % 96 / 3; };
    static_assert(ITEMS % 96 == 0);
    std::vector<float> values(ITEMS), grouped(ITEMS);
    for (size_t i = 0; i < ITEMS; ++i) grouped[place(i)] = values[i] = unit_value(uint32_t(i));
    Buffer<float> in(values), in_grouped(grouped), slow(ITEMS), cured(ITEMS);
    bench.pair([&] { kinds_interleaved<<<ITEMS / 256, 256>>>(in, slow); },
               [&] { kinds_by_warp<<<ITEMS / 256, 256>>>(in_grouped, cured); });
    bench.same(slow, cured, 1e-6, place);
}

// --------------------------------------------------------------------------------------------- predication

constexpr int MASKED_STEPS = 256;

// Slow: three of four lanes are masked off in a body that is too short for a branch.
__global__ void __launch_bounds__(256) update_masked(const float* __restrict__ in, const int* __restrict__ wanted,
                                                     float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
    const int want = wanted[i];
#pragma unroll 8
    for (int k = 0; k < MASKED_STEPS; ++k) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.s32 p, %1, 0;\n"
            "@p fma.rn.f32 %0, %0, 0f3F7D70A4, 0f3C23D70A;\n"
            "@p fma.rn.f32 %0, %0, 0f3F75C28F, 0f3CA3D70A;\n"
            "@p fma.rn.f32 %0, %0, 0f3F7D70A4, 0f3C23D70A;\n"
            "@p fma.rn.f32 %0, %0, 0f3F75C28F, 0f3CA3D70A;\n"
            "@p fma.rn.f32 %0, %0, 0f3F7D70A4, 0f3C23D70A;\n"
            "@p fma.rn.f32 %0, %0, 0f3F75C28F, 0f3CA3D70A;\n"
            "}\n"
            : "+f"(x)
            : "r"(want));
    }
    out[i] = x;
}

// Cure: the wanted items come first, so that most warps have none of them and pass the loop by.
__global__ void __launch_bounds__(256) update_wanted(const float* __restrict__ in, const int* __restrict__ wanted,
                                                     float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
    if (wanted[i]) {
#pragma unroll 8
        for (int k = 0; k < 3 * MASKED_STEPS; ++k) {
            x = fmaf(x, 0.99f, 0.01f);
            x = fmaf(x, 0.96f, 0.02f);
        }
    }
    out[i] = x;
}

void predication_mask(Bench& bench) {
    // One in four is wanted; within groups of 128 the cured side has the wanted ones in the first warp.
    const auto place = [](size_t i) { return i / 128 * 128 + i % 4 * WARP + i % 128 / 4; };
    std::vector<float> values(ITEMS), grouped(ITEMS);
    std::vector<int> wanted(ITEMS), grouped_wanted(ITEMS);
    for (size_t i = 0; i < ITEMS; ++i) {
        grouped[place(i)] = values[i] = unit_value(uint32_t(i));
        grouped_wanted[place(i)] = wanted[i] = i % 4 == 0;
    }
    Buffer<float> in(values), in_grouped(grouped), slow(ITEMS), cured(ITEMS);
    Buffer<int> want(wanted), want_grouped(grouped_wanted);
    bench.pair([&] { update_masked<<<ITEMS / 256, 256>>>(in, want, slow); },
               [&] { update_wanted<<<ITEMS / 256, 256>>>(in_grouped, want_grouped, cured); });
    bench.same(slow, cured, 1e-3, place);
}

// --------------------------------------------------------------------- products: plain fp32 and packed fp16

constexpr int PRODUCT_N = 2048;
constexpr int PRODUCT_TILE = 128;
constexpr int SLICE = 8;

// Slow: well tiled, 8 x 8 results a thread, but on the ordinary cores.
__global__ void __launch_bounds__(256) matmul_fp32_tiled(const float* __restrict__ a, const float* __restrict__ b,
                                                         float* __restrict__ c, int n) {
    __shared__ __align__(16) float left_tile[SLICE][PRODUCT_TILE + 4];
    __shared__ __align__(16) float right_tile[SLICE][PRODUCT_TILE];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int left_row = threadIdx.x / 2, left_column = threadIdx.x % 2 * 4;
    const int right_row = threadIdx.x / 32, right_column = threadIdx.x % 32 * 4;
    const float* left_from = a + size_t(blockIdx.y * PRODUCT_TILE + left_row) * n + left_column;
    const float* right_from = b + size_t(right_row) * n + blockIdx.x * PRODUCT_TILE + right_column;
    float4 next_left = *reinterpret_cast<const float4*>(left_from);
    float4 next_right = *reinterpret_cast<const float4*>(right_from);
    float sums[8][8] = {};
    for (int k0 = 0; k0 < n; k0 += SLICE) {
        left_tile[left_column + 0][left_row] = next_left.x;
        left_tile[left_column + 1][left_row] = next_left.y;
        left_tile[left_column + 2][left_row] = next_left.z;
        left_tile[left_column + 3][left_row] = next_left.w;
        *reinterpret_cast<float4*>(&right_tile[right_row][right_column]) = next_right;
        __syncthreads();
        if (k0 + SLICE < n) {
            next_left = *reinterpret_cast<const float4*>(left_from + k0 + SLICE);
            next_right = *reinterpret_cast<const float4*>(right_from + size_t(k0 + SLICE) * n);
        }
#pragma unroll
        for (int k = 0; k < SLICE; ++k) {
            float left[8], right[8];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *reinterpret_cast<float4*>(left + half * 4) =
                    *reinterpret_cast<float4*>(&left_tile[k][half * 64 + ty * 4]);
                *reinterpret_cast<float4*>(right + half * 4) =
                    *reinterpret_cast<float4*>(&right_tile[k][half * 64 + tx * 4]);
            }
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
        float* to = c + size_t(blockIdx.y * PRODUCT_TILE + i / 4 * 64 + ty * 4 + i % 4) * n +
                    blockIdx.x * PRODUCT_TILE + tx * 4;
        *reinterpret_cast<float4*>(to) = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        *reinterpret_cast<float4*>(to + 64) = make_float4(sums[i][4], sums[i][5], sums[i][6], sums[i][7]);
    }
}

// Slow: the same tiles with two fp16 values an instruction, still on the ordinary cores.
__global__ void __launch_bounds__(256) matmul_half2(const __half* __restrict__ a, const __half* __restrict__ b,
                                                    float* __restrict__ c, int n) {
    __shared__ __align__(16) __half2 left_tile[SLICE][PRODUCT_TILE + 4];  // each value twice
    __shared__ __align__(16) __half2 right_tile[SLICE][PRODUCT_TILE / 2];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int left_row = threadIdx.x / 2, left_column = threadIdx.x % 2 * 4;
    const int right_row = threadIdx.x / 32, right_column = threadIdx.x % 32 * 4;
    const __half* left_from = a + size_t(blockIdx.y * PRODUCT_TILE + left_row) * n + left_column;
    const __half* right_from = b + size_t(right_row) * n + blockIdx.x * PRODUCT_TILE + right_column;
    uint2 next_left = *reinterpret_cast<const uint2*>(left_from);
    uint2 next_right = *reinterpret_cast<const uint2*>(right_from);
    __half2 sums[8][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = __float2half2_rn(0.0f);
    }
    for (int k0 = 0; k0 < n; k0 += SLICE) {
        const __half2* pairs = reinterpret_cast<const __half2*>(&next_left);
        left_tile[left_column + 0][left_row] = __low2half2(pairs[0]);
        left_tile[left_column + 1][left_row] = __high2half2(pairs[0]);
        left_tile[left_column + 2][left_row] = __low2half2(pairs[1]);
        left_tile[left_column + 3][left_row] = __high2half2(pairs[1]);
        *reinterpret_cast<uint2*>(&right_tile[right_row][right_column / 2]) = next_right;
        __syncthreads();
        if (k0 + SLICE < n) {
            next_left = *reinterpret_cast<const uint2*>(left_from + k0 + SLICE);
            next_right = *reinterpret_cast<const uint2*>(right_from + size_t(k0 + SLICE) * n);
        }
#pragma unroll
        for (int k = 0; k < SLICE; ++k) {
            __half2 left[8], right[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *reinterpret_cast<uint4*>(left + half * 4) =
                    *reinterpret_cast<uint4*>(&left_tile[k][half * 64 + ty * 4]);
                *reinterpret_cast<uint2*>(right + half * 2) =
                    *reinterpret_cast<uint2*>(&right_tile[k][half * 32 + tx * 2]);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] = __hfma2(left[i], right[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float* to = c + size_t(blockIdx.y * PRODUCT_TILE + i / 4 * 64 + ty * 4 + i % 4) * n +
                    blockIdx.x * PRODUCT_TILE + tx * 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float2 first = __half22float2(sums[i][half * 2]), second = __half22float2(sums[i][half * 2 + 1]);
            *reinterpret_cast<float4*>(to + half * 64) = make_float4(first.x, first.y, second.x, second.y);
        }
    }
}

// ------------------------------------------------------------------- products on the tensor cores by mma.sync

// A block takes ROWS x 128 results and a warp 64 x 64. With STAGES of 1 each slice goes through registers into shared
// memory and everybody waits; with more, the next slices are copied in the background.
template <class T, int ROWS, int STAGES>
struct Product {
    static constexpr int COLUMNS = 128, DEPTH = 32;
    static constexpr int THREADS = ROWS / 64 * 2 * WARP;
    static constexpr int LEFT_PITCH = DEPTH + 8, RIGHT_PITCH = COLUMNS + 8;  // rows of a fragment in other banks
    static constexpr int STAGE = ROWS * LEFT_PITCH + DEPTH * RIGHT_PITCH;
    static constexpr int SHARED_BYTES = STAGES * STAGE * int(sizeof(T));

    static __device__ __forceinline__ void fetch(T* stage, const T* a, const T* b, int n, int k0) {
        constexpr int LEFT = ROWS * DEPTH / 8, RIGHT = DEPTH * COLUMNS / 8;
        T* right = stage + ROWS * LEFT_PITCH;
        if constexpr (STAGES == 1) {
            uint4 held[(LEFT + RIGHT) / THREADS];
#pragma unroll
            for (int pass = 0; pass < (LEFT + RIGHT) / THREADS; ++pass) {
                held[pass] = *reinterpret_cast<const uint4*>(source(a, b, n, k0, pass * THREADS + threadIdx.x));
            }
#pragma unroll
            for (int pass = 0; pass < (LEFT + RIGHT) / THREADS; ++pass) {
                *reinterpret_cast<uint4*>(target(stage, right, pass * THREADS + threadIdx.x)) = held[pass];
            }
        } else {
#pragma unroll
            for (int pass = 0; pass < (LEFT + RIGHT) / THREADS; ++pass) {
                const int i = pass * THREADS + threadIdx.x;
                __pipeline_memcpy_async(target(stage, right, i), source(a, b, n, k0, i), 16);
            }
        }
    }

    // Where the i-th 16 bytes of a slice come from and go to.
    static __device__ __forceinline__ const T* source(const T* a, const T* b, int n, int k0, int i) {
        constexpr int LEFT = ROWS * DEPTH / 8;
        if (i < LEFT) return a + size_t(blockIdx.y * ROWS + i / (DEPTH / 8)) * n + k0 + i % (DEPTH / 8) * 8;
        const int j = i - LEFT;
        return b + size_t(k0 + j / (COLUMNS / 8)) * n + blockIdx.x * COLUMNS + j % (COLUMNS / 8) * 8;
    }

    static __device__ __forceinline__ T* target(T* left, T* right, int i) {
        constexpr int LEFT = ROWS * DEPTH / 8;
        if (i < LEFT) return left + i / (DEPTH / 8) * LEFT_PITCH + i % (DEPTH / 8) * 8;
        const int j = i - LEFT;
        return right + j / (COLUMNS / 8) * RIGHT_PITCH + j % (COLUMNS / 8) * 8;
    }

    static __device__ __forceinline__ void multiply(const T* a, const T* b, float* c, int n) {
        extern __shared__ __align__(128) unsigned char shared[];
        T* stages = reinterpret_cast<T*>(shared);
        const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        const int row = warp / 2 * 64, column = warp % 2 * 64;
        float sums[4][8][4] = {};
        const int slices = n / DEPTH;
        if constexpr (STAGES > 1) {
            for (int s = 0; s < STAGES - 1; ++s) {
                fetch(stages + s * STAGE, a, b, n, s * DEPTH);
                __pipeline_commit();
            }
        }
        for (int s = 0; s < slices; ++s) {
            if constexpr (STAGES > 1) {
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();
                const int ahead = s + STAGES - 1;
                if (ahead < slices) fetch(stages + ahead % STAGES * STAGE, a, b, n, ahead * DEPTH);
                __pipeline_commit();
            } else {
                __syncthreads();
                fetch(stages, a, b, n, s * DEPTH);
                __syncthreads();
            }
            const T* left_tile = stages + s % STAGES * STAGE;
            const T* right_tile = left_tile + ROWS * LEFT_PITCH;
#pragma unroll
            for (int k = 0; k < DEPTH; k += 16) {
                uint32_t left[4][4], right[4][4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    load_matrices<false>(left[i],
                                         left_tile + (row + i * 16 + lane % 16) * LEFT_PITCH + k + lane / 16 * 8);
                    load_matrices<true>(right[i],
                                        right_tile + (k + lane % 16) * RIGHT_PITCH + column + i * 16 + lane / 16 * 8);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                float* to = c + size_t(blockIdx.y * ROWS + row + i * 16 + lane / 4) * n + blockIdx.x * COLUMNS +
                            column + j * 8 + lane % 4 * 2;
                *reinterpret_cast<float2*>(to) = make_float2(sums[i][j][0], sums[i][j][1]);
                *reinterpret_cast<float2*>(to + 8 * n) = make_float2(sums[i][j][2], sums[i][j][3]);
            }
        }
    }

    // Four 8 x 8 matrices from shared memory into the registers of a warp, as they are or transposed.
    template <bool TRANSPOSED>
    static __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const T* source) {
        const unsigned from = unsigned(__cvta_generic_to_shared(source));
        if constexpr (TRANSPOSED) {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(from)
                         : "memory");
        } else {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(from)
                         : "memory");
        }
    }

    static __device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                        uint32_t b1) {
        if constexpr (std::is_same_v<T, __half>) {
            asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
        } else {
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
        }
    }

    template <class Kernel>
    static void launch(Kernel kernel, const T* a, const T* b, float* c, int n) {
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
        kernel<<<dim3(n / COLUMNS, n / ROWS), THREADS, SHARED_BYTES>>>(a, b, c, n);
    }
};

using Staged = Product<__nv_bfloat16, 128, 3>;
using Large = Product<__nv_bfloat16, 256, 4>;
using Waiting = Product<__nv_bfloat16, 128, 1>;
using StagedHalf = Product<__half, 128, 3>;

__global__ void __launch_bounds__(Staged::THREADS, 2)
matmul_bf16_staged(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, float* __restrict__ c,
                   int n) {
    Staged::multiply(a, b, c, n);
}

__global__ void __launch_bounds__(StagedHalf::THREADS, 2)
matmul_fp16_staged(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c, int n) {
    StagedHalf::multiply(a, b, c, n);
}

// Slow beside the library: large tiles and background copies, but the matrix instructions of the generation before.
__global__ void __launch_bounds__(Large::THREADS, 1)
matmul_bf16_mma_sync(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, float* __restrict__ c,
                     int n) {
    Large::multiply(a, b, c, n);
}

// Slow: each slice goes through registers, and nobody multiplies meanwhile.
__global__ void __launch_bounds__(Waiting::THREADS, 2)
matmul_bf16_waiting(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, float* __restrict__ c,
                    int n) {
    Waiting::multiply(a, b, c, n);
}

template <class T>
__global__ void widen(const T* in, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = float(in[i]);
}

constexpr size_t PRODUCT_SIZE = size_t(PRODUCT_N) * PRODUCT_N;

void tensor_unused(Bench& bench) {
    Buffer<__nv_bfloat16> a(PRODUCT_SIZE), b(PRODUCT_SIZE);
    Buffer<float> wide_a(PRODUCT_SIZE), wide_b(PRODUCT_SIZE), slow(PRODUCT_SIZE), cured(PRODUCT_SIZE);
    a.random(5, 0.5f), b.random(6, 0.5f);
    widen<__nv_bfloat16><<<PRODUCT_SIZE / 256, 256>>>(a, wide_a);
    widen<__nv_bfloat16><<<PRODUCT_SIZE / 256, 256>>>(b, wide_b);
    const dim3 tiles(PRODUCT_N / PRODUCT_TILE, PRODUCT_N / PRODUCT_TILE);
    bench.pair([&] { matmul_fp32_tiled<<<tiles, 256>>>(wide_a, wide_b, slow, PRODUCT_N); },
               [&] { Staged::launch(matmul_bf16_staged, a, b, cured, PRODUCT_N); });
    bench.same(slow, cured, 1e-4);
}

void fp16_no_tensor(Bench& bench) {
    Buffer<__half> a(PRODUCT_SIZE), b(PRODUCT_SIZE);
    Buffer<float> slow(PRODUCT_SIZE), cured(PRODUCT_SIZE);
    a.random(7, 0.5f), b.random(8, 0.5f);
    const dim3 tiles(PRODUCT_N / PRODUCT_TILE, PRODUCT_N / PRODUCT_TILE);
    bench.pair([&] { matmul_half2<<<tiles, 256>>>(a, b, slow, PRODUCT_N); },
               [&] { StagedHalf::launch(matmul_fp16_staged, a, b, cured, PRODUCT_N); });
    bench.same(slow, cured, 2e-2);
}

void async_copy(Bench& bench) {
    Buffer<__nv_bfloat16> a(PRODUCT_SIZE), b(PRODUCT_SIZE);
    Buffer<float> slow(PRODUCT_SIZE), cured(PRODUCT_SIZE);
    a.random(9, 0.5f), b.random(10, 0.5f);
    bench.pair([&] { Waiting::launch(matmul_bf16_waiting, a, b, slow, PRODUCT_N); },
               [&] { Staged::launch(matmul_bf16_staged, a, b, cured, PRODUCT_N); });
    bench.same(slow, cured, 1e-5);
}

// Its twin, the library's product of the same shape, is in whyslow_torch.py.
void hopper_mma(Bench& bench) {
    constexpr int N = 4096;
    const size_t size = size_t(N) * N;
    Buffer<__nv_bfloat16> a(size), b(size);
    Buffer<float> c(size);
    a.random(11, 0.5f), b.random(12, 0.5f);
    bench.slow_only([&] { Large::launch(matmul_bf16_mma_sync, a, b, c, N); });
}

int main(int argc, char** argv) {
    Bench bench(argc, argv);
    bench.run("xu-power", xu_power);
    bench.run("xu-division", xu_division);
    bench.run("alu-morton", alu_morton);
    bench.run("unfused-filter", unfused_filter);
    bench.run("divergence-loops", divergence_loops);
    bench.run("divergence-kinds", divergence_kinds);
    bench.run("predication-mask", predication_mask);
    bench.run("tensor-unused", tensor_unused);
    bench.run("fp16-no-tensor", fp16_no_tensor);
    bench.run("async-copy", async_copy);
    bench.run("hopper-mma", hopper_mma);
}
