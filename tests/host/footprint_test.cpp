#include "host/footprint.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "backend/host_memory.h"
#include "support/memory_source.h"
#include "support/test_presets.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

uint64_t held_bytes(Backend& backend) {
  return static_cast<const HostMemory&>(backend.memory()).held_bytes();
}

uint64_t part_of(const MemoryPlan& plan, const std::string& name) {
  for (const MemoryPlan::Part& part : plan.buffers) {
    if (part.name == name) return part.n_bytes;
  }
  ADD_FAILURE() << "the plan has no part '" << name << "'";
  return 0;
}

// A synthetic model that is planned before it is loaded.
struct Planned {
  explicit Planned(const std::string& name, EngineOptions engine_options, uint32_t n_threads = 2)
      : options(engine_options), source(MemorySource(**make_synthetic("synthetic:" + name))) {
    backend = make_test_backend(n_threads);
    footprint.emplace(*Footprint::of(source, *backend));
    plan = footprint->plan(options);
  }

  // Returns the bytes of weights that remain on the host, such as divisors of RoPE frequencies.
  uint64_t host_weight_bytes() const {
    uint64_t n_bytes = 0;
    // Mamba's recurrence reads its numbers on the device.
    const bool is_mamba = std::ranges::any_of(source.tensors(), [](const TensorInfo& tensor) {
      return tensor.name.ends_with("ssm_x.weight");
    });
    for (const TensorInfo& tensor : source.tensors()) {
      const bool is_on_host =
          tensor.name.starts_with("rope_") || tensor.name.ends_with("exp_probs_b.bias") ||
          tensor.name.ends_with("ffn_down_exps.scale") ||
          tensor.name.ends_with("layer_output_scale.weight") ||
          tensor.name.find("tid2eid") != std::string::npos ||
          tensor.name.find("ssmax.") != std::string::npos ||
          (tensor.name.find("hc_") != std::string::npos &&
           (tensor.name.ends_with("_base.weight") || tensor.name.ends_with("_scale.weight"))) ||
          (!is_mamba && (tensor.name.ends_with("ssm_dt.bias") || tensor.name.ends_with("ssm_a") ||
                         tensor.name.ends_with("ssm_d")));
      if (is_on_host) n_bytes += tensor.n_bytes;
    }
    return n_bytes;
  }

  EngineOptions options;
  MemorySource source;
  std::unique_ptr<Backend> backend;
  std::optional<Footprint> footprint;
  MemoryPlan plan;
};

TEST(Footprint, weights_are_known_to_the_byte_before_one_is_read) {
  for (const std::string& family : test_presets()) {
    for (const char* type : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
      Planned planned(family + ":" + type, {});
      for (const MemorySource::Use& use : planned.source.uses()) EXPECT_EQ(use.n_bytes_read, 0u);
      // With f32 pages, loading computes nothing, so kernels need no memory.
      const auto model =
          Model::load(planned.source, *planned.backend, nullptr, {.kv_type = KvType::kF32});
      ASSERT_TRUE(model.has_value());
      EXPECT_EQ((*model)->weight_bytes(), planned.footprint->weights().n_bytes)
          << family << ":" << type;
      EXPECT_EQ(held_bytes(*planned.backend) + planned.host_weight_bytes(),
                planned.footprint->weights().n_bytes)
          << family << ":" << type;
      EXPECT_EQ((*model)->weight_kinds(), planned.footprint->weights().kinds);
    }
  }
}

// A tied embedding has no second copy for the output matrix.
TEST(Footprint, a_tied_embedding_is_held_once) {
  Planned tied("test-gemma3:f32", {});
  uint64_t file_bytes = 0;
  for (const TensorInfo& tensor : tied.source.tensors()) {
    EXPECT_NE(tensor.name, "output.weight");
    file_bytes += tensor.n_bytes;
  }
  const auto model = Model::load(tied.source, *tied.backend, nullptr, {.kv_type = KvType::kF32});
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(&(*model)->head(), &(*model)->embedding());
  // Panels are padded to 32 columns, which adds a few percent; a second embedding of 260 x 64 would
  // be larger.
  const uint64_t embedding_bytes = uint64_t{260} * 64 * sizeof(float);
  EXPECT_LT(held_bytes(*tied.backend), file_bytes + embedding_bytes);
}

