#include <benchmark/benchmark.h>

#include <chrono>

#include "base/thread_pool.h"

namespace kvik {
namespace {

using Clock = std::chrono::steady_clock;

void work_for(std::chrono::nanoseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

// One loop without work: wakes the other threads, hands out the items and waits for the last one.
void BM_Barrier(benchmark::State& state) {
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  const auto n_items = static_cast<size_t>(state.range(1));
  for (auto _ : state)
    pool.run(n_items, [](size_t item, uint32_t) { benchmark::DoNotOptimize(item); });
}
BENCHMARK(BM_Barrier)
    ->ArgsProduct({{2}, {2, 8, 32}})
    ->ArgNames({"threads", "items"})
    ->UseRealTime();

// The same after the caller has worked alone for the given number of microseconds: workers that
// have stopped spinning must be woken.
void BM_BarrierAfterAPause(benchmark::State& state) {
  ThreadPool pool(2);
  const std::chrono::microseconds pause(state.range(0));
  for (auto _ : state) {
    work_for(pause);
    const auto begin = Clock::now();
    pool.run(2, [](size_t item, uint32_t) { benchmark::DoNotOptimize(item); });
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
  }
}
BENCHMARK(BM_BarrierAfterAPause)
    ->Arg(1)
    ->Arg(10)
    ->Arg(25)
    ->Arg(100)
    ->Arg(1000)
    ->Iterations(10000)
    ->UseManualTime();

}  // namespace
}  // namespace kvik

BENCHMARK_MAIN();
