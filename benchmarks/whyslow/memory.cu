// Planted memory problems: access patterns, spills, atomics, traffic. See README.md; harness.cuh runs the pairs.
//
// Build: nvcc -O3 -arch=sm_90 -lineinfo -std=c++17 -o memory memory.cu

#include "harness.cuh"

// ------------------------------------------------------------ uncoalesced load: one field of a structure

constexpr int VERTICES = 1 << 23;

struct Vertex {
    float x, y, z, nx, ny, nz, u, v;
};

// Slow: neighbouring threads read 4 bytes out of every 32.
__global__ void shade_vertices(const Vertex* __restrict__ vertices, float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = fmaf(vertices[i].z, 0.75f, 0.25f);
}

// Cure: the depths lie side by side.
__global__ void shade_depths(const float* __restrict__ depths, float* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = fmaf(depths[i], 0.75f, 0.25f);
}

__global__ void take_depths(const Vertex* vertices, float* depths) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    depths[i] = vertices[i].z;
}

void load_aos(Bench& bench) {
    Buffer<float> in(size_t(VERTICES) * 8), depths(VERTICES), slow(VERTICES), cured(VERTICES);
    in.random(1);
    float* raw = in;
    const Vertex* vertices = reinterpret_cast<const Vertex*>(raw);
    take_depths<<<VERTICES / 256, 256>>>(vertices, depths);
    bench.pair([&] { shade_vertices<<<VERTICES / 256, 256>>>(vertices, slow); },
               [&] { shade_depths<<<VERTICES / 256, 256>>>(depths, cured); });
    bench.same(slow, cured, 0.0);
}

// -------------------------------------------------------------------- uncoalesced load: down the columns

constexpr int GRID_ROWS = 8192;
constexpr int GRID_COLUMNS = 4096;
constexpr int TILE = 32;
constexpr int TILE_ROWS = 8;

// Slow: the lanes of a warp read down a column and write along a row.
__global__ void read_down_columns(const float* __restrict__ in, float* __restrict__ out) {
    const int row = blockIdx.x * TILE + threadIdx.x;
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_ROWS) {
        const int column = blockIdx.y * TILE + threadIdx.y + j;
        out[size_t(column) * GRID_ROWS + row] = in[size_t(row) * GRID_COLUMNS + column];
    }
}

// Cure: read rows into shared memory and turn the tile there.
__global__ void read_along_rows(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float tile[TILE][TILE + 1];
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_ROWS) {
        const int row = blockIdx.x * TILE + threadIdx.y + j, column = blockIdx.y * TILE + threadIdx.x;
        tile[threadIdx.y + j][threadIdx.x] = in[size_t(row) * GRID_COLUMNS + column];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_ROWS) {
        const int column = blockIdx.y * TILE + threadIdx.y + j, row = blockIdx.x * TILE + threadIdx.x;
        out[size_t(column) * GRID_ROWS + row] = tile[threadIdx.x][threadIdx.y + j];
    }
}

void load_columns(Bench& bench) {
    const size_t size = size_t(GRID_ROWS) * GRID_COLUMNS;
    Buffer<float> in(size), slow(size), cured(size);
    in.random(2);
    const dim3 blocks(GRID_ROWS / TILE, GRID_COLUMNS / TILE), threads(TILE, TILE_ROWS);
    bench.pair([&] { read_down_columns<<<blocks, threads>>>(in, slow); },
               [&] { read_along_rows<<<blocks, threads>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------- uncoalesced store: one field of a structure

// Slow: neighbouring threads write 4 bytes into every 32.
__global__ void update_vertices(const float* __restrict__ in, Vertex* __restrict__ vertices) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    vertices[i].z = fmaf(in[i], 0.5f, 0.125f);
}

// Cure: the depths lie side by side.
__global__ void update_depths(const float* __restrict__ in, float* __restrict__ depths) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    depths[i] = fmaf(in[i], 0.5f, 0.125f);
}

void store_aos(Bench& bench) {
    Buffer<float> in(VERTICES), structs(size_t(VERTICES) * 8), slow(VERTICES), cured(VERTICES);
    in.random(3);
    float* raw = structs;
    Vertex* vertices = reinterpret_cast<Vertex*>(raw);
    bench.pair([&] { update_vertices<<<VERTICES / 256, 256>>>(in, vertices); },
               [&] { update_depths<<<VERTICES / 256, 256>>>(in, cured); });
    take_depths<<<VERTICES / 256, 256>>>(vertices, slow);
    bench.same(slow, cured, 0.0);
}

// ---------------------------------------------------------------- uncoalesced store: planes to packed rows

constexpr int PIXELS = 1 << 20;
constexpr int CHANNELS = 32;

// Slow: each thread packs one pixel, so the lanes of a store lie 128 bytes apart.
__global__ void pack_by_pixel(const float* __restrict__ planes, float* __restrict__ packed) {
    const size_t pixel = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) {
        packed[pixel * CHANNELS + channel] = planes[size_t(channel) * PIXELS + pixel];
    }
}

