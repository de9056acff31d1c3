// Benchmarks sampling one token from a vocabulary of logits on one thread, by sampling parameters,
// and one token each for 16 sequences on several threads. For comparison, the step that computes
// the logits takes milliseconds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/sample/log_softmax.h"
#include "engine/sample/step_sampler.h"

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
                                               .history = {.counts = counts},
                                               .masked = {},
                                               .position = ++position}));
    }
  })->Unit(benchmark::kMicrosecond);
}

// Benchmarks a step of 16 sequences.
void add_step(const std::string& name, uint32_t n_vocab, uint32_t n_threads,
              const SamplingParams& params) {
  const std::string full = "16 sequences/" + name + "/" + std::to_string(n_vocab) +
                           "/threads:" + std::to_string(n_threads);
  benchmark::RegisterBenchmark(
      full.c_str(),
      [=](benchmark::State& state) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal(0, 3);
        CpuBackendOptions options;
        options.n_threads = n_threads;
        const auto backend = *make_cpu_backend(options);
        StepSampler sampler(*backend, n_vocab);
        std::vector<std::vector<float>> logits(16, std::vector<float>(n_vocab));
        std::vector<std::unique_ptr<Sequence>> sequences;
        for (uint64_t i = 0; i < logits.size(); ++i) {
          std::ranges::generate(logits[i], [&] { return normal(random); });
          Request request;
          request.prompt = {0};
          request.sampling = params;
          request.sampling.seed = i;
          sequences.push_back(std::make_unique<Sequence>(
              QueuedRequest{.id = RequestId{i}, .request = std::move(request)}));
        }
        std::vector<TokenPick> picks;
        for (auto _ : state) {
          picks.clear();
          for (size_t i = 0; i < logits.size(); ++i) {
            picks.push_back({.sequence = sequences[i].get(), .logits = logits[i]});
          }
          sampler.make(picks);
        }
      })
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void add_all() {
  for (const uint32_t n_threads : {1u, 2u}) {
    add_step("temperature", 128256, n_threads, {.temperature = 0.8f});
    add_step("top_k:40", 128256, n_threads, {.temperature = 0.8f, .top_k = 40});
    add_step("top_p:0.95", 128256, n_threads, {.temperature = 0.8f, .top_p = 0.95f});
  }
  for (const uint32_t n_vocab : {32000u, 128256u}) {
    add("greedy", n_vocab, {.temperature = 0});
    add("temperature", n_vocab, {.temperature = 0.8f});
    add("top_k:40", n_vocab, {.temperature = 0.8f, .top_k = 40});
    add("top_p:0.95", n_vocab, {.temperature = 0.8f, .top_p = 0.95f});
    add("min_p:0.05", n_vocab, {.temperature = 0.8f, .min_p = 0.05f});
    add("penalties", n_vocab,
        {.temperature = 0.8f, .repetition_penalty = 1.1f, .frequency_penalty = 0.5f});
    add("typical_p:0.95", n_vocab, {.temperature = 0.8f, .typical_p = 0.95f});
    add("top_k:40 xtc:0.5", n_vocab,
        {.temperature = 0.8f, .top_k = 40, .xtc = {.probability = 0.5f}});
    add("mirostat:2", n_vocab, {.temperature = 0.8f, .mirostat = {.version = 2}});
    benchmark::RegisterBenchmark(("top_logprobs:5/" + std::to_string(n_vocab)).c_str(),
                                 [=](benchmark::State& state) {
                                   std::vector<float> logits(n_vocab);
                                   for (uint32_t i = 0; i < n_vocab; ++i) {
                                     logits[i] =
                                         static_cast<float>((i * 2654435761u) % 10007) * 1e-3f;
                                   }
                                   for (auto _ : state)
                                     benchmark::DoNotOptimize(LogSoftmax(logits).top(5));
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
