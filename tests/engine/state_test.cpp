#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "support/temporary_folder.h"
#include "support/tiny_engine.h"
#include "tier/disk_tier.h"

// Recurrent models: wherever a sequence resumes, its answer is the same as if it had been computed
// alone from its first token, without the cache.
namespace kvik {
namespace {

TinyEngineOptions options_for(const std::string& model, uint32_t n_pages = 1200) {
  return {.model = {.name = model + ":f32"}, .n_pages = n_pages, .kv_type = KvType::kF32};
}

Request request_of(std::vector<TokenId> prompt, uint32_t max_tokens = 12) {
  Request request = greedy_request(std::move(prompt), max_tokens);
  request.logits = Request::Logits::kLast;
  return request;
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class State : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<RecordingSink> alone(Request request) {
    request.cache = Request::Cache::kOff;
    EngineRig rig(options_for(GetParam()));
    return rig.run(std::move(request));
  }
  // Runs a request on a new engine with a disk tier, as after a restart.
  std::shared_ptr<RecordingSink> run_with_disk(const TemporaryFolder& folder, Request request) {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 64 << 20});
    CHECK(tier.has_value());
    TinyEngineOptions options = options_for(GetParam());
    options.tiers = {{TierKind::kDisk, tier->get()}};
    EngineRig rig(options);
    auto sink = rig.submit(std::move(request));
    while (!sink->is_finished()) {
      if (!rig.engine().step()) rig.engine().wait_for_tier(std::chrono::milliseconds(20));
    }
    return sink;
  }
  void expect_same(const RecordingSink& got, const RecordingSink& want) {
    EXPECT_EQ(got.tokens(), want.tokens());
    const auto a = got.logits(), b = want.logits();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].first, b[i].first);
      EXPECT_TRUE(same_bits(a[i].second, b[i].second)) << "row " << i;
    }
  }
};

TEST_P(State, chunks_and_company_move_no_bit) {
  const auto prompt = some_tokens(101, 3);
  const auto want = alone(request_of(prompt));
  for (const uint32_t chunk : {1u, 7u, 32u, 33u, 1000u}) {
    EngineRig rig(options_for(GetParam()));
    for (uint32_t i = 0; i < 3; ++i) rig.submit(request_of(some_tokens(20 + 31 * i, 10 + i), 30));
    Request request = request_of(prompt);
    request.max_chunk = chunk;
    expect_same(*rig.run(std::move(request)), *want);
  }
}

TEST_P(State, a_prompt_goes_on_where_the_answer_before_it_ended) {
  EngineRig rig(options_for(GetParam()));
  const auto first = rig.run(request_of(some_tokens(100)));
  const auto prompt = joined(joined(some_tokens(100), first->tokens()), some_tokens(40, 2));
  const auto second = rig.run(request_of(prompt));
  EXPECT_EQ(second->usage().cached_tokens, 111u) << "the answer's last token was not computed";
  expect_same(*second, *alone(request_of(prompt)));
}

TEST_P(State, a_repeated_prompt_computes_only_its_last_token) {
  EngineRig rig(options_for(GetParam()));
  rig.run(request_of(some_tokens(100)));
  const auto again = rig.run(request_of(some_tokens(100)));
  EXPECT_EQ(again->usage().cached_tokens, 99u);
  EXPECT_EQ(again->usage().cache.miss, MissReason::kNone);
  expect_same(*again, *alone(request_of(some_tokens(100))));
}

TEST_P(State, what_two_prompts_share_is_found_by_the_third) {
  EngineRig rig(options_for(GetParam()));
  const auto shared = some_tokens(205, 4);
  const auto prompt = [&](uint32_t user) { return joined(shared, some_tokens(50, 100 + user)); };
  rig.run(request_of(prompt(0)));
  const auto second = rig.run(request_of(prompt(1)));
  EXPECT_EQ(second->usage().cached_tokens, 0u);
  EXPECT_EQ(second->usage().cache.miss, MissReason::kNoSnapshot);
  const auto third = rig.run(request_of(prompt(2)));
  EXPECT_EQ(third->usage().cached_tokens, 205u);
  for (uint32_t user = 3; user < 5; ++user) {
    expect_same(*rig.run(request_of(prompt(user))), *alone(request_of(prompt(user))));
  }
}

TEST_P(State, prompts_that_arrive_together_compute_shared_tokens_once) {
  EngineRig rig(options_for(GetParam()));
  const auto shared = some_tokens(300, 4);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t user = 0; user < 4; ++user) {
    sinks.push_back(rig.submit(request_of(joined(shared, some_tokens(20, 100 + user)))));
  }
  rig.run();
  for (uint32_t user = 0; user < 4; ++user) {
    EXPECT_EQ(sinks[user]->usage().cached_tokens, user == 0 ? 0u : 288u) << user << ": whole pages";
    expect_same(*sinks[user], *alone(request_of(joined(shared, some_tokens(20, 100 + user)))));
  }
}

