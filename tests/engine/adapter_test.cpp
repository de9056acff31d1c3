// Tests of adapters in the engine: an adapter does not change the answers of other requests, and no
// cached page is shared between adapters.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/random_adapter.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

// A loaded model, with null (no adapter) and two adapters. The adapters use memory of the backend.
// A test moves them into a variable declared after its engine, so that they are destroyed before
// the backend.
struct Adapted {
  explicit Adapted(const std::string& name)
      : tiny(load_tiny(TinyModelOptions{.name = name, .n_threads = 2})) {
    for (const uint32_t seed : {1u, 2u}) {
      add(RandomAdapter(tiny.model->config(), seed, 2 + 3 * seed));
    }
  }
  void add(RandomAdapter source) {
    adapters.push_back(load_random(std::move(source), *tiny.model, *tiny.backend));
  }

  TinyModel tiny;
  std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr};
};

std::vector<std::vector<float>> rows_of(const RecordingSink& sink) {
  std::vector<std::vector<float>> rows;
  for (const auto& [position, row] : sink.logits()) rows.push_back(row);
  return rows;
}

Request request_of(uint32_t i, const std::shared_ptr<const Adapter>& adapter) {
  const auto prompt = some_tokens(40 + 7 * (i % 3), 1 + i % 2);
  Request request = i % 2 == 0 ? greedy_request(prompt, 20) : seeded_request(prompt, 20, i);
  request.logits = Request::Logits::kAll;
  request.adapter = adapter;
  return request;
}

class AdapterExactness : public testing::TestWithParam<const char*> {};

TEST_P(AdapterExactness, other_adapters_in_the_batch_change_nothing) {
  Adapted model(GetParam());
  EngineRig alone({.n_pages = 64, .max_step_tokens = 128}, std::move(model.tiny));
  const auto adapters = std::move(model.adapters);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) requests.push_back(request_of(i, adapters[i % 3]));
  std::vector<std::shared_ptr<RecordingSink>> expected;
  for (const Request& request : requests) expected.push_back(alone.run(request));

  for (const auto& [step_tokens, chunk] : {std::pair{128u, UINT32_MAX}, {9u, 7u}, {33u, 1u}}) {
    SCOPED_TRACE(step_tokens);
    // An adapter is bound to the matrices of one loaded model, so the same engine computes all
    // runs.
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (Request request : requests) {
      request.max_chunk = chunk;
      request.cache = step_tokens == 9 ? Request::Cache::kOff : Request::Cache::kUse;
      sinks.push_back(alone.submit(request));
      alone.engine().step();
    }
    alone.run();
    for (size_t i = 0; i < sinks.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      EXPECT_EQ(sinks[i]->tokens(), expected[i]->tokens());
      const auto want = rows_of(*expected[i]);
      const auto got = rows_of(*sinks[i]);
      ASSERT_EQ(got.size(), want.size());
      for (size_t row = 0; row < got.size(); ++row) EXPECT_TRUE(same_bits(got[row], want[row]));
    }
  }
}

TEST_P(AdapterExactness, an_adapter_changes_the_answer) {
  Adapted model(GetParam());
  EngineRig rig({}, std::move(model.tiny));
  const auto adapters = std::move(model.adapters);
  std::set<std::vector<float>> last_rows;
  for (const auto& adapter : adapters) {
    Request request = request_of(0, adapter);
    request.max_tokens = 1;
    last_rows.insert(rows_of(*rig.run(request)).back());
  }
  EXPECT_EQ(last_rows.size(), adapters.size());
}

INSTANTIATE_TEST_SUITE_P(all, AdapterExactness,
                         testing::Values("test-llama:f32", "test-qwen2:q8_0", "test-gemma2:q4_0",
                                         "test-qwen2moe:q8_0", "test-gptoss:f32", "test-mla:f32",
                                         "test-qwen35:f32", "test-qwen3next:q8_0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '-' || c == ':') c = '_';
                           }
                           return name;
                         });

