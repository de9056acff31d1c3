#include "host/memory_choice.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/kv_budget.h"
#include "format/synthetic/synthetic.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// Models of several kinds with trained contexts of 8k to 256k.
constexpr const char* kModels[] = {"llama-3.1-8b:q4_k_m", "gemma3-4b:q4_k_m", "qwen3-8b:q4_k_m",
                                   "qwen3.6-35b-a3b:q4_k_m", "gpt-oss-20b:mxfp4"};

// A model of which only the tensor table is read.
struct ModelToFit {
  explicit ModelToFit(const std::string& spec, KvType type = KvType::kInt8)
      : backend(make_test_backend(2)), source(*make_synthetic("synthetic:" + spec)) {
    footprint.emplace(*Footprint::of(*source, *backend));
    options.kv_type = type;
  }

  MemoryChoice choose(const MemoryRequest& requested, const MemoryState& memory) const {
    return choose_memory(*footprint, options, requested, memory);
  }

  uint64_t total(const MemoryChoice& choice) const {
    EngineOptions chosen = options;
    chosen.n_ctx_max = static_cast<uint32_t>(choice.n_ctx);
    chosen.kv_budget_bytes = choice.kv_bytes;
    return footprint->plan(chosen).total_bytes();
  }

  // Returns the longest sequence that an engine with this budget could run.
  uint64_t kv_tokens(const MemoryChoice& choice, const ModelConfig* draft = nullptr) const {
    EngineOptions chosen = options;
    chosen.n_ctx_max = static_cast<uint32_t>(choice.n_ctx);
    chosen.kv_budget_bytes = choice.kv_bytes;
    const auto budget = divide_kv_budget(footprint->config(), draft, *backend, chosen);
    return budget ? budget->kv_tokens : 0;
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<ModelSource> source;
  std::optional<Footprint> footprint;
  EngineOptions options;
};

TEST(MemoryChoice, fits_and_its_cache_holds_its_context) {
  for (const char* name : kModels) {
    for (const KvType type : {KvType::kInt8, KvType::kBF16, KvType::kInt4}) {
      const ModelToFit model(name, type);
      const uint64_t n_ctx_train = model.footprint->config().n_ctx_train;
      uint64_t n_ctx_before = 0;
      for (const uint64_t n_gib : {32, 40, 48, 64, 96, 160, 512}) {
        const MemoryState memory = idle_machine(n_gib * kGiB);
        const MemoryChoice choice = model.choose({}, memory);
        EXPECT_LE(model.total(choice), memory.usable_bytes()) << name << " in " << n_gib << " GiB";
        EXPECT_GE(model.kv_tokens(choice), choice.n_ctx) << name << " in " << n_gib << " GiB";
        EXPECT_GE(choice.n_ctx, n_ctx_before) << name;
        EXPECT_LE(choice.n_ctx, n_ctx_train) << name;
        n_ctx_before = choice.n_ctx;
      }
      EXPECT_EQ(n_ctx_before, n_ctx_train) << name;
    }
  }
}

TEST(MemoryChoice, context_is_the_largest_that_fits) {
  const ModelToFit model("llama-3.1-8b:q4_k_m");
  const MemoryState memory = idle_machine(16 * kGiB);
  const MemoryChoice choice = model.choose({}, memory);
  ASSERT_LT(choice.n_ctx, model.footprint->config().n_ctx_train);
  EXPECT_EQ(choice.n_ctx % 1024, 0u);
  // With that memory and no reserve, a longer context is cut.
  const MemoryState usable{.all_bytes = 0, .free_bytes = memory.usable_bytes()};
  MemoryRequest requested;
  requested.n_ctx = choice.n_ctx;
  EXPECT_GE(model.kv_tokens(model.choose(requested, usable)), *requested.n_ctx);
  requested.n_ctx = choice.n_ctx + 1024;
  EXPECT_LT(model.kv_tokens(model.choose(requested, usable)), *requested.n_ctx);
}

TEST(MemoryChoice, cache_holds_two_contexts_where_there_is_room) {
  const ModelToFit model("llama-3.1-8b:q4_k_m");
  const MemoryChoice choice = model.choose({}, idle_machine(256 * kGiB));
  EXPECT_EQ(
      choice.kv_bytes,
      model.footprint->kv(KvType::kInt8).budget(choice.n_ctx, 2, {}, model.options.max_running));
}

TEST(MemoryChoice, small_model_gets_4_gib_and_no_more) {
  const ModelToFit model("test-llama:f32");
  EXPECT_EQ(model.choose({}, idle_machine(256 * kGiB)).kv_bytes, 4 * kGiB);
  const MemoryState small = idle_machine(2 * kGiB);
  const MemoryChoice choice = model.choose({}, small);
  EXPECT_LE(model.total(choice), small.usable_bytes());
  EXPECT_GT(choice.kv_bytes, kGiB / 2);
}

TEST(MemoryChoice, memory_in_use_by_others_counts) {
  const ModelToFit model("llama-3.1-8b:q4_k_m");
  const MemoryChoice idle = model.choose({}, idle_machine(32 * kGiB));
  const MemoryChoice busy = model.choose({}, {.all_bytes = 32 * kGiB, .free_bytes = 15 * kGiB});
  EXPECT_LT(busy.n_ctx, idle.n_ctx);
  EXPECT_LE(model.total(busy), 7 * kGiB);
}

TEST(MemoryChoice, given_numbers_are_not_changed) {
  const ModelToFit model("llama-3.1-8b:q4_k_m");
  const MemoryState memory = idle_machine(32 * kGiB);
  MemoryRequest requested;
  requested.kv_bytes = 777 * kMiB;
  EXPECT_EQ(model.choose(requested, memory).kv_bytes, 777 * kMiB);
  EXPECT_EQ(model.choose(requested, memory).n_ctx, model.footprint->config().n_ctx_train);
  requested.kv_bytes.reset();
  requested.n_ctx = 10'000;
  const MemoryChoice choice = model.choose(requested, memory);
  EXPECT_EQ(choice.n_ctx, 10'000u);
  EXPECT_EQ(choice.kv_bytes, 4 * kGiB);
}

// The user's context may use memory that an automatic one leaves to others.
TEST(MemoryChoice, given_context_may_use_the_reserve) {
  const ModelToFit model("llama-3.1-8b:q4_k_m");
  const MemoryState memory = idle_machine(16 * kGiB);
  MemoryRequest requested;
  requested.n_ctx = model.choose({}, memory).n_ctx + 20 * 1024;
  const MemoryChoice choice = model.choose(requested, memory);
  EXPECT_GT(model.total(choice), memory.usable_bytes());
  EXPECT_LE(model.total(choice), memory.free_bytes);
  EXPECT_GE(model.kv_tokens(choice), *requested.n_ctx);
}

TEST(MemoryChoice, model_that_does_not_fit_gets_a_small_context) {
  const ModelToFit model("llama-3.1-70b:q4_k_m");
  const MemoryChoice choice = model.choose({}, idle_machine(8 * kGiB));
  EXPECT_EQ(choice.n_ctx, 4096u);
  EXPECT_GE(model.kv_tokens(choice), 4096u);
  EXPECT_LT(choice.kv_bytes, kGiB);
}

TEST(MemoryChoice, adapters_and_draft_models_take_their_part) {
  const ModelToFit model("llama-3.1-8b:q4_k_m"), draft("llama-3.1-8b:q4_k_m");
  const MemoryState memory = idle_machine(24 * kGiB);
  MemoryRequest requested;
  requested.adapter_bytes = 2 * kGiB;
  const MemoryChoice with_adapters = model.choose(requested, memory);
  EXPECT_LE(model.total(with_adapters) + requested.adapter_bytes, memory.usable_bytes());
  requested.draft_bytes = draft.footprint->weights().n_bytes;
  requested.draft_page_bytes = draft.footprint->kv(KvType::kInt8).page_bytes();
  const MemoryChoice with_draft = model.choose(requested, memory);
  EXPECT_LT(with_draft.n_ctx, with_adapters.n_ctx);
  EXPECT_GE(model.kv_tokens(with_draft, &draft.footprint->config()), with_draft.n_ctx);
}

TEST(MemoryChoice, sentence_names_the_memory_and_the_flags) {
  const MemoryChoice choice{.n_ctx = 40960, .kv_bytes = 5 * kGiB};
  const MemoryState memory{.all_bytes = 16 * kGiB, .free_bytes = 12 * kGiB};
  MemoryRequest requested;
  EXPECT_EQ(describe(choice, requested, memory, 131072),
            "chosen: context 40960 of 131072 and KV cache 5.00 GiB, from 12.00 GiB free memory of "
            "which 4.00 GiB stay free for other programs; --ctx and --kv-memory change it");
  requested.n_ctx = 40960;
  EXPECT_EQ(describe(choice, requested, memory, 131072),
            "chosen: KV cache 5.00 GiB, from 12.00 GiB free memory of which 4.00 GiB stay free for "
            "other programs; --kv-memory changes it");
}

}  // namespace
}  // namespace kvik