TEST_P(State, a_prompt_resumes_at_the_end_of_a_message) {
  EngineRig rig(options_for(GetParam()));
  Request first = request_of(some_tokens(150));
  first.message_ends = {77};
  rig.run(std::move(first));
  auto prompt = some_tokens(150);
  prompt.resize(77);
  prompt = joined(prompt, some_tokens(30, 9));
  const auto second = rig.run(request_of(prompt));
  EXPECT_EQ(second->usage().cached_tokens, 77u);
  expect_same(*second, *alone(request_of(prompt)));
}

TEST_P(State, preemption_does_not_change_answers) {
  EngineRig rig(options_for(GetParam(), 160));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 6; ++i) sinks.push_back(rig.submit(request_of(some_tokens(90, i), 150)));
  rig.run();
  for (uint32_t i = 0; i < 6; ++i) {
    expect_same(*sinks[i], *alone(request_of(some_tokens(90, i), 150)));
  }
}

// The ends of answers are no longer kept at this point, because no prompt has continued one. With
// the other families no page is free for a snapshot when the sequence is preempted.
TEST_P(State, a_sequence_preempted_in_its_answer_resumes_at_its_state) {
  constexpr uint32_t kPrompt = 90, kAnswer = 1900;
  const std::string_view family = GetParam();
  const bool has_room_for_a_snapshot = family == "test-qwen35" || family == "test-qwen3next";
  uint64_t n_preemptions = 0;
  for (uint32_t n_pages = 180; n_preemptions == 0 && n_pages >= 10; n_pages -= 10) {
    TinyEngineOptions options = options_for(GetParam(), n_pages);
    options.speculation = kNoSpeculation;
    EngineRig rig(options);
    for (uint32_t i = 0; i < 9; ++i) rig.run(request_of(some_tokens(10, 100 + i), 2));
    if (!rig.engine().check(request_of(some_tokens(kPrompt, 0), kAnswer))) break;
    rig.submit(request_of(some_tokens(kPrompt, 0), kAnswer));
    const RequestId older = rig.last_id();
    Request request = request_of(some_tokens(kPrompt, 1), kAnswer);
    request.max_chunk = 1;
    const auto younger = rig.submit(std::move(request));
    while (rig.engine().snapshot().preemptions == 0 && rig.engine().step()) {
    }
    n_preemptions = rig.engine().snapshot().preemptions;
    if (n_preemptions == 0) continue;
    const size_t n_tokens = younger->tokens().size();
    EXPECT_GT(n_tokens, 0u);
    EXPECT_LT(n_tokens, kAnswer);
    rig.engine().cancel(older);
    const uint64_t n_steps = rig.engine().snapshot().steps;
    rig.run();
    EXPECT_EQ(younger->tokens().size(), kAnswer);
    if (has_room_for_a_snapshot) {
      EXPECT_EQ(rig.engine().snapshot().steps - n_steps, kAnswer - n_tokens)
          << "a row for each token";
    }
    EngineRig large(options_for(GetParam()));
    EXPECT_EQ(younger->tokens(), large.run(request_of(some_tokens(kPrompt, 1), kAnswer))->tokens());
  }
  EXPECT_EQ(n_preemptions, 1u);
}

TEST_P(State, a_budget_without_room_for_snapshots_computes_all_the_same) {
  TinyEngineOptions options = options_for(GetParam(), 40);
  EngineRig rig(options);
  for (uint32_t i = 0; i < 3; ++i) {
    const auto prompt = joined(some_tokens(60), some_tokens(10, i));
    expect_same(*rig.run(request_of(prompt)), *alone(request_of(prompt)));
  }
}

TEST_P(State, a_snapshot_comes_back_from_a_disk) {
  const TemporaryFolder folder;
  const auto prompt = some_tokens(150);
  const auto further = joined(prompt, some_tokens(30, 2));
  run_with_disk(folder, request_of(prompt));
  const auto sink = run_with_disk(folder, request_of(further));
  EXPECT_EQ(sink->usage().cached_tokens, 149u);
  EXPECT_EQ(sink->usage().cache.tier_tokens, 149u);
  expect_same(*sink, *alone(request_of(further)));
}

TEST_P(State, a_damaged_snapshot_on_a_disk_is_a_miss) {
  const TemporaryFolder folder;
  const auto prompt = some_tokens(150);
  const auto further = joined(prompt, some_tokens(30, 2));
  run_with_disk(folder, request_of(prompt));
  uint32_t n_damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".segment") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (uintmax_t at = 0; at < entry.file_size(); at += 256, ++n_damaged) {
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 1));
    }
  }
  ASSERT_GT(n_damaged, 0u);
  const auto sink = run_with_disk(folder, request_of(further));
  EXPECT_EQ(sink->usage().cache.tier_tokens, 0u);
  expect_same(*sink, *alone(request_of(further)));
}

INSTANTIATE_TEST_SUITE_P(Families, State,
                         testing::Values("test-qwen35", "test-qwen35moe", "test-qwen3next",
                                         "test-lfm2", "test-lfm2moe", "test-granitehybrid",
                                         "test-nemotronh", "test-nemotronhmoe", "test-qwen4exp",
                                         "test-deepseek4", "test-glm5next"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvik
