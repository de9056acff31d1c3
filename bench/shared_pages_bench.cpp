// Benchmarks attention of N decoding users with a common prefix, in shared pages or in copies: the
// whole backend, 2 threads, the geometry of TinyLlama.
//
//   bench_attention --benchmark_filter='users.*int8'
//
// The time is that of all layers of one step.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "attention_benches.h"
#include "backend/cpu/cpu_backend.h"

namespace kvik::cpu {
namespace {

constexpr uint32_t kPrefixTokens = 4096, kOwnTokens = 16;
constexpr uint32_t kLayers = 22, kHeads = 32, kKvHeads = 4, kHeadDim = 64;
constexpr uint32_t kLayersHeld = 8;  // used in rotation, so that the copies of all users fit

enum class Prefix { kShared, kCopied };

struct Users {
  KvType type;
  Prefix prefix;
  uint32_t n;
};

class UsersFixture {
 public:
  explicit UsersFixture(const Users& users)
      : geometry_{users.type, kLayersHeld, kKvHeads, kHeadDim},
        backend_(std::move(*make_cpu_backend({.n_threads = 2, .isa = ""}))),
        queries_(rows(users.n, kHeads)),
        out_(rows(users.n, kHeads)) {
    const std::vector<std::byte*> prefix = new_pages(kPrefixTokens);
    write(prefix, 0, kPrefixTokens);
    for (uint32_t i = 0; i < users.n; ++i) {
      tables_.push_back(prefix);
      if (users.prefix == Prefix::kCopied && i > 0) {
        tables_.back() = new_pages(kPrefixTokens);
        for (size_t page = 0; page < prefix.size(); ++page) {
          backend_->memory().copy(tables_.back()[page], prefix[page],
                                  backend_->page_bytes(geometry_));
        }
      }
      for (std::byte* page : new_pages(kOwnTokens)) tables_.back().push_back(page);
      write(tables_.back(), kPrefixTokens, kOwnTokens);
    }
    for (uint32_t i = 0; i < users.n; ++i) {
      runs_.push_back({tables_[i], kPrefixTokens + kOwnTokens - 1, i, 1});
    }
  }

  void step() {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      backend_->attention({geometry_, layer % kLayersHeld, runs_},
                          {.n_heads = kHeads, .scale = 0.125f}, queries_, out_);
    }
  }

 private:
  Rows rows(uint32_t n, uint32_t n_heads) {
    buffers_.push_back(backend_->memory().allocate(size_t{n} * n_heads * kHeadDim * 4));
    float* data = buffers_.back().floats();
    for (size_t i = 0; i < size_t{n} * n_heads * kHeadDim; ++i) {
      data[i] = static_cast<float>(generator_() % 2001) / 1000.0f - 1.0f;
    }
    return {data, n, n_heads * kHeadDim, n_heads * kHeadDim};
  }
  std::vector<std::byte*> new_pages(uint32_t n_tokens) {
    const uint32_t n_pages = (n_tokens + kPageTokens - 1) / kPageTokens;
    const size_t bytes = backend_->page_bytes(geometry_);
    buffers_.push_back(backend_->memory().allocate(n_pages * bytes));
    std::vector<std::byte*> pages;
    for (uint32_t i = 0; i < n_pages; ++i) pages.push_back(buffers_.back().data() + i * bytes);
    return pages;
  }
  void write(const std::vector<std::byte*>& table, uint32_t first, uint32_t n) {
    const KvRun run{table, first, 0, n};
    const Rows k = rows(n, kKvHeads);
    const Rows v = rows(n, kKvHeads);
    for (uint32_t layer = 0; layer < kLayersHeld; ++layer) {
      backend_->write_kv({geometry_, layer, {&run, 1}}, k, v);
    }
  }

  const KvGeometry geometry_;
  std::mt19937 generator_{1};
  const std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  const Rows queries_, out_;
  std::vector<std::vector<std::byte*>> tables_;
  std::vector<KvRun> runs_;
};

}  // namespace

void add_shared_pages_benches() {
  for (const KvType type : kAllKvTypes) {
    if (type == KvType::kF32) continue;
    for (const uint32_t n : {1, 2, 4, 8, 16, 32, 64}) {
      for (const Prefix prefix : {Prefix::kShared, Prefix::kCopied}) {
        const std::string name = std::string("users:") + std::to_string(n) + "/" + name_of(type) +
                                 (prefix == Prefix::kShared ? "/shared" : "/copied");
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) {
                                       UsersFixture fixture({type, prefix, n});
                                       for (auto _ : state) fixture.step();
                                     })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
}

}  // namespace kvik::cpu
