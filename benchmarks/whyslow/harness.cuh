// What the planted programs share: device memory, inputs, timing, comparing, and one NVTX range a launch.
//
// Usage of each program: PROGRAM [--profile] [--only REGEX] [--skip FILE] [--timings FILE]
//
// A plain run compares the results of each pair and times both sides; with --profile each side is launched once
// between cudaProfilerStart and cudaProfilerStop. A pair that fails writes its name into the skip file and ends the
// program with status 3, because an error may leave the device context unusable: run again, the others go on.
// No pair starts after the Unix time in WHYSLOW_DEADLINE, so that a profiler still writes what it has.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        const cudaError_t status_ = (call);                                                       \
        if (status_ != cudaSuccess) {                                                             \
            throw std::runtime_error(std::string(#call ": ") + cudaGetErrorString(status_));      \
        }                                                                                         \
    } while (0)

constexpr int WARP = 32;
constexpr int SMS = 132;  // of an H200; the shapes of some plants depend on it

__host__ __device__ inline uint32_t hash32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

__host__ __device__ inline float unit_value(uint32_t i) {
    return (float(hash32(i) >> 9) + 0.5f) * 0x1p-23f;
}

// Set-up kernels run outside the profiled ranges.
template <class T>
__global__ void fill_values(T* data, size_t count, uint32_t seed, float shift) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        data[i] = T(unit_value(uint32_t(i) + seed * 0x9e3779b9u) - shift);
    }
}

__global__ void fill_words(uint32_t* data, size_t count, uint32_t seed) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        data[i] = hash32(uint32_t(i) + seed * 0x9e3779b9u);
    }
}

template <class T>
class Buffer {
public:
    explicit Buffer(size_t count) : count_(count) {
        CHECK(cudaMalloc(&data_, count * sizeof(T)));
        CHECK(cudaMemset(data_, 0xff, count * sizeof(T)));  // not-a-number: what nobody writes is seen
    }
    explicit Buffer(const std::vector<T>& host) : Buffer(host.size()) {
        CHECK(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice));
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { cudaFree(data_); }

    operator T*() const { return data_; }
    size_t count() const { return count_; }
    size_t bytes() const { return count_ * sizeof(T); }
    void clear() const { CHECK(cudaMemset(data_, 0, bytes())); }

    Buffer& random(uint32_t seed, float shift = 0.0f) {
        if constexpr (std::is_same_v<T, uint32_t>) {
            fill_words<<<1024, 256>>>(data_, count_, seed);
        } else {
            fill_values<<<1024, 256>>>(data_, count_, seed, shift);
        }
        CHECK(cudaGetLastError());
        return *this;
    }

    std::vector<T> host() const {
        std::vector<T> copy(count_);
        CHECK(cudaMemcpy(copy.data(), data_, bytes(), cudaMemcpyDeviceToHost));
        return copy;
    }

private:
    T* data_ = nullptr;
    size_t count_;
};

using Launch = std::function<void()>;
inline void nothing() {}

class Bench {
public:
    Bench(int argc, char** argv) {
        for (int i = 1; i < argc; ++i) {
            const std::string option = argv[i];
            if (option == "--profile") {
                profile_ = true;
            } else if (i + 1 == argc) {
                std::fprintf(stderr, "usage: %s [--profile] [--only REGEX] [--skip FILE] [--timings FILE]\n", argv[0]);
                std::exit(2);
            } else if (option == "--only") {
                only_ = std::regex(argv[++i]);
            } else if (option == "--skip") {
                skip_file_ = argv[++i];
            } else if (option == "--timings") {
                timings_file_ = argv[++i];
            }
        }
        std::ifstream skipped(skip_file_);
        for (std::string name; std::getline(skipped, name);) skip_.insert(name);
        if (const char* at = std::getenv("WHYSLOW_DEADLINE")) deadline_ = std::atol(at);
    }

    // Runs one case unless it is filtered out or the time is over.
    void run(const std::string& name, void (*body)(Bench&)) {
        if (!std::regex_search(name, only_) || skip_.count(name)) return;
        if (deadline_ && std::time(nullptr) >= deadline_) {
            std::printf("%s: no time left\n", name.c_str());
            return;
        }
        name_ = name;
        try {
            body(*this);
            CHECK(cudaDeviceSynchronize());
        } catch (const std::exception& error) {
            std::printf("%s: FAILED, %s\n", name.c_str(), error.what());
            if (!skip_file_.empty()) std::ofstream(skip_file_, std::ios::app) << name << "\n";
            std::fflush(stdout);
            std::exit(3);
        }
        std::fflush(stdout);
    }

    // Both sides of a pair; `prepare` runs before each launch, outside ranges and times.
    void pair(const Launch& slow, const Launch& cured, const Launch& prepare = nothing) {
        const double slow_us = side(name_ + ":slow", slow, prepare);
        const double cured_us = side(name_ + ":cured", cured, prepare);
        report(slow_us, cured_us);
    }

