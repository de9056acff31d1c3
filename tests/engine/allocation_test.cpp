#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/tiny_engine.h"

namespace {

std::atomic<uint64_t> n_allocations = 0;

void* counted(size_t bytes) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes ? bytes : 1);
  if (!memory) std::abort();
  return memory;
}

}  // namespace

// Counts every allocation of this program's C++ code, but not the plain malloc() of libraries.
void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace kvik {
namespace {

// A sink that stores nothing, so that all allocations in a step are the engine's.
class NullSink final : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override {}
};

constexpr uint32_t kSequences = 4;
constexpr uint32_t kPromptTokens = 40;

// Runs kSequences decoding sequences, all at the same position, and returns the number of
// allocations of each step, by position.
std::vector<uint64_t> allocations_by_position(KvType kv_type, float temperature) {
  EngineRig rig({.model = {.name = "test-llama:q8_0", .n_threads = 2},
                 .n_pages = 128,
                 .kv_type = kv_type,
                 .max_step_tokens = kSequences * kPromptTokens,
                 .speculation = kNoSpeculation});
  for (uint32_t i = 0; i < kSequences; ++i) {
    Request request = greedy_request(some_tokens(kPromptTokens, i + 1), 100);
    request.sampling.temperature = temperature;
    request.sampling.top_p = 0.9f;
    rig.engine().submit(RequestId{i + 1}, std::move(request), std::make_shared<NullSink>());
  }
  rig.engine().step();  // all prompts, and the first token of each
  std::vector<uint64_t> counts(kPromptTokens);
  while (true) {
    const uint64_t before = n_allocations.load();
    if (!rig.engine().step()) return counts;
    counts.push_back(n_allocations.load() - before);
  }
}

// With two threads, greedy and with top-p sampling. The last step is not checked: sequences end in
// it.
TEST(Allocations, a_decoding_step_makes_none_inside_a_page) {
  for (const KvType type : kAllKvTypes) {
    for (const float temperature : {0.0f, 1.0f}) {
      const std::vector<uint64_t> counts = allocations_by_position(type, temperature);
      ASSERT_GT(counts.size(), kPromptTokens + 90);
      for (size_t position = kPromptTokens + 1; position + 1 < counts.size(); ++position) {
        const bool at_a_page = position % kPageTokens == 0 || (position + 1) % kPageTokens == 0;
        // A new page costs its entries in the index, once in kPageTokens steps.
        EXPECT_LE(counts[position], at_a_page ? kSequences * 16 : 0)
            << name_of(type) << " at position " << position;
      }
    }
  }
}

// The memory of the drafters is allocated when a sequence begins to decode.
TEST(Allocations, drafting_makes_none_inside_a_page) {
  EngineRig rig({.max_step_tokens = 256, .speculation = {SpeculationOptions::Mode::kAlways}});
  for (uint32_t i = 0; i < kSequences; ++i) {
    Request request = greedy_request(some_tokens(kPromptTokens, i + 1), 300);
    for (uint32_t k = 0; k < 300; ++k) request.script.push_back(k % 7 + k / 90);
    rig.engine().submit(RequestId{i + 1}, std::move(request), std::make_shared<NullSink>());
  }
  for (int i = 0; i < 20; ++i) rig.engine().step();
  const uint64_t before = n_allocations.load();
  const uint64_t n_before = rig.engine().snapshot().generated_tokens;
  for (int i = 0; i < 8; ++i) rig.engine().step();
  const EngineSnapshot after = rig.engine().snapshot();
  const uint64_t n_tokens = after.generated_tokens - n_before;
  ASSERT_EQ(after.n_running, kSequences);
  EXPECT_GT(n_tokens, 8 * kSequences);
  EXPECT_LE(n_allocations.load() - before, (n_tokens / kPageTokens + kSequences) * 16);
  rig.engine().cancel_all();
}

}  // namespace
}  // namespace kvik
