// Planted problems that no rule was tuned with: other code than in memory.cu, waits.cu and compute.cu. What is planted
// was settled before anybody saw what the diagnosis says. See README.md; harness.cuh runs the pairs.
//
// Build: nvcc -O3 -arch=sm_90 -lineinfo -std=c++17 -o held_out held_out.cu

#include "harness.cuh"

#include <mma.h>

// ---------------------------------------------------------------- uncoalesced load: two fields of a particle

constexpr int PARTICLES = 1 << 22;

struct Particle {
    double x, y, z, vx, vy, vz, mass, charge;
};

// Slow: neighbouring threads read two doubles out of every 64 bytes.
__global__ void moments_of_structs(const Particle* __restrict__ particles, double* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = particles[i].x * particles[i].mass;
}

// Cure: an array a field.
__global__ void moments_of_arrays(const double* __restrict__ x, const double* __restrict__ mass,
                                  double* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] * mass[i];
}

__global__ void take_fields(const Particle* particles, double* x, double* mass) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = particles[i].x;
    mass[i] = particles[i].mass;
}

void held_particles(Bench& bench) {
    Buffer<double> in(size_t(PARTICLES) * 8), x(PARTICLES), mass(PARTICLES), slow(PARTICLES), cured(PARTICLES);
    in.random(1);
    double* raw = in;
    const Particle* particles = reinterpret_cast<const Particle*>(raw);
    take_fields<<<PARTICLES / 256, 256>>>(particles, x, mass);
    bench.pair([&] { moments_of_structs<<<PARTICLES / 256, 256>>>(particles, slow); },
               [&] { moments_of_arrays<<<PARTICLES / 256, 256>>>(x, mass, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------ uncoalesced load: a thread a row of a matrix

constexpr int MATRIX_ROWS = SMS * 2048;
constexpr int MATRIX_COLUMNS = 256;

// Slow: a thread adds up a row, so that the lanes of a warp read one column.
__global__ void __launch_bounds__(256) row_products_by_thread(const float* __restrict__ matrix,
                                                              const float* __restrict__ x, float* __restrict__ y) {
    const size_t row = blockIdx.x * 256 + threadIdx.x;
    float total = 0.0f;
    for (int column = 0; column < MATRIX_COLUMNS; ++column) {
        total = fmaf(matrix[row * MATRIX_COLUMNS + column], x[column], total);
    }
    y[row] = total;
}

// Cure: a warp adds up a row.
__global__ void __launch_bounds__(256) row_products_by_warp(const float* __restrict__ matrix,
                                                            const float* __restrict__ x, float* __restrict__ y) {
    const size_t row = (blockIdx.x * 256 + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP;
    float total = 0.0f;
#pragma unroll
    for (int column = lane; column < MATRIX_COLUMNS; column += WARP) {
        total = fmaf(matrix[row * MATRIX_COLUMNS + column], x[column], total);
    }
    for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
    if (lane == 0) y[row] = total;
}

void held_matrix_vector(Bench& bench) {
    Buffer<float> matrix(size_t(MATRIX_ROWS) * MATRIX_COLUMNS), x(MATRIX_COLUMNS), slow(MATRIX_ROWS), cured(MATRIX_ROWS);
    matrix.random(2), x.random(3);
    bench.pair([&] { row_products_by_thread<<<MATRIX_ROWS / 256, 256>>>(matrix, x, slow); },
               [&] { row_products_by_warp<<<MATRIX_ROWS / (256 / WARP), 256>>>(matrix, x, cured); });
    bench.same(slow, cured, 1e-5);
}

// ------------------------------------------------------------------- uncoalesced store: 16-bit values down a column

constexpr int IMAGE_SIDE = 8192;

// Slow: a warp reads along a row and writes down a column.
__global__ void turn_directly(const uint16_t* __restrict__ in, uint16_t* __restrict__ out) {
    const size_t column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    out[column * IMAGE_SIDE + row] = in[row * IMAGE_SIDE + column] >> 1;
}

// Cure: 64 x 64 values are turned in shared memory.
__global__ void turn_by_tile(const uint16_t* __restrict__ in, uint16_t* __restrict__ out) {
    __shared__ uint16_t tile[64][66];
    const size_t column = blockIdx.x * 64, row = blockIdx.y * 64;
    for (int j = threadIdx.y; j < 64; j += 8) {
        const ushort2 two = *reinterpret_cast<const ushort2*>(in + (row + j) * IMAGE_SIDE + column + threadIdx.x * 2);
        tile[j][threadIdx.x * 2] = two.x >> 1;
        tile[j][threadIdx.x * 2 + 1] = two.y >> 1;
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 64; j += 8) {
        const ushort2 two = make_ushort2(tile[threadIdx.x * 2][j], tile[threadIdx.x * 2 + 1][j]);
        *reinterpret_cast<ushort2*>(out + (column + j) * IMAGE_SIDE + row + threadIdx.x * 2) = two;
    }
}

void held_image_turn(Bench& bench) {
    const size_t size = size_t(IMAGE_SIDE) * IMAGE_SIDE;
    Buffer<uint32_t> words(size / 2);
    Buffer<uint16_t> slow(size), cured(size);
    words.random(4);
    uint32_t* raw = words;
    const uint16_t* in = reinterpret_cast<const uint16_t*>(raw);
    const dim3 threads(32, 8);
    bench.pair([&] { turn_directly<<<dim3(IMAGE_SIDE / 32, IMAGE_SIDE / 8), threads>>>(in, slow); },
               [&] { turn_by_tile<<<dim3(IMAGE_SIDE / 64, IMAGE_SIDE / 64), threads>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------ partial sectors: records with a header

constexpr int RECORDS = 1 << 18;
constexpr int RECORD_READS = 128;
constexpr int RECORD_BLOCKS = SMS * 8;

// A warp takes records of 32 floats in a random order, a float a lane, past L1.
template <int PITCH, int HEADER>
__device__ __forceinline__ void add_records(const float* records, float* out) {
    const int thread = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % WARP;
    float total = 0.0f;
#pragma unroll 8
    for (int k = 0; k < RECORD_READS; ++k) {
        const uint32_t record = hash32(uint32_t(thread / WARP * RECORD_READS + k)) % RECORDS;
        total += __ldcg(records + size_t(record) * PITCH + HEADER + lane);
    }
    out[thread] = total;
}

// Slow: a header of 12 bytes before each record moves it off the borders of sectors.
__global__ void __launch_bounds__(256) add_records_with_header(const float* __restrict__ in, float* __restrict__ out) {
    add_records<35, 3>(in, out);
}

// Cure: the headers lie elsewhere.
__global__ void __launch_bounds__(256) add_records_alone(const float* __restrict__ in, float* __restrict__ out) {
    add_records<32, 0>(in, out);
}

__global__ void put_headers(const float* in, float* with_headers) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    with_headers[i / 32 * 35 + 3 + i % 32] = in[i];
}

void held_record_headers(Bench& bench) {
    Buffer<float> in(RECORDS * 32), wide(RECORDS * 35), slow(RECORD_BLOCKS * 256), cured(RECORD_BLOCKS * 256);
    in.random(5);
    put_headers<<<RECORDS * 32 / 256, 256>>>(in, wide);
    bench.pair([&] { add_records_with_header<<<RECORD_BLOCKS, 256>>>(wide, slow); },
               [&] { add_records_alone<<<RECORD_BLOCKS, 256>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------- bank conflicts: runs of 8 float4

constexpr int RUN_LENGTH = 8;
constexpr int RUN_PASSES = 64;
constexpr int RUN_BLOCKS = SMS * 12;

// Each thread smooths its own run of 8 float4 in shared memory again and again.
template <class At>
__device__ __forceinline__ void smooth_runs(const float4* in, float4* out, At at) {
    extern __shared__ float4 runs[];
    const size_t first = size_t(blockIdx.x) * 128 * RUN_LENGTH;
    for (int k = 0; k < RUN_LENGTH; ++k) runs[at(k)] = in[first + k * 128 + threadIdx.x];
    float4 carried = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int pass = 0; pass < RUN_PASSES; ++pass) {
#pragma unroll
        for (int k = 0; k < RUN_LENGTH; ++k) {
            float4 v = runs[at(k)];
            carried.x = fmaf(carried.x, 0.5f, v.x * 0.5f), carried.y = fmaf(carried.y, 0.5f, v.y * 0.5f);
            carried.z = fmaf(carried.z, 0.5f, v.z * 0.5f), carried.w = fmaf(carried.w, 0.5f, v.w * 0.5f);
            runs[at(k)] = carried;
        }
        __syncwarp();
    }
    for (int k = 0; k < RUN_LENGTH; ++k) out[first + k * 128 + threadIdx.x] = runs[at(k)];
}

// Slow: the run of a thread is contiguous, so that all lanes of an access fall on the same banks.
__global__ void __launch_bounds__(128) smooth_by_run(const float4* __restrict__ in, float4* __restrict__ out) {
    smooth_runs(in, out, [](int k) { return threadIdx.x * RUN_LENGTH + k; });
}

// Cure: the k-th values of all threads lie side by side.
__global__ void __launch_bounds__(128) smooth_interleaved(const float4* __restrict__ in, float4* __restrict__ out) {
    smooth_runs(in, out, [](int k) { return k * 128 + threadIdx.x; });
}

void held_float4_runs(Bench& bench) {
    constexpr int bytes = 128 * RUN_LENGTH * sizeof(float4);
    const size_t size = size_t(RUN_BLOCKS) * 128 * RUN_LENGTH * 4;
    Buffer<float> in(size), slow(size), cured(size);
    in.random(6);
    float *from = in, *left = slow, *right = cured;
    bench.pair(
        [&] {
            smooth_by_run<<<RUN_BLOCKS, 128, bytes>>>(reinterpret_cast<const float4*>(from),
                                                      reinterpret_cast<float4*>(left));
        },
        [&] {
            smooth_interleaved<<<RUN_BLOCKS, 128, bytes>>>(reinterpret_cast<const float4*>(from),
                                                           reinterpret_cast<float4*>(right));
        });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------ atomic contention: one bin of shared memory

constexpr int WEIGHED = 1 << 25;
constexpr int HISTOGRAM_BINS = 64;

// Nine of ten keys are the same one.
__device__ __forceinline__ int bin_of(uint32_t word) { return word % 10 ? 7 : int(word >> 16) % HISTOGRAM_BINS; }

// Slow: all lanes of a warp add to the same word of shared memory.
__global__ void __launch_bounds__(256) weigh_one_histogram(const uint32_t* __restrict__ words,
                                                           unsigned* __restrict__ out) {
    __shared__ unsigned bins[HISTOGRAM_BINS];
    if (threadIdx.x < HISTOGRAM_BINS) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < WEIGHED; i += gridDim.x * 256) {
        atomicAdd(&bins[bin_of(words[i])], words[i] & 3);
    }
    __syncthreads();
    if (threadIdx.x < HISTOGRAM_BINS) atomicAdd(out + threadIdx.x, bins[threadIdx.x]);
}

// Cure: each lane has a histogram of its own, in a bank of its own.
__global__ void __launch_bounds__(256) weigh_by_lane(const uint32_t* __restrict__ words, unsigned* __restrict__ out) {
    __shared__ unsigned bins[HISTOGRAM_BINS][WARP];
    for (int i = threadIdx.x; i < HISTOGRAM_BINS * WARP; i += 256) bins[i / WARP][i % WARP] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < WEIGHED; i += gridDim.x * 256) {
        atomicAdd(&bins[bin_of(words[i])][threadIdx.x % WARP], words[i] & 3);
    }
    __syncthreads();
    for (int bin = threadIdx.x / WARP; bin < HISTOGRAM_BINS; bin += 256 / WARP) {
        const unsigned total = __reduce_add_sync(~0u, bins[bin][threadIdx.x % WARP]);
        if (threadIdx.x % WARP == 0) atomicAdd(out + bin, total);
    }
}

void held_histogram(Bench& bench) {
    Buffer<uint32_t> words(WEIGHED);
    Buffer<unsigned> slow(HISTOGRAM_BINS), cured(HISTOGRAM_BINS);
    words.random(7);
    const auto clear = [&] { slow.clear(), cured.clear(); };
    bench.pair([&] { weigh_one_histogram<<<SMS * 8, 256>>>(words, slow); },
               [&] { weigh_by_lane<<<SMS * 8, 256>>>(words, cured); }, clear);
    clear();
    weigh_one_histogram<<<SMS * 8, 256>>>(words, slow);
    weigh_by_lane<<<SMS * 8, 256>>>(words, cured);
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------------------- register spill: small matrices of doubles

constexpr int FILTER_SIDE = 7;
constexpr int FILTER_STEPS = 24;
constexpr int FILTER_BLOCKS = SMS * 2;

// A thread carries a covariance matrix through the steps of a Kalman filter: P = A P A' + Q.
__device__ __forceinline__ void filter(const double* in, double* out) {
    constexpr int N = FILTER_SIDE;
    const int threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    double p[N][N], half[N][N];
#pragma unroll
    for (int i = 0; i < N * N; ++i) p[i / N][i % N] = in[i * size_t(threads) + thread];
#pragma unroll 1
    for (int step = 0; step < FILTER_STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
#pragma unroll
            for (int j = 0; j < N; ++j) half[i][j] = fma(0.01, p[(i + 1) % N][j], 0.98 * p[i][j]);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
#pragma unroll
            for (int j = 0; j < N; ++j) p[i][j] = fma(0.01, half[i][(j + 1) % N], fma(0.98, half[j][i], 0.001));
        }
    }
    double total = 0.0;
#pragma unroll
    for (int i = 0; i < N * N; ++i) total = fma(total, 0.5, p[i / N][i % N]);
    out[thread] = total;
}

// Slow: blocks of 1024 threads leave 64 registers a thread, and the matrices need twice as many.
__global__ void __launch_bounds__(1024) filter_large_blocks(const double* __restrict__ in, double* __restrict__ out) {
    filter(in, out);
}

// Cure: blocks of 256 threads may have them all.
__global__ void __launch_bounds__(256) filter_small_blocks(const double* __restrict__ in, double* __restrict__ out) {
    filter(in, out);
}

void held_kalman(Bench& bench) {
    const size_t threads = size_t(FILTER_BLOCKS) * 1024;
    Buffer<double> in(threads * FILTER_SIDE * FILTER_SIDE), slow(threads), cured(threads);
    in.random(8);
    bench.pair([&] { filter_large_blocks<<<FILTER_BLOCKS, 1024>>>(in, slow); },
               [&] { filter_small_blocks<<<FILTER_BLOCKS * 4, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-12);
}

// ------------------------------------------------------------------- memory of the host, every 64th byte of it

constexpr int SAMPLES = 1 << 19;
constexpr int SAMPLE_STRIDE = 16;

// Slow: the samples are read out of pinned memory of the host, across PCIe.
__global__ void thin_out_host(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sqrtf(in[size_t(i) * SAMPLE_STRIDE]);
}

// Cure: the same samples out of memory of the device.
__global__ void thin_out_device(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sqrtf(in[size_t(i) * SAMPLE_STRIDE]);
}

void held_host_samples(Bench& bench) {
    Buffer<float> in(size_t(SAMPLES) * SAMPLE_STRIDE), slow(SAMPLES), cured(SAMPLES);
    in.random(9);
    float *pinned = nullptr, *mapped = nullptr;
    CHECK(cudaHostAlloc(&pinned, in.bytes(), cudaHostAllocMapped));
    CHECK(cudaMemcpy(pinned, in, in.bytes(), cudaMemcpyDeviceToHost));
    CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0));
    bench.pair([&] { thin_out_host<<<SAMPLES / 256, 256>>>(mapped, slow); },
               [&] { thin_out_device<<<SAMPLES / 256, 256>>>(in, cured); });
    bench.same(slow, cured, 0.0);
    CHECK(cudaFreeHost(pinned));
}

// ------------------------------------------------------------------------- uneven SMs: a refined region

constexpr int CELLS = SMS * 64;

// The cells around the middle of the domain are refined and take up to 40 times as many steps as the others.
__device__ __forceinline__ int cell_steps(int cell) {
    const float distance = (float(cell) - CELLS * 0.5f) / (CELLS * 0.05f);
    return 50 + int(2000.0f * __expf(-distance * distance));
}

__device__ __forceinline__ void relax_cell(const float* in, float* out, int cell) {
    const int i = cell * 256 + threadIdx.x;
    float x = in[i], y = 1.0f - x;
    for (int k = cell_steps(cell); k > 0; --k) {
        x = fused_step(x);
        y = fused_step(y);
    }
    out[i] = x + y;
}

// Slow: a block has 16 neighbouring cells, and the blocks of the middle have all the work.
__global__ void __launch_bounds__(256) relax_neighbours(const float* __restrict__ in, float* __restrict__ out) {
    for (int k = 0; k < 16; ++k) relax_cell(in, out, blockIdx.x * 16 + k);
}

// Cure: each block fetches the next cell that is left.
__global__ void __launch_bounds__(256) relax_from_queue(const float* __restrict__ in, float* __restrict__ out,
                                                        int* __restrict__ next) {
    __shared__ int cell;
    while (true) {
        if (threadIdx.x == 0) cell = atomicAdd(next, 1);
        __syncthreads();
        const int mine = cell;
        __syncthreads();
        if (mine >= CELLS) return;
        relax_cell(in, out, mine);
    }
}

void held_refined_cells(Bench& bench) {
    Buffer<float> in(CELLS * 256), slow(CELLS * 256), cured(CELLS * 256);
    Buffer<int> next(1);
    in.random(10);
    const auto clear = [&] { next.clear(); };
    bench.pair([&] { relax_neighbours<<<CELLS / 16, 256>>>(in, slow); },
               [&] { relax_from_queue<<<SMS * 8, 256>>>(in, cured, next); }, clear);
    bench.same(slow, cured, 0.0);
}

// ---------------------------------------------------------------------- thread divergence: the smallest factor

constexpr int FACTORED = SMS * 2048 * 4;

// Slow: a thread tries divisors until one fits, and the warp waits for its primes.
__global__ void __launch_bounds__(256) factors_in_step(float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int number = 2 * i + 3;
    int divisor = 3;
    while (divisor * divisor <= number && number % divisor) divisor += 2;
    out[i] = divisor * divisor <= number ? float(divisor) : 1.0f;
}

// Cure: a lane that is done takes its next number at once.
__global__ void __launch_bounds__(256) factors_refilled(float* __restrict__ out) {
    const int threads = gridDim.x * 256;
    int i = blockIdx.x * 256 + threadIdx.x;
    int divisor = 3;
    while (i < FACTORED) {
        const int number = 2 * i + 3;
        const bool prime = divisor * divisor > number;
        if (prime || number % divisor == 0) {
            out[i] = prime ? 1.0f : float(divisor);
            i += threads;
            divisor = 3;
        } else {
            divisor += 2;
        }
    }
}

void held_smallest_factor(Bench& bench) {
    Buffer<float> slow(FACTORED), cured(FACTORED);
    bench.pair([&] { factors_in_step<<<FACTORED / 256, 256>>>(slow); },
               [&] { factors_refilled<<<SMS * 2, 256>>>(cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------------ small grid: paths of a simulation

constexpr int PATHS = SMS * 1024;

// A path of 64 random steps a number; the blocks share the paths out.
__global__ void __launch_bounds__(128) simulate_paths(float* __restrict__ out) {
    for (int path = blockIdx.x * 128 + threadIdx.x; path < PATHS; path += gridDim.x * 128) {
        uint32_t state = hash32(path);
        float price = 1.0f;
#pragma unroll 4
        for (int step = 0; step < 64; ++step) {
            state ^= state << 13, state ^= state >> 17, state ^= state << 5;
            price = fmaf(price, 0.01f * (float(state >> 8) * 0x1p-24f - 0.5f), price);
        }
        out[path] = price;
    }
}

// Slow: 12 blocks. Cure: eight for every SM.
void held_simulation(Bench& bench) {
    Buffer<float> slow(PATHS), cured(PATHS);
    bench.pair([&] { simulate_paths<<<12, 128>>>(slow); }, [&] { simulate_paths<<<SMS * 8, 128>>>(cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------------ small grid: one block scans

constexpr int SCANNED = 1 << 21;
constexpr int SCAN_BLOCK = 1024;

// The running sum of a value a thread over the block; `total` becomes the sum of all.
__device__ __forceinline__ unsigned scan_block(unsigned value, unsigned& total) {
    __shared__ unsigned sums[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int offset = 1; offset < WARP; offset *= 2) {
        const unsigned other = __shfl_up_sync(~0u, value, offset);
        if (lane >= offset) value += other;
    }
    if (lane == WARP - 1) sums[warp] = value;
    __syncthreads();
    if (warp == 0) {
        unsigned sum = sums[lane];
        for (int offset = 1; offset < WARP; offset *= 2) {
            const unsigned other = __shfl_up_sync(~0u, sum, offset);
            if (lane >= offset) sum += other;
        }
        sums[lane] = sum;
    }
    __syncthreads();
    total = sums[WARP - 1];
    if (warp > 0) value += sums[warp - 1];
    __syncthreads();
    return value;
}

// Slow: one block walks through the whole array with several barriers a step.
__global__ void __launch_bounds__(SCAN_BLOCK) scan_alone(const uint32_t* __restrict__ in, unsigned* __restrict__ out) {
    unsigned before = 0, total;
    for (int i = threadIdx.x; i < SCANNED; i += SCAN_BLOCK) {
        out[i] = before + scan_block(in[i] & 1, total);
        before += total;
    }
}

// Cure: each block scans its part, one block scans their sums, and all add what comes before them.
__global__ void __launch_bounds__(SCAN_BLOCK) scan_parts(const uint32_t* __restrict__ in, unsigned* __restrict__ out,
                                                         unsigned* __restrict__ sums) {
    const int i = blockIdx.x * SCAN_BLOCK + threadIdx.x;
    unsigned total;
    out[i] = scan_block(in[i] & 1, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(SCAN_BLOCK) scan_sums(unsigned* __restrict__ sums, int parts) {
    unsigned before = 0, total;
    for (int first = 0; first < parts; first += SCAN_BLOCK) {
        const int i = first + threadIdx.x;
        const unsigned sum = scan_block(i < parts ? sums[i] : 0, total);
        if (i < parts) sums[i] = before + sum;
        before += total;
    }
}

__global__ void __launch_bounds__(SCAN_BLOCK) add_before(unsigned* __restrict__ out,
                                                         const unsigned* __restrict__ sums) {
    if (blockIdx.x > 0) out[blockIdx.x * SCAN_BLOCK + threadIdx.x] += sums[blockIdx.x - 1];
}

void held_scan(Bench& bench) {
    constexpr int parts = SCANNED / SCAN_BLOCK;
    Buffer<uint32_t> in(SCANNED);
    Buffer<unsigned> slow(SCANNED), cured(SCANNED), sums(parts);
    in.random(11);
    bench.pair([&] { scan_alone<<<1, SCAN_BLOCK>>>(in, slow); },
               [&] {
                   scan_parts<<<parts, SCAN_BLOCK>>>(in, cured, sums);
                   scan_sums<<<1, SCAN_BLOCK>>>(sums, parts);
                   add_before<<<parts, SCAN_BLOCK>>>(cured, sums);
               });
    bench.same(slow, cured, 0.0);
}

// -------------------------------------------------------------------------- tail wave: an image a block

constexpr int IMAGES = SMS * 2 + 20;
constexpr int IMAGE_STEPS = 20000;

// A thread develops one of the 1024 pixels of an image.
__device__ __forceinline__ void develop(const float* in, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
#pragma unroll 8
    for (int k = 0; k < IMAGE_STEPS; ++k) x = fused_step(x);
    out[i] = x;
}

// Slow: 264 blocks of 1024 threads fit at once, and 20 images are left for a second wave.
__global__ void __launch_bounds__(1024, 2) develop_by_image(const float* __restrict__ in, float* __restrict__ out) {
    develop(in, out);
}

// Cure: an image is cut into 16 blocks, which find a place as soon as others end.
__global__ void __launch_bounds__(64) develop_by_part(const float* __restrict__ in, float* __restrict__ out) {
    develop(in, out);
}

void held_images(Bench& bench) {
    Buffer<float> in(IMAGES * 1024), slow(IMAGES * 1024), cured(IMAGES * 1024);
    in.random(12);
    bench.pair([&] { develop_by_image<<<IMAGES, 1024>>>(in, slow); },
               [&] { develop_by_part<<<IMAGES * 16, 64>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------------------- partial warp: patches of 5 x 7

constexpr int PATCHES = 64 * 1500;

__device__ __forceinline__ float sharpen(float x) {
    float y = 1.0f - x;
#pragma unroll 8
    for (int k = 0; k < 256; ++k) {
        x = fused_step(x);
        y = fused_step(y);
    }
    return x - y;
}

// Slow: a block is a patch of 35 pixels, and its second warp has three lanes.
__global__ void sharpen_patches(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 35 + threadIdx.y * 5 + threadIdx.x;
    out[i] = sharpen(in[i]);
}

// Cure: the pixels of all patches are numbered through.
__global__ void __launch_bounds__(256) sharpen_flat(const float* __restrict__ in, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < PATCHES * 35) out[i] = sharpen(in[i]);
}

void held_patches(Bench& bench) {
    constexpr int pixels = PATCHES * 35;
    Buffer<float> in(pixels), slow(pixels), cured(pixels);
    in.random(13);
    bench.pair([&] { sharpen_patches<<<PATCHES, dim3(5, 7)>>>(in, slow); },
               [&] { sharpen_flat<<<(pixels + 255) / 256, 256>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------------- waiting for memory: a linked list

constexpr int LISTS = SMS * 64;
constexpr int LIST_ROWS = 256;
constexpr int LIST_ALL = LISTS * LIST_ROWS;

// The rows of a list lie all over memory: a permutation of the numbers below LIST_ALL.
__host__ __device__ __forceinline__ int place_of(int list, int row) {
    return int((uint64_t(row * LISTS + list) * 1000003u) % LIST_ALL);
}

__global__ void link_rows(int* next, int* places) {
    const int list = blockIdx.x, row = threadIdx.x;
    next[place_of(list, row)] = place_of(list, (row + 1) % LIST_ROWS);
    places[list * LIST_ROWS + row] = place_of(list, row);
}

// Slow: a warp follows its list, and each row says only where the next one is.
__global__ void __launch_bounds__(256) add_linked_rows(const float* __restrict__ rows, const int* __restrict__ next,
                                                       float* __restrict__ out) {
    const int thread = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % WARP;
    int place = place_of(thread / WARP, 0);
    float total = 0.0f;
#pragma unroll 1
    for (int row = 0; row < LIST_ROWS; ++row) {
        total = fmaf(total, 0.5f, rows[size_t(place) * WARP + lane]);
        place = next[place];
    }
    out[thread] = total;
}

// Cure: a table says where all rows of a list are, so that eight of them are on their way at once.
__global__ void __launch_bounds__(256) add_listed_rows(const float* __restrict__ rows, const int* __restrict__ places,
                                                       float* __restrict__ out) {
    const int thread = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % WARP;
    const int* of_list = places + thread / WARP * LIST_ROWS;
    float total = 0.0f;
#pragma unroll 8
    for (int row = 0; row < LIST_ROWS; ++row) {
        total = fmaf(total, 0.5f, rows[size_t(of_list[row]) * WARP + lane]);
    }
    out[thread] = total;
}

void held_linked_list(Bench& bench) {
    Buffer<float> rows(size_t(LIST_ALL) * WARP), slow(LISTS * WARP), cured(LISTS * WARP);
    Buffer<int> next(LIST_ALL), places(LIST_ALL);
    rows.random(14);
    link_rows<<<LISTS, LIST_ROWS>>>(next, places);
    bench.pair([&] { add_linked_rows<<<LISTS / 8, 256>>>(rows, next, slow); },
               [&] { add_listed_rows<<<LISTS / 8, 256>>>(rows, places, cured); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------------------------- waiting at barriers: a sort

constexpr int SORT_BLOCKS = SMS * 32;

// Slow: every step of a sort of 1024 keys goes through shared memory and past a barrier.
__global__ void __launch_bounds__(1024, 2) sort_with_barriers(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float keys[1024];
    const int i = threadIdx.x;
    keys[i] = in[blockIdx.x * 1024 + i];
    __syncthreads();
    for (int size = 2; size <= 1024; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            const float mine = keys[i], other = keys[i ^ distance];
            const bool low = ((i & distance) == 0) == ((i & size) == 0);
            __syncthreads();
            keys[i] = low ? fminf(mine, other) : fmaxf(mine, other);
            __syncthreads();
        }
    }
    out[blockIdx.x * 1024 + i] = keys[i];
}

// Cure: steps within a warp exchange registers; only the 15 others need shared memory and barriers.
__global__ void __launch_bounds__(1024, 2) sort_with_shuffles(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float keys[1024];
    const int i = threadIdx.x;
    float mine = in[blockIdx.x * 1024 + i];
    for (int size = 2; size <= 1024; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            float other;
            if (distance < WARP) {
                other = __shfl_xor_sync(~0u, mine, distance);
            } else {
                __syncthreads();
                keys[i] = mine;
                __syncthreads();
                other = keys[i ^ distance];
            }
            const bool low = ((i & distance) == 0) == ((i & size) == 0);
            mine = low ? fminf(mine, other) : fmaxf(mine, other);
        }
    }
    out[blockIdx.x * 1024 + i] = mine;
}

void held_sort(Bench& bench) {
    Buffer<float> in(SORT_BLOCKS * 1024), slow(SORT_BLOCKS * 1024), cured(SORT_BLOCKS * 1024);
    in.random(15);
    bench.pair([&] { sort_with_barriers<<<SORT_BLOCKS, 1024>>>(in, slow); },
               [&] { sort_with_shuffles<<<SORT_BLOCKS, 1024>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------------------- occupancy: 160 values kept for the end

constexpr int POLYNOMIAL = 160;
constexpr int POLYNOMIAL_THREADS = SMS * 2048;
constexpr int POLYNOMIAL_STEPS = 96;

// A warp looks for its place in a table, step by step.
__device__ __forceinline__ float search(const int* table, int thread) {
    int line = start_line(thread, L2_LINES);
#pragma unroll 1
    for (int k = 0; k < POLYNOMIAL_STEPS; ++k) line = follow(table, line);
    return float(line) / L2_LINES;
}

// Slow: the coefficients are read before the search and kept in registers all along.
__global__ void __launch_bounds__(256) search_then_use(const int* __restrict__ table,
                                                       const float* __restrict__ coefficients,
                                                       float* __restrict__ out) {
    const int thread = blockIdx.x * 256 + threadIdx.x;
    float held[POLYNOMIAL];
#pragma unroll
    for (int k = 0; k < POLYNOMIAL; ++k) {
        const float* from = coefficients + size_t(k) * POLYNOMIAL_THREADS + thread;
        asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(held[k]) : "l"(from));
    }
    const float x = search(table, thread);
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < POLYNOMIAL; ++k) total = fmaf(total, x, held[k]);
    out[thread] = total;
}

// Cure: they are read when they are needed.
__global__ void __launch_bounds__(256, 8) search_then_load(const int* __restrict__ table,
                                                           const float* __restrict__ coefficients,
                                                           float* __restrict__ out) {
    const int thread = blockIdx.x * 256 + threadIdx.x;
    const float x = search(table, thread);
    float total = 0.0f;
#pragma unroll 8
    for (int k = 0; k < POLYNOMIAL; ++k) total = fmaf(total, x, coefficients[size_t(k) * POLYNOMIAL_THREADS + thread]);
    out[thread] = total;
}

void held_polynomial(Bench& bench) {
    Lines table(L2_LINES);
    Buffer<float> coefficients(size_t(POLYNOMIAL) * POLYNOMIAL_THREADS);
    Buffer<float> slow(POLYNOMIAL_THREADS), cured(POLYNOMIAL_THREADS);
    coefficients.random(16);
    bench.pair([&] { search_then_use<<<POLYNOMIAL_THREADS / 256, 256>>>(table, coefficients, slow); },
               [&] { search_then_load<<<POLYNOMIAL_THREADS / 256, 256>>>(table, coefficients, cured); });
    bench.same(slow, cured, 1e-6);
}

// --------------------------------------------------------------- the special-function pipe: turning vectors

constexpr int TURNED = SMS * 2048 * 2;
constexpr int TURNS = 128;

// Slow: a sine and a cosine for every step.
__global__ void __launch_bounds__(256) turn_by_sine(const float* __restrict__ angles, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float angle = angles[i] * 0.02f;
    float total = 0.0f;
#pragma unroll 8
    for (int k = 0; k < TURNS; ++k) {
        total = fmaf(__sinf(angle * float(k)), 0.5f, total);
        total = fmaf(__cosf(angle * float(k)), 0.25f, total);
    }
    out[i] = total;
}

// Cure: the vector of the step before is turned by the angle.
__global__ void __launch_bounds__(256) turn_by_product(const float* __restrict__ angles, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float angle = angles[i] * 0.02f, sine = __sinf(angle), cosine = __cosf(angle);
    float s = 0.0f, c = 1.0f, total = 0.0f;
#pragma unroll 8
    for (int k = 0; k < TURNS; ++k) {
        total = fmaf(s, 0.5f, total);
        total = fmaf(c, 0.25f, total);
        const float next = fmaf(s, cosine, c * sine);
        c = fmaf(c, cosine, -(s * sine));
        s = next;
    }
    out[i] = total;
}

void held_turns(Bench& bench) {
    Buffer<float> angles(TURNED), slow(TURNED), cured(TURNED);
    angles.random(17);
    bench.pair([&] { turn_by_sine<<<TURNED / 256, 256>>>(angles, slow); },
               [&] { turn_by_product<<<TURNED / 256, 256>>>(angles, cured); });
    bench.same(slow, cured, 1e-3);
}

// ------------------------------------------------------------- unfused arithmetic: doubles, by intrinsics

constexpr int SERIES = SMS * 2048 * 2;
constexpr int SERIES_TERMS = 256;

// Slow: every term is rounded twice.
__global__ void __launch_bounds__(256) series_rounded_twice(const double* __restrict__ in, double* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const double x = in[i];
    double sum = 1.0, other = 0.5;
#pragma unroll 8
    for (int k = 0; k < SERIES_TERMS; ++k) {
        sum = __dadd_rn(__dmul_rn(sum, x), 0.25);
        other = __dadd_rn(__dmul_rn(other, x), 0.125);
    }
    out[i] = sum + other;
}

// Cure: multiplied and added in one instruction.
__global__ void __launch_bounds__(256) series_fused(const double* __restrict__ in, double* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const double x = in[i];
    double sum = 1.0, other = 0.5;
#pragma unroll 8
    for (int k = 0; k < SERIES_TERMS; ++k) {
        sum = fma(sum, x, 0.25);
        other = fma(other, x, 0.125);
    }
    out[i] = sum + other;
}

void held_series(Bench& bench) {
    Buffer<double> in(SERIES), slow(SERIES), cured(SERIES);
    in.random(18);
    bench.pair([&] { series_rounded_twice<<<SERIES / 256, 256>>>(in, slow); },
               [&] { series_fused<<<SERIES / 256, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-9);
}

// ------------------------------------------------------------------------ a product that knows no tensor core

constexpr int NAIVE_N = 2048;

// Slow: a thread a result, straight from memory, in fp32.
__global__ void multiply_matrices(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                  int n) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    float total = 0.0f;
    for (int k = 0; k < n; ++k) total = fmaf(a[row * n + k], b[k * n + column], total);
    c[row * n + column] = total;
}

// Cure: a warp has 64 x 32 results on the tensor cores, in TF32.
__global__ void __launch_bounds__(128) multiply_fragments(const float* __restrict__ a, const float* __restrict__ b,
                                                          float* __restrict__ c, int n) {
    using namespace nvcuda;
    const int row = blockIdx.y * 128 + threadIdx.x / 64 * 64, column = blockIdx.x * 64 + threadIdx.x / WARP % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums[4][2];
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
    }
    for (int k = 0; k < n; k += 8) {
        wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left[4];
        wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> right[2];
        for (int i = 0; i < 4; ++i) wmma::load_matrix_sync(left[i], a + size_t(row + i * 16) * n + k, n);
        for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(right[j], b + size_t(k) * n + column + j * 16, n);
        for (int i = 0; i < 4; ++i) {
            for (int t = 0; t < left[i].num_elements; ++t) left[i].x[t] = wmma::__float_to_tf32(left[i].x[t]);
        }
        for (int j = 0; j < 2; ++j) {
            for (int t = 0; t < right[j].num_elements; ++t) right[j].x[t] = wmma::__float_to_tf32(right[j].x[t]);
        }
        for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
        }
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 2; ++j) {
            wmma::store_matrix_sync(c + size_t(row + i * 16) * n + column + j * 16, sums[i][j], n, wmma::mem_row_major);
        }
    }
}

void held_product(Bench& bench) {
    constexpr size_t size = size_t(NAIVE_N) * NAIVE_N;
    Buffer<float> a(size), b(size), slow(size), cured(size);
    a.random(19, 0.5f), b.random(20, 0.5f);
    bench.pair(
        [&] { multiply_matrices<<<dim3(NAIVE_N / 32, NAIVE_N / 8), dim3(32, 8)>>>(a, b, slow, NAIVE_N); },
        [&] { multiply_fragments<<<dim3(NAIVE_N / 64, NAIVE_N / 128), 128>>>(a, b, cured, NAIVE_N); });
    bench.same(slow, cured, 1e-2);
}

int main(int argc, char** argv) {
    Bench bench(argc, argv);
    bench.run("held-particles", held_particles);
    bench.run("held-matrix-vector", held_matrix_vector);
    bench.run("held-image-turn", held_image_turn);
    bench.run("held-record-headers", held_record_headers);
    bench.run("held-float4-runs", held_float4_runs);
    bench.run("held-histogram", held_histogram);
    bench.run("held-kalman", held_kalman);
    bench.run("held-host-samples", held_host_samples);
    bench.run("held-refined-cells", held_refined_cells);
    bench.run("held-smallest-factor", held_smallest_factor);
    bench.run("held-simulation", held_simulation);
    bench.run("held-scan", held_scan);
    bench.run("held-images", held_images);
    bench.run("held-patches", held_patches);
    bench.run("held-linked-list", held_linked_list);
    bench.run("held-sort", held_sort);
    bench.run("held-polynomial", held_polynomial);
    bench.run("held-turns", held_turns);
    bench.run("held-series", held_series);
    bench.run("held-product", held_product);
}