    // A launch whose twin is in another program: the plain run writes 0 for the side that it lacks.
    void slow_only(const Launch& slow) { report(side(name_ + ":slow", slow, nothing), 0.0); }

    void control(const Launch& launch) { report(side("control:" + name_, launch, nothing), 0.0); }

    // Element i of `slow` belongs to element at(i) of `cured`; differences are relative to the largest value.
    template <class T, class At>
    void same(const Buffer<T>& slow, const Buffer<T>& cured, double tolerance, At at) {
        if (profile_) return;
        const std::vector<T> left = slow.host(), right = cured.host();
        double largest = 0.0, difference = 0.0;
        bool written = true;
        for (size_t i = 0; i < left.size(); ++i) {
            const double x = double(left[i]), y = double(right[at(i)]);
            written = written && std::isfinite(x) && std::isfinite(y);
            largest = std::fmax(largest, std::fabs(x));
            difference = std::fmax(difference, std::fabs(x - y));
        }
        const bool equal = written && largest > 0.0 && difference <= tolerance * largest;
        std::printf("  largest difference %.2e of %.2e: %s\n", difference, largest, equal ? "same" : "DIFFERENT");
    }

    template <class T>
    void same(const Buffer<T>& slow, const Buffer<T>& cured, double tolerance) {
        same(slow, cured, tolerance, [](size_t i) { return i; });
    }

private:
    // One warm-up; then one profiled launch, or the median of ten timed ones with a cold L2.
    double side(const std::string& range, const Launch& launch, const Launch& prepare) {
        prepare();
        launch();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        if (profile_) {
            prepare();
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaProfilerStart());
            nvtxRangePushA(range.c_str());
            launch();
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
            nvtxRangePop();
            CHECK(cudaProfilerStop());
            return 0.0;
        }
        static const Buffer<char> flushed(size_t(256) << 20);
        cudaEvent_t start, stop;
        CHECK(cudaEventCreate(&start));
        CHECK(cudaEventCreate(&stop));
        std::vector<float> times;
        for (int run = 0; run < 10; ++run) {
            prepare();
            CHECK(cudaMemsetAsync(flushed, run, flushed.bytes()));
            CHECK(cudaEventRecord(start));
            launch();
            CHECK(cudaEventRecord(stop));
            CHECK(cudaDeviceSynchronize());
            float milliseconds = 0.0f;
            CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
            times.push_back(milliseconds * 1e3f);
        }
        CHECK(cudaEventDestroy(start));
        CHECK(cudaEventDestroy(stop));
        // What was accumulated over the runs is compared: one clean launch more.
        prepare();
        launch();
        CHECK(cudaDeviceSynchronize());
        std::sort(times.begin(), times.end());
        return (times[4] + times[5]) / 2;
    }

    void report(double slow_us, double cured_us) {
        if (profile_) return;
        std::printf("%-28s %9.1f us %9.1f us %6.2fx\n", name_.c_str(), slow_us, cured_us,
                    cured_us > 0 ? slow_us / cured_us : 0.0);
        if (timings_file_.empty()) return;
        std::ofstream(timings_file_, std::ios::app) << name_ << " " << slow_us << " " << cured_us << "\n";
    }

    bool profile_ = false;
    long deadline_ = 0;
    std::string name_, skip_file_, timings_file_;
    std::regex only_{""};
    std::set<std::string> skip_;
};

// A step of pure arithmetic that stays one fused instruction, so that no kernel below has unfused ones by accident.
__device__ __forceinline__ float fused_step(float x) { return fmaf(x, 0.97f, 0.01f); }

// Lines of 8 equal words, each the number of the next line: a warp that starts at one line reads one 32-byte sector a
// look-up and cannot start the next one before it has come back. The numbers run through all lines.
constexpr int LINE_WORDS = 8;

__global__ void fill_lines(int* table, int lines) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < lines * LINE_WORDS; i += gridDim.x * blockDim.x) {
        table[i] = int((uint32_t(i / LINE_WORDS) * 1664525u + 1013904223u) & uint32_t(lines - 1));
    }
}

// L1 is passed by, so that every look-up takes as long as L2 (or DRAM, where the table does not fit) needs.
__device__ __forceinline__ int follow(const int* table, int line) {
    return __ldcg(table + line * LINE_WORDS + threadIdx.x % LINE_WORDS);
}

// The 32 threads of a warp share one start.
__device__ __forceinline__ int start_line(int number, int lines) {
    return int(hash32(uint32_t(number) / WARP) & uint32_t(lines - 1));
}

constexpr int L2_LINES = 1 << 18;    // 8 MB
constexpr int DRAM_LINES = 1 << 23;  // 256 MB

class Lines : public Buffer<int> {
public:
    explicit Lines(int lines) : Buffer<int>(size_t(lines) * LINE_WORDS) {
        fill_lines<<<1024, 256>>>(*this, lines);
        CHECK(cudaGetLastError());
    }
};
