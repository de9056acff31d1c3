#include <fmt/format.h>

#include "backend/cuda/both_backends.h"
#include "base/clock.h"
#include "host/load_model.h"

namespace kvik {
namespace {

using cuda::DeviceCounters;
using host_run::HostDevice;

class CountingSink final : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override {
    ++n_tokens;
    return Verdict::kContinue;
  }
  void on_finish(FinishReason, const Usage&) override {}
  uint32_t n_tokens = 0;
};

DeviceCounters difference(const DeviceCounters& a, const DeviceCounters& b) {
  return {.n_launches = b.n_launches - a.n_launches,
          .n_graphs = b.n_graphs - a.n_graphs,
          .n_graph_runs = b.n_graph_runs - a.n_graph_runs,
          .n_graph_changes = b.n_graph_changes - a.n_graph_changes,
          .n_copies_in = b.n_copies_in - a.n_copies_in,
          .n_copies_out = b.n_copies_out - a.n_copies_out,
          .bytes_in = b.bytes_in - a.bytes_in,
          .bytes_out = b.bytes_out - a.bytes_out};
}

// Returns the counts of one step that decodes one token of one sequence, a few tokens into its
// first page.
DeviceCounters of_a_decode_step(const std::string& model) {
  auto own = std::make_unique<HostDevice>();
  HostDevice& device = *own;
  auto source = open_model(model);
  auto loaded = load_model({.model = model}, std::move(*source),
                           std::move(*cuda::make_backend(std::move(own), 2)));
  EXPECT_TRUE(loaded);
  SteadyClock clock;
  const EngineOptions options = {.kv_budget_bytes = loaded->kv().budget(64, 1),
                                 .kv_type = KvType::kInt8,
                                 .n_ctx_max = 32,
                                 .max_step_tokens = 8,
                                 .max_running = 1,
                                 .speculation = {.mode = SpeculationOptions::Mode::kOff}};
  auto engine = Engine::create(std::move(loaded->model), *loaded->backend, options, clock);
  EXPECT_TRUE(engine);
  Request request;
  request.prompt = {5, 6};
  request.max_tokens = 5;
  request.sampling.temperature = 0;
  const auto sink = std::make_shared<CountingSink>();
  (*engine)->submit(RequestId{0}, std::move(request), sink);
  while (sink->n_tokens < 3) (*engine)->step();  // the second decode step records the graph
  const DeviceCounters before = device.counters();
  const uint64_t n_waits = device.n_waits();
  (*engine)->step();
  EXPECT_EQ(device.n_waits() - n_waits, 1u);  // else the engine would measure a part of the step
  EXPECT_EQ(sink->n_tokens, 4u);
  return difference(before, device.counters());
}

// Checks the numbers in docs/design/cuda.md for TinyLlama's 22 layers: every layer has the same
// number of launches, and transfers do not depend on the number of layers.
TEST(CudaCounters, a_greedy_decode_step_of_tinyllama_is_445_launches_and_brings_back_one_id) {
  const DeviceCounters one = of_a_decode_step("synthetic:tinyllama-1.1b:q4_0:1");
  const DeviceCounters two = of_a_decode_step("synthetic:tinyllama-1.1b:q4_0:2");
  const uint64_t per_layer = two.n_launches - one.n_launches;
  RecordProperty("launches", fmt::format("{} + {} a layer", one.n_launches - per_layer, per_layer));
  EXPECT_EQ(one.n_launches + 21 * per_layer, 445u);
  EXPECT_EQ(one.n_graph_runs, 1u);  // one for all launches
  EXPECT_EQ(one.n_graphs, 0u);
  EXPECT_EQ(one.n_graph_changes, 0u);
  EXPECT_EQ(two.n_graph_changes, 0u);
  EXPECT_EQ(one.n_copies_out, 1u);
  EXPECT_EQ(one.bytes_out, sizeof(TokenId));
  EXPECT_EQ(two.bytes_out, one.bytes_out);
  EXPECT_EQ(two.bytes_in, one.bytes_in);
  EXPECT_EQ(two.n_copies_in, one.n_copies_in);
  EXPECT_EQ(one.n_copies_in, 2u);  // the RoPE angles; the token and its position
  EXPECT_LE(one.bytes_in, 288u);
}

// Covers softmax and sigmoid scores, a shared expert, a bias, and groups of experts.
TEST(CudaCounters, a_decode_step_of_a_mixture_of_experts_brings_back_nothing_but_its_id) {
  for (const char* preset : {"test-qwen3moe", "test-qwen2moe", "test-glm4moe", "test-mla",
                             "test-granitemoe", "test-gemma4-moe", "test-granitehybrid"}) {
    const DeviceCounters step = of_a_decode_step(fmt::format("synthetic:{}:q4_0", preset));
    EXPECT_EQ(step.n_copies_out, 1u) << preset;
    EXPECT_EQ(step.bytes_out, sizeof(TokenId)) << preset;
    EXPECT_EQ(step.n_graph_runs, 1u) << preset;
    EXPECT_EQ(step.n_graph_changes, 0u) << preset;
  }
}

}  // namespace
}  // namespace kvik
