// Benchmarks sampling one token from a vocabulary of logits on one thread, by sampling parameters.
// For comparison, the step that computes the logits takes milliseconds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/sample/sampler.h"

namespace kvik {
namespace {

void add(const std::string& name, uint32_t n_vocab, const SamplingParams& params) {
  benchmark::RegisterBenchmark((name + "/" + std::to_string(n_vocab)).c_str(), [=](benchmark::State&
                                                                                       state) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> logits(n_vocab);
    std::ranges::generate(logits, [&] { return normal(random); });
    TokenCounts counts;
    for (uint32_t i = 0; i < 2000; ++i) counts.add_prompt(random() % n_vocab);
    Sampler sampler(n_vocab);
    uint64_t position = 0;
    for (auto _ : state) {
      benchmark::DoNotOptimize(sampler.sample({.logits = logits,
                                               .params = params,
                                               .counts = counts,
                                               .masked = {},
                                               .position = ++position}));
    }
  })->Unit(benchmark::kMicrosecond);
}

void add_all() {
  for (const uint32_t n_vocab : {32000u, 128256u}) {
    add("greedy", n_vocab, {.temperature = 0});
    add("temperature", n_vocab, {.temperature = 0.8f});
    add("top_k:40", n_vocab, {.temperature = 0.8f, .top_k = 40});
    add("top_p:0.95", n_vocab, {.temperature = 0.8f, .top_p = 0.95f});
    add("min_p:0.05", n_vocab, {.temperature = 0.8f, .min_p = 0.05f});
    add("penalties", n_vocab,
        {.temperature = 0.8f, .repetition_penalty = 1.1f, .frequency_penalty = 0.5f});
    benchmark::RegisterBenchmark(("top_logprobs:5/" + std::to_string(n_vocab)).c_str(),
                                 [=](benchmark::State& state) {
                                   std::vector<float> logits(n_vocab);
                                   for (uint32_t i = 0; i < n_vocab; ++i) {
                                     logits[i] =
                                         static_cast<float>((i * 2654435761u) % 10007) * 1e-3f;
                                   }
                                   for (auto _ : state)
                                     benchmark::DoNotOptimize(top_logprobs(logits, 5));
                                 })
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  kvik::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