// Cure: 32 pixels are turned in shared memory and written as whole rows.
__global__ void pack_by_tile(const float* __restrict__ planes, float* __restrict__ packed) {
    __shared__ float tile[CHANNELS][WARP + 1];
    const size_t first = size_t(blockIdx.x) * WARP;
#pragma unroll
    for (int channel = threadIdx.y; channel < CHANNELS; channel += TILE_ROWS) {
        tile[channel][threadIdx.x] = planes[size_t(channel) * PIXELS + first + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int pixel = threadIdx.y; pixel < WARP; pixel += TILE_ROWS) {
        packed[(first + pixel) * CHANNELS + threadIdx.x] = tile[threadIdx.x][pixel];
    }
}

void store_packed(Bench& bench) {
    const size_t size = size_t(PIXELS) * CHANNELS;
    Buffer<float> in(size), slow(size), cured(size);
    in.random(4);
    bench.pair([&] { pack_by_pixel<<<PIXELS / 256, 256>>>(in, slow); },
               [&] { pack_by_tile<<<PIXELS / WARP, dim3(WARP, TILE_ROWS)>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------------------- partial sectors: an odd row pitch

constexpr int SHORT_ROWS = 1 << 17;
constexpr int SHORT_PASSES = 16;
constexpr int ROW_BLOCKS = SMS * 8;

// A warp reads rows of 32 floats, from L2: 17 MB stay there, and L1 is passed by.
template <int PITCH>
__device__ __forceinline__ void add_rows(const float* in, float* out) {
    const int warps = ROW_BLOCKS * 256 / WARP;
    const int lane = threadIdx.x % WARP;
    float total = 0.0f;
#pragma unroll 8
    for (int row = (blockIdx.x * 256 + threadIdx.x) / WARP; row < SHORT_ROWS * SHORT_PASSES; row += warps) {
        total += __ldcg(in + (row % SHORT_ROWS) * PITCH + lane);
    }
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

// Slow: rows of 33 floats start inside a sector, so that each read touches five of them.
__global__ void add_rows_odd_pitch(const float* __restrict__ in, float* __restrict__ out) { add_rows<33>(in, out); }

// Cure: rows of 32 floats are four sectors.
__global__ void add_rows_even_pitch(const float* __restrict__ in, float* __restrict__ out) { add_rows<32>(in, out); }

__global__ void widen_rows(const float* in, float* wide) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    wide[i / 32 * 33 + i % 32] = in[i];
}

void partial_sectors(Bench& bench) {
    Buffer<float> in(SHORT_ROWS * 32), wide(SHORT_ROWS * 33), slow(ROW_BLOCKS * 256), cured(ROW_BLOCKS * 256);
    in.random(5);
    widen_rows<<<SHORT_ROWS * 32 / 256, 256>>>(in, wide);
    bench.pair([&] { add_rows_odd_pitch<<<ROW_BLOCKS, 256>>>(wide, slow); },
               [&] { add_rows_even_pitch<<<ROW_BLOCKS, 256>>>(in, cured); });
    bench.same(slow, cured, 0.0);
}

// ------------------------------------------------------- bank conflicts: structures in shared memory, loads

constexpr int BODY_BLOCKS = 2112;
constexpr int BODIES = 256;
constexpr int BODY_READS = 512;

// Each lane reads the fields of its own structure of 8 floats, in an order known only at run time.
template <int PITCH>
__device__ __forceinline__ void read_bodies(const float* in, float* out, int stride) {
    __shared__ float bodies[BODIES * PITCH];
    for (int i = threadIdx.x; i < BODIES * 8; i += BODIES) {
        bodies[i / 8 * PITCH + i % 8] = in[blockIdx.x * BODIES * 8 + i];
    }
    __syncthreads();
    const float* body = bodies + threadIdx.x * PITCH;
    float total = 0.0f;
    int field = 0;
#pragma unroll 8
    for (int k = 0; k < BODY_READS; ++k) {
        total = fmaf(total, 0.5f, body[field]);
        field = (field + stride) % 8;
    }
    out[blockIdx.x * BODIES + threadIdx.x] = total;
}

// Slow: structures of 8 floats put 8 lanes on one bank.
__global__ void __launch_bounds__(BODIES) bodies_packed(const float* __restrict__ in, float* __restrict__ out, int s) {
    read_bodies<8>(in, out, s);
}

// Cure: one float of padding a structure spreads the lanes over all banks.
__global__ void __launch_bounds__(BODIES) bodies_padded(const float* __restrict__ in, float* __restrict__ out, int s) {
    read_bodies<9>(in, out, s);
}

void bank_structs(Bench& bench) {
    const size_t size = size_t(BODY_BLOCKS) * BODIES;
    Buffer<float> in(size * 8), slow(size), cured(size);
    in.random(6);
    bench.pair([&] { bodies_packed<<<BODY_BLOCKS, BODIES>>>(in, slow, 3); },
               [&] { bodies_padded<<<BODY_BLOCKS, BODIES>>>(in, cured, 3); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------------- bank conflicts: columns, stores

constexpr int COLUMN_STORES = 256;

// Each lane writes along its own row of a tile of its warp: the warp writes one column at a time.
template <int PITCH>
__device__ __forceinline__ void write_columns(const float* in, float* out, int stride) {
    __shared__ float tiles[8 * WARP * PITCH];
    const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % WARP;
    float* tile = tiles + threadIdx.x / WARP * WARP * PITCH;
    float x = in[i];
    int column = 0;
#pragma unroll 8
    for (int k = 0; k < COLUMN_STORES; ++k) {
        tile[lane * PITCH + column] = x;
        x = fmaf(x, 0.99f, 0.01f);
        column = (column + stride) % WARP;
    }
    __syncwarp();
    float total = 0.0f;
    for (int row = 0; row < WARP; ++row) total += tile[row * PITCH + lane];
    out[i] = total;
}

// Slow: rows of 32 floats put a whole column in one bank.
__global__ void __launch_bounds__(256) columns_packed(const float* __restrict__ in, float* __restrict__ out, int s) {
    write_columns<WARP>(in, out, s);
}

// Cure: rows of 33 floats.
__global__ void __launch_bounds__(256) columns_padded(const float* __restrict__ in, float* __restrict__ out, int s) {
    write_columns<WARP + 1>(in, out, s);
}

void bank_columns(Bench& bench) {
    const size_t size = size_t(BODY_BLOCKS) * 256;
    Buffer<float> in(size), slow(size), cured(size);
    in.random(7);
    bench.pair([&] { columns_packed<<<BODY_BLOCKS, 256>>>(in, slow, 5); },
               [&] { columns_padded<<<BODY_BLOCKS, 256>>>(in, cured, 5); });
    bench.same(slow, cured, 0.0);
}

// --------------------------------------------------------------------- register spill: a cap on registers

constexpr int MIX_BLOCKS = 1056;
constexpr int MIX_VALUES = 56;
constexpr int MIX_STEPS = 48;

// Every thread keeps 56 values and adds a part of the one seven places on to each.
__device__ __forceinline__ void mix(const float* in, float* out) {
    constexpr int STRIDE = MIX_BLOCKS * 256;
    const int thread = blockIdx.x * 256 + threadIdx.x;
    float v[MIX_VALUES];
#pragma unroll
    for (int i = 0; i < MIX_VALUES; ++i) v[i] = in[i * STRIDE + thread];
#pragma unroll 1
    for (int step = 0; step < MIX_STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < MIX_VALUES; ++i) v[i] = fmaf(v[(i + 7) % MIX_VALUES], 0.25f, v[i]);
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < MIX_VALUES; ++i) total = fmaf(total, 0.9f, v[i]);
    out[thread] = total;
}

// Slow: a cap of 32 registers for 56 live values.
__global__ void __maxnreg__(32) mix_capped(const float* __restrict__ in, float* __restrict__ out) { mix(in, out); }

// Cure: no cap.
__global__ void __launch_bounds__(256) mix_free(const float* __restrict__ in, float* __restrict__ out) {
    mix(in, out);
}

void spill_cap(Bench& bench) {
    const size_t size = size_t(MIX_BLOCKS) * 256;
    Buffer<float> in(size * MIX_VALUES), slow(size), cured(size);
    in.random(8);
    bench.pair([&] { mix_capped<<<MIX_BLOCKS, 256>>>(in, slow); }, [&] { mix_free<<<MIX_BLOCKS, 256>>>(in, cured); });
    bench.same(slow, cured, 1e-6);
}

// ------------------------------------------------------------- register spill: a dynamically indexed array

constexpr int BINS = 32;
constexpr int BIN_WORDS = 32;
constexpr int BIN_KEYS = 6;  // keys of 5 bits in a word

// Slow: bins that are indexed at run time cannot be registers, so they live in local memory.
__global__ void __launch_bounds__(256) bins_in_local(const uint32_t* __restrict__ words, float* __restrict__ out) {
    const int thread = blockIdx.x * 256 + threadIdx.x, threads = MIX_BLOCKS * 256;
    int bins[BINS] = {};
#pragma unroll 1
    for (int k = 0; k < BIN_WORDS; ++k) {
        uint32_t word = words[k * threads + thread];
#pragma unroll
        for (int key = 0; key < BIN_KEYS; ++key, word >>= 5) ++bins[word % BINS];
    }
    float total = 0.0f;
    for (int bin = 0; bin < BINS; ++bin) total = fmaf(total, 0.5f, float(bins[bin]));
    out[thread] = total;
}

// Cure: the bins of a thread are a column of shared memory, in a bank of their own.
__global__ void __launch_bounds__(256) bins_in_shared(const uint32_t* __restrict__ words, float* __restrict__ out) {
    __shared__ int bins[BINS][256];
    const int thread = blockIdx.x * 256 + threadIdx.x, threads = MIX_BLOCKS * 256;
    for (int bin = 0; bin < BINS; ++bin) bins[bin][threadIdx.x] = 0;
#pragma unroll 1
    for (int k = 0; k < BIN_WORDS; ++k) {
        uint32_t word = words[k * threads + thread];
#pragma unroll
        for (int key = 0; key < BIN_KEYS; ++key, word >>= 5) ++bins[word % BINS][threadIdx.x];
    }
    float total = 0.0f;
    for (int bin = 0; bin < BINS; ++bin) total = fmaf(total, 0.5f, float(bins[bin][threadIdx.x]));
    out[thread] = total;
}

void spill_indexed(Bench& bench) {
    const size_t size = size_t(MIX_BLOCKS) * 256;
    Buffer<uint32_t> words(size * BIN_WORDS);
    Buffer<float> slow(size), cured(size);
    words.random(9);
    bench.pair([&] { bins_in_local<<<MIX_BLOCKS, 256>>>(words, slow); },
               [&] { bins_in_shared<<<MIX_BLOCKS, 256>>>(words, cured); });
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------- L2 thrash: far-apart passes over one array

constexpr int THRASH_BLOCKS = SMS * 8;
constexpr int THRASH_THREADS = THRASH_BLOCKS * 256;
constexpr int THRASH_CHUNK = THRASH_THREADS * 4;  // in float4: 17 MB
constexpr int THRASH_CHUNKS = 8;
constexpr int THRASH_PASSES = 6;
constexpr int THRASH_SHIFT = 101;  // blocks

__device__ __forceinline__ float weighted(const float4 v, int pass) {
    return fmaf(v.x, float(pass + 1), v.y) + fmaf(v.z, 0.5f, v.w * float(pass));
}

// In each pass a thread takes other elements of the chunk: else the compiler keeps them in registers.
__device__ __forceinline__ float read_chunk(const float4* in, int chunk, int pass, float total) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = (k * THRASH_THREADS + (blockIdx.x + pass * THRASH_SHIFT) * 256 + threadIdx.x) % THRASH_CHUNK;
        total += weighted(__ldcg(in + chunk * THRASH_CHUNK + i), pass);
    }
    return total;
}

// Slow: each pass runs through all 138 MB, so nothing is left in L2 when the next one comes.
__global__ void __launch_bounds__(256) whole_array_passes(const float4* __restrict__ in, float* __restrict__ out) {
    float total = 0.0f;
#pragma unroll 1
    for (int pass = 0; pass < THRASH_PASSES; ++pass) {
#pragma unroll 2
        for (int chunk = 0; chunk < THRASH_CHUNKS; ++chunk) total = read_chunk(in, chunk, pass, total);
    }
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

// Cure: all passes over 17 MB, then the next 17 MB.
__global__ void __launch_bounds__(256) chunked_passes(const float4* __restrict__ in, float* __restrict__ out) {
    float total = 0.0f;
#pragma unroll 1
    for (int chunk = 0; chunk < THRASH_CHUNKS; ++chunk) {
#pragma unroll 2
        for (int pass = 0; pass < THRASH_PASSES; ++pass) total = read_chunk(in, chunk, pass, total);
    }
    out[blockIdx.x * 256 + threadIdx.x] = total;
}

void l2_thrash(Bench& bench) {
    Buffer<float> in(size_t(THRASH_CHUNK) * THRASH_CHUNKS * 4), slow(THRASH_THREADS), cured(THRASH_THREADS);
    in.random(10);
    float* raw = in;
    const float4* wide = reinterpret_cast<const float4*>(raw);
    bench.pair([&] { whole_array_passes<<<THRASH_BLOCKS, 256>>>(wide, slow); },
               [&] { chunked_passes<<<THRASH_BLOCKS, 256>>>(wide, cured); });
    bench.same(slow, cured, 1e-4);
}

// ------------------------------------------------------------------- atomic contention: a few counters

constexpr int COUNTED = 1 << 22;
constexpr int COUNTERS = 16;

// Slow: everybody adds to the same 16 words of global memory.
__global__ void count_global(const uint32_t* __restrict__ keys, int* __restrict__ counts) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(counts + keys[i] % COUNTERS, 1);
}

// Cure: every warp counts in shared memory first.
__global__ void count_private(const uint32_t* __restrict__ keys, int* __restrict__ counts) {
    __shared__ int own[8][COUNTERS];
    if (threadIdx.x < 8 * COUNTERS) own[threadIdx.x / COUNTERS][threadIdx.x % COUNTERS] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNTED; i += gridDim.x * blockDim.x) {
        atomicAdd(&own[threadIdx.x / WARP][keys[i] % COUNTERS], 1);
    }
    __syncthreads();
    if (threadIdx.x < COUNTERS) {
        int total = 0;
        for (int warp = 0; warp < 8; ++warp) total += own[warp][threadIdx.x];
        atomicAdd(counts + threadIdx.x, total);
    }
}

void atomic_counters(Bench& bench) {
    Buffer<uint32_t> keys(COUNTED);
    Buffer<int> slow(COUNTERS), cured(COUNTERS);
    keys.random(11);
    const auto clear = [&] { slow.clear(), cured.clear(); };
    bench.pair([&] { count_global<<<COUNTED / 256, 256>>>(keys, slow); },
               [&] { count_private<<<SMS * 4, 256>>>(keys, cured); }, clear);
    clear();
    count_global<<<COUNTED / 256, 256>>>(keys, slow);
    count_private<<<SMS * 4, 256>>>(keys, cured);
    bench.same(slow, cured, 0.0);
}

// ----------------------------------------------------------------------- atomic contention: one sum

constexpr int SUMMED = 1 << 21;

// Slow: one atomic addition an element, all to four words.
__global__ void sum_by_atomics(const float* __restrict__ in, float* __restrict__ sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sums + blockIdx.x % 4, in[i]);
}

// Cure: a warp adds with shuffles, and its first lane adds the sum of eight elements a thread.
__global__ void sum_by_warps(const float* __restrict__ in, float* __restrict__ sums) {
    float total = 0.0f;
    for (int k = 0; k < 8; ++k) total += in[(blockIdx.x * 8 + k) * blockDim.x + threadIdx.x];
    for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
    if (threadIdx.x % WARP == 0) atomicAdd(sums + (blockIdx.x * 8 + threadIdx.x / WARP) % 4, total);
}

void atomic_sum(Bench& bench) {
    Buffer<float> in(SUMMED), slow(4), cured(4);
    in.random(12);
    const auto clear = [&] { slow.clear(), cured.clear(); };
    bench.pair([&] { sum_by_atomics<<<SUMMED / 256, 256>>>(in, slow); },
               [&] { sum_by_warps<<<SUMMED / 256 / 8, 256>>>(in, cured); }, clear);
    // The four sums hold other elements on either side but about equally many: a loose comparison.
    clear();
    sum_by_atomics<<<SUMMED / 256, 256>>>(in, slow);
    sum_by_warps<<<SUMMED / 256 / 8, 256>>>(in, cured);
    bench.same(slow, cured, 1e-2);
}

// ------------------------------------------------------------------------ memory of the host

constexpr size_t HOST_FLOATS = 16 << 20;  // 64 MB

// One kernel for both sides: only the place of the data differs.
__device__ __forceinline__ void square_sums(const float4* in, float* out) {
    const int threads = gridDim.x * blockDim.x;
    float total = 0.0f;
#pragma unroll 4
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < HOST_FLOATS / 4; i += threads) {
        const float4 v = in[i];
        total += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// Slow: pinned memory of the host, read across PCIe.
__global__ void square_sums_host(const float4* __restrict__ in, float* __restrict__ out) { square_sums(in, out); }

// Cure: memory of the device.
__global__ void square_sums_device(const float4* __restrict__ in, float* __restrict__ out) { square_sums(in, out); }

void host_memory(Bench& bench) {
    Buffer<float> in(HOST_FLOATS), slow(SMS * 4 * 256), cured(SMS * 4 * 256);
    in.random(13);
    float* pinned = nullptr;
    CHECK(cudaHostAlloc(&pinned, in.bytes(), cudaHostAllocMapped));
    CHECK(cudaMemcpy(pinned, in, in.bytes(), cudaMemcpyDeviceToHost));
    float* mapped = nullptr;
    CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0));
    float* raw = in;
    bench.pair([&] { square_sums_host<<<SMS * 4, 256>>>(reinterpret_cast<const float4*>(mapped), slow); },
               [&] { square_sums_device<<<SMS * 4, 256>>>(reinterpret_cast<const float4*>(raw), cured); });
    bench.same(slow, cured, 0.0);
    CHECK(cudaFreeHost(pinned));
}

// --------------------------------------------------------------- redundant traffic: a norm in three passes

constexpr int NORM_ROWS = SMS * 16;
constexpr int NORM_LENGTH = 16384;

__device__ __forceinline__ float block_sum(float value) {
    __shared__ float parts[WARP];
    for (int offset = WARP / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = value;
    __syncthreads();
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / WARP; ++warp) total += parts[warp];
    return total;
}

__device__ __forceinline__ float sum_of(const float4 v) { return (v.x + v.y) + (v.z + v.w); }

__device__ __forceinline__ float squares_of(const float4 v, float mean) {
    const float x = v.x - mean, y = v.y - mean, z = v.z - mean, w = v.w - mean;
    return (x * x + y * y) + (z * z + w * w);
}

__device__ __forceinline__ float4 normalised(const float4 v, float mean, float scale) {
    return make_float4((v.x - mean) * scale, (v.y - mean) * scale, (v.z - mean) * scale, (v.w - mean) * scale);
}

// Slow: mean, variance and result each read the row again; the 2112 rows under way do not fit into L2.
__global__ void __launch_bounds__(128, 16) layer_norm_three_reads(const float4* __restrict__ in,
                                                                  float4* __restrict__ out) {
    const float4* row = in + size_t(blockIdx.x) * (NORM_LENGTH / 4);
    float4* target = out + size_t(blockIdx.x) * (NORM_LENGTH / 4);
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < NORM_LENGTH / 4; i += 128) sum += sum_of(row[i]);
    const float mean = block_sum(sum) / NORM_LENGTH;
#pragma unroll 4
    for (int i = threadIdx.x; i < NORM_LENGTH / 4; i += 128) squares += squares_of(row[i], mean);
    const float scale = rsqrtf(block_sum(squares) / NORM_LENGTH + 1e-5f);
#pragma unroll 4
    for (int i = threadIdx.x; i < NORM_LENGTH / 4; i += 128) target[i] = normalised(row[i], mean, scale);
}

// Cure: the row is read once and stays in the registers of 1024 threads.
__global__ void __launch_bounds__(1024, 2) layer_norm_one_read(const float4* __restrict__ in,
                                                               float4* __restrict__ out) {
    constexpr int PARTS = NORM_LENGTH / 4 / 1024;
    const float4* row = in + size_t(blockIdx.x) * (NORM_LENGTH / 4);
    float4* target = out + size_t(blockIdx.x) * (NORM_LENGTH / 4);
    float4 kept[PARTS];
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PARTS; ++k) kept[k] = row[k * 1024 + threadIdx.x];
#pragma unroll
    for (int k = 0; k < PARTS; ++k) sum += sum_of(kept[k]);
    const float mean = block_sum(sum) / NORM_LENGTH;
#pragma unroll
    for (int k = 0; k < PARTS; ++k) squares += squares_of(kept[k], mean);
    const float scale = rsqrtf(block_sum(squares) / NORM_LENGTH + 1e-5f);
#pragma unroll
    for (int k = 0; k < PARTS; ++k) target[k * 1024 + threadIdx.x] = normalised(kept[k], mean, scale);
}

