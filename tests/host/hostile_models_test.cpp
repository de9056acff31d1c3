#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "host/footprint.h"
#include "support/memory_source.h"
#include "support/test_presets.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

const std::vector<Metadata::Value> kHostileValues = {
    uint64_t{0},
    uint64_t{1},
    uint64_t{3},
    uint64_t{64},
    uint64_t{1023},
    uint64_t{1} << 20,
    uint64_t{1} << 31,
    uint64_t{1} << 42,
    uint64_t{1} << 63,
    std::numeric_limits<uint64_t>::max(),
    int64_t{-1},
    0.0,
    -1.0,
    1e-45,
    1e-30,
    1e30,
    1e300,
    std::numeric_limits<double>::quiet_NaN(),
    std::numeric_limits<double>::infinity(),
    std::string("yarn"),
    std::string("llama3"),
    std::string(),
    std::vector<uint64_t>{1, 2, 3},
    true,
};

// Whatever the values of a file's keys, planning and loading give a model or one sentence.
TEST(HostileModels, keys_with_any_value_are_an_error_or_a_model) {
  std::mt19937 random(1);
  uint32_t n_refused = 0, n_loaded = 0;
  for (const std::string& family : test_presets()) {
    const auto original = *make_synthetic("synthetic:" + family + ":q4_0");
    std::vector<std::string> keys;
    for (const auto& [key, value] : original->metadata().values()) {
      if (!key.starts_with("general.") && !key.starts_with("tokenizer.")) keys.push_back(key);
    }
    const std::string prefix = keys.front().substr(0, keys.front().find('.'));
    for (const char* more :
         {"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
          "rope.scaling.low_freq_factor", "expert_count", "expert_used_count",
          "expert_weights_scale", "expert_gating_func", "attention.sliding_window"}) {
      keys.push_back(prefix + "." + more);
    }
    const auto backend = make_test_backend();
    for (uint32_t round = 0; round < 60; ++round) {
      MemorySource source(*original);
      for (uint32_t n = 1 + random() % 3; n > 0; --n) {
        source.set(keys[random() % keys.size()], kHostileValues[random() % kHostileValues.size()]);
      }
      const auto config = read_config(source.metadata());
      if (config) {
        const auto footprint = Footprint::of(source, *backend);
        ASSERT_TRUE(footprint.has_value());
        EXPECT_GT(footprint->plan({}).total_bytes(), 0u);
      }
      const auto model = Model::load(source, *backend, nullptr);
      ++(model ? n_loaded : n_refused);
      EXPECT_TRUE(model || !model.error().message.empty());
    }
  }
  EXPECT_GT(n_refused, 120u);
  EXPECT_GT(n_loaded, 20u);
}

}  // namespace
}  // namespace kvik