class EngineMemory : public testing::TestWithParam<const char*> {};

// The engine's backend holds the planned memory for weights, pages, decoder and kernels, and no
// step allocates more.
TEST_P(EngineMemory, is_what_the_plan_says_and_does_not_grow) {
  for (const KvType type : kAllKvTypes) {
    Planned planned(GetParam(), {.kv_budget_bytes = uint64_t{3} << 20,
                                 .kv_type = type,
                                 .n_ctx_max = 1500,
                                 .max_step_tokens = 128,
                                 .max_running = 8});
    auto model = Model::load(planned.source, *planned.backend, nullptr);
    ASSERT_TRUE(model.has_value());
    const TickingClock clock;
    auto engine = Engine::create(std::move(*model), *planned.backend, planned.options, clock);
    ASSERT_TRUE(engine.has_value());
    const uint64_t after_start = held_bytes(*planned.backend);
    // In addition to the logits, the host holds a hidden state, the RoPE tables, the routes to
    // experts and the statistics of K, which belong to the decoder and not to the backend.
    const uint64_t on_host =
        planned.host_weight_bytes() +
        (is_quantized(type) ? KeyStatistics::bytes(planned.footprint->config()) : 0) +
        (uint64_t{32} * planned.footprint->config().n_vocab +
         planned.footprint->config().model_dim) *
            sizeof(float) +
        RopeTables::bytes(planned.footprint->config(), 128) / 2 +
        uint64_t{128} * sizeof(float) +  // attention temperature of each row
        (planned.footprint->config().experts()
             ? ExpertRouter::buffer_bytes(*planned.footprint->config().experts(), 128)
             : 0);
    EXPECT_EQ(after_start, planned.plan.weights_bytes + planned.plan.kv_bytes +
                               part_of(planned.plan, "decoder") - on_host +
                               part_of(planned.plan, "kernels"));

    uint64_t id = 0;
    for (const uint32_t n_tokens : {1u, 40u, 1100u, 300u, 300u, 300u}) {
      Request request = greedy_request(some_tokens(n_tokens, n_tokens), 20);
      if (n_tokens == 40) request.logits = Request::Logits::kAll;
      if (n_tokens == 300) request.wants = Request::Wants::kHiddenStates;
      if (!(*engine)->check(request)) continue;  // a budget of f32 pages holds fewer tokens
      (*engine)->submit(RequestId{++id}, std::move(request), std::make_shared<RecordingSink>());
    }
    while ((*engine)->step()) {
    }
    EXPECT_GE(id, 4u);
    EXPECT_EQ(held_bytes(*planned.backend), after_start) << name_of(type);
  }
}