void norm_three_reads(Bench& bench) {
    const size_t size = size_t(NORM_ROWS) * NORM_LENGTH;
    Buffer<float> in(size), slow(size), cured(size);
    in.random(14);
    float *from = in, *to_slow = slow, *to_cured = cured;
    const float4* source = reinterpret_cast<const float4*>(from);
    bench.pair([&] { layer_norm_three_reads<<<NORM_ROWS, 128>>>(source, reinterpret_cast<float4*>(to_slow)); },
               [&] { layer_norm_one_read<<<NORM_ROWS, 1024>>>(source, reinterpret_cast<float4*>(to_cured)); });
    bench.same(slow, cured, 1e-4);
}

// ------------------------------------------------------------------------------------------- controls

// Nothing planted: 256 MB copied 16 bytes a thread.
__global__ void copy_wide(const float4* __restrict__ in, float4* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}

// Nothing planted: two vectors of 128 MB are added.
__global__ void add_vectors(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 x = a[i], y = b[i];
    out[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

void copy_control(Bench& bench) {
    Buffer<float> in(size_t(64) << 20), out(size_t(64) << 20);
    in.random(15);
    float *from = in, *to = out;
    bench.control([&] {
        copy_wide<<<(16 << 20) / 256, 256>>>(reinterpret_cast<const float4*>(from), reinterpret_cast<float4*>(to));
    });
}

void add_control(Bench& bench) {
    Buffer<float> a(size_t(32) << 20), b(size_t(32) << 20), out(size_t(32) << 20);
    a.random(16), b.random(17);
    float *x = a, *y = b, *to = out;
    bench.control([&] {
        add_vectors<<<(8 << 20) / 256, 256>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(y),
                                              reinterpret_cast<float4*>(to));
    });
}

int main(int argc, char** argv) {
    Bench bench(argc, argv);
    bench.run("load-aos", load_aos);
    bench.run("load-columns", load_columns);
    bench.run("store-aos", store_aos);
    bench.run("store-packed", store_packed);
    bench.run("partial-sectors", partial_sectors);
    bench.run("bank-structs", bank_structs);
    bench.run("bank-columns", bank_columns);
    bench.run("spill-cap", spill_cap);
    bench.run("spill-indexed", spill_indexed);
    bench.run("l2-thrash", l2_thrash);
    bench.run("atomic-counters", atomic_counters);
    bench.run("atomic-sum", atomic_sum);
    bench.run("host-memory", host_memory);
    bench.run("norm-three-reads", norm_three_reads);
    bench.run("copy", copy_control);
    bench.run("add", add_control);
}