// Compares the cache with a simple model: the token lists that the requests of each adapter have
// left in it.
TEST(AdapterCache, no_prefix_is_shared_between_adapters) {
  Adapted model("test-llama:f32");
  // This adapter does not change K or V, so it shares the model's pages.
  const uint32_t last = model.tiny.model->config().n_layers - 1;
  model.add(RandomAdapter(model.tiny.model->config(), 9, 2, [&](TensorId id) {
    return id.role == TensorRole::kHead || (id.role == TensorRole::kDown && id.layer == last);
  }));
  const auto owner_of = [](size_t adapter) { return adapter == 3 ? 0 : adapter; };
  EngineRig rig({.n_pages = 4096, .speculation = kNoSpeculation}, std::move(model.tiny));
  const auto adapters = std::move(model.adapters);
  std::map<size_t, std::vector<std::vector<TokenId>>> left;  // by owner of the pages
  std::mt19937 random(5);
  uint32_t n_found = 0;
  for (uint32_t i = 0; i < 120; ++i) {
    const size_t adapter = random() % adapters.size();
    auto prompt = some_tokens(40 + random() % 60, 1 + random() % 3);
    if (random() % 2 == 0) prompt[20 + random() % 20] = 7;
    Request request = greedy_request(prompt, 2);
    request.adapter = adapters[adapter];
    const auto sink = rig.run(request);
    size_t known = 0;
    for (const auto& tokens : left[owner_of(adapter)]) {
      const auto differ = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
      known = std::max(known, static_cast<size_t>(differ.first - tokens.begin()));
    }
    known = std::min(known, prompt.size() - 1);  // the last token is always computed
    EXPECT_EQ(sink->usage().cached_tokens, known) << "request " << i << ", adapter " << adapter;
    n_found += sink->usage().cached_tokens > 0;
    prompt.push_back(sink->tokens().front());
    left[owner_of(adapter)].push_back(std::move(prompt));
  }
  EXPECT_GT(n_found, 60u);
}

// The same for a recurrent model. The number of cached tokens depends on the positions of
// snapshots, but it never exceeds what requests of the same adapter left, and no state of another
// adapter is used.
TEST(AdapterCache, no_snapshot_is_shared_between_adapters) {
  Adapted model("test-qwen35:f32");
  EngineRig rig({.n_pages = 4096}, std::move(model.tiny));
  const auto adapters = std::move(model.adapters);
  std::map<size_t, std::vector<std::vector<TokenId>>> left;
  std::mt19937 random(5);
  uint32_t n_found = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    const size_t adapter = random() % adapters.size();
    auto prompt = some_tokens(40 + random() % 60, 1 + random() % 2);
    if (random() % 2 == 0) prompt[20 + random() % 20] = 7;
    Request request = greedy_request(prompt, 4);
    request.adapter = adapters[adapter];
    request.logits = Request::Logits::kLast;
    const auto sink = rig.run(request);
    size_t known = 0;
    for (const auto& tokens : left[adapter]) {
      const auto differ = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
      known = std::max(known, static_cast<size_t>(differ.first - tokens.begin()));
    }
    EXPECT_LE(sink->usage().cached_tokens, known);
    n_found += sink->usage().cached_tokens > 0;
    request.cache = Request::Cache::kOff;
    const auto cold = rig.run(request);
    EXPECT_EQ(sink->tokens(), cold->tokens());
    EXPECT_TRUE(same_bits(rows_of(*sink).back(), rows_of(*cold).back()));
    prompt.push_back(sink->tokens().front());
    left[adapter].push_back(std::move(prompt));
  }
  EXPECT_GT(n_found, 10u);
}

TEST(AdapterCache, salts_separate_the_pages_of_one_adapter) {
  Adapted model("test-llama:f32");
  EngineRig rig({}, std::move(model.tiny));
  const auto adapters = std::move(model.adapters);
  Request request = greedy_request(some_tokens(70), 2);
  request.adapter = adapters[1];
  request.cache_salt = "one";
  rig.run(request);
  EXPECT_GT(rig.run(request)->usage().cached_tokens, 0u);
  request.cache_salt = "other";
  EXPECT_EQ(rig.run(request)->usage().cached_tokens, 0u);
}

TEST(AdapterCache, an_unloaded_adapter_lives_until_its_request_ends) {
  Adapted model("test-llama:f32");
  EngineRig rig({}, std::move(model.tiny));
  auto adapters = std::move(model.adapters);
  const std::weak_ptr<const Adapter> watched = adapters[1];
  Request request = greedy_request(some_tokens(30), 5);
  request.adapter = std::move(adapters[1]);
  const auto sink = rig.submit(std::move(request));
  EXPECT_FALSE(watched.expired());
  rig.run();
  EXPECT_EQ(sink->tokens().size(), 5u);
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace kvik