INSTANTIATE_TEST_SUITE_P(OfPresets, EngineMemory,
                         testing::Values("test-llama:q4_0", "test-mqa:f32", "test-mha:bf16",
                                         "test-qwen3:q8_0", "test-gemma2:f16", "test-qwen3moe:q4_0",
                                         "test-qwen2moe:f32", "test-phi3:q8_0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST(Footprint, pages_are_the_whole_ones_that_the_budget_holds) {
  Planned planned("test-llama:f32", {.kv_budget_bytes = 100'000, .kv_type = KvType::kF32});
  const uint64_t page_bytes = uint64_t{2} * 2 * 2 * 16 * 4 * kPageTokens;
  EXPECT_EQ(planned.plan.kv_bytes, 100'000 / page_bytes * page_bytes);
  EXPECT_EQ(planned.footprint->kv(KvType::kF32).bytes_at_once(33), 2 * page_bytes);
}

TEST(Footprint, a_table_in_the_file_takes_only_the_rows_of_a_step) {
  const auto backend = make_test_backend();
  for (const char* name : {"test-gemma4-e:q4_0", "test-gemma3n:bf16", "test-qwen4exp:q8_0"}) {
    const auto source =
        std::make_shared<MemorySource>(**make_synthetic(std::string("synthetic:") + name));
    source->leave_tables_in_file();
    const auto footprint = Footprint::of(*source, *backend);
    ASSERT_TRUE(footprint);
    const auto model = Model::load(*source, *backend, nullptr, {.file = source});
    ASSERT_TRUE(model);
    EXPECT_EQ(footprint->weights().n_bytes, (*model)->weight_bytes()) << name;
    const EngineOptions options{.kv_budget_bytes = 1 << 20, .max_step_tokens = 100};
    const auto& ngrams = footprint->config().ngrams;
    const uint64_t n_rows = uint64_t{100} * (ngrams ? ngrams->n_heads() : 1);
    const uint64_t n_cols =
        ngrams ? ngrams->row_dim : footprint->config().n_layers * footprint->config().per_layer_dim;
    EXPECT_EQ(part_of(footprint->plan(options), "rows of tables"),
              RowTable::buffer_bytes(*backend, *footprint->weights().table_in_file, n_rows, n_cols))
        << name;
  }
}

TEST(Footprint, a_type_that_cannot_be_computed_with_is_named) {
  MemorySource source(**make_synthetic("synthetic:test-llama:f32"));
  source.info("blk.1.ffn_up.weight").type = ElementType::kQ8_K;
  const auto backend = make_test_backend();
  const auto footprint = Footprint::of(source, *backend);
  ASSERT_FALSE(footprint.has_value());
  EXPECT_NE(footprint.error().message.find("blk.1.ffn_up.weight"), std::string::npos);
}

// The number of users follows from the memory beyond the fixed part of an engine.
TEST(Footprint, publishing_kv_events_is_a_part_that_grows_with_the_pages) {
  struct Log final : PageLog {
    void on_stored(const Stored&) override {}
    void on_removed(const PageKey&) override {}
    uint64_t bytes_for(uint64_t n_pages) const override { return 1000 + n_pages; }
  } log;
  const EngineOptions options{.kv_budget_bytes = 1 << 20, .kv_type = KvType::kBF16};
  EngineOptions logged = options;
  logged.page_log = &log;
  const Planned without("test-llama", options);
  const Planned with("test-llama", logged);
  const uint64_t n_pages = with.plan.kv_bytes / with.footprint->kv(KvType::kBF16).layout.page_bytes;
  EXPECT_EQ(part_of(with.plan, "KV events"), 1000 + n_pages);
  EXPECT_EQ(with.plan.total_bytes(), without.plan.total_bytes() + 1000 + n_pages);
}

TEST(Footprint, users_fit_until_the_memory_is_full) {
  Planned planned("test-llama:f32", {});
  for (const KvType type : kAllKvTypes) {
    const auto users_in = [&](uint64_t n_bytes) {
      return planned.footprint->users_in(type, 64, n_bytes);
    };
    for (const uint64_t n : {1u, 3u, 1000u}) {
      const uint64_t n_bytes = planned.footprint->plan(type, 64, n).total_bytes();
      EXPECT_EQ(users_in(n_bytes), n);
      EXPECT_EQ(users_in(n_bytes - 1), n - 1);
    }
    EXPECT_EQ(users_in(planned.footprint->plan(type, 64, 0).total_bytes() - 1), 0u);
  }
}

TEST(Footprint, the_longest_context_fits_and_a_page_more_does_not) {
  Planned planned("test-gemma3:q8_0", {});
  const auto bytes_of = [&](uint64_t n_ctx) {
    return planned.footprint->plan(KvType::kInt8, n_ctx, 1).total_bytes();
  };
  const uint64_t memory = bytes_of(2048) + 5000;
  const uint64_t longest = planned.footprint->longest_context(KvType::kInt8, memory);
  EXPECT_GE(longest, 2048u);
  EXPECT_LE(bytes_of(longest), memory);
  EXPECT_GT(bytes_of(longest + kPageTokens), memory);
}

}  // namespace
}  // namespace kvik
