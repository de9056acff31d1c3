#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "engine/scheduler_rig.h"
#include "engine/speculate/drafter.h"

// Runs drafts of random length and acceptance through the scheduler and its pages, and compares the
// cached prefixes with a plain list of all accepted tokens.
namespace kvik {
namespace {

constexpr TokenId kWrong = 1'000'000;

class RandomDrafter final : public Drafter {
 public:
  explicit RandomDrafter(std::mt19937& random) : random_(random) {}
  void propose(Sequence&, uint32_t n_max, Draft& draft) override {
    const uint32_t n = random_() % (n_max + 1);
    const uint32_t n_right = random_() % 3 == 0 ? n : random_() % 8;
    for (uint32_t i = 0; i < n; ++i)
      draft.push_back({i < n_right ? Rig::kAnswer : kWrong, {DraftSource::kModel, 7}});
  }

 private:
  std::mt19937& random_;
};

// Records all accepted tokens of each sequence, by its first token, which is unique, and the
// largest number of them that had K and V.
class PlainModel {
 public:
  void note(const Sequence& sequence) {
    Known& known = known_[sequence.tokens.front()];
    if (sequence.tokens.size() > known.tokens.size()) known.tokens = sequence.tokens;
    known.n_cached = std::max(known.n_cached, sequence.n_cached);
  }

  // Checks that every page of the prefix index holds accepted tokens and follows accepted tokens.
  void check(Rig& rig) const {
    const KvCache& kv = rig.kv();
    for (uint32_t page = 0; page < kv.n_pages(); ++page) {
      const PrefixNode* node = kv.pages().index().node_with(PageId{page});
      if (!node) continue;
      std::vector<TokenId> path;
      for (; node->parent; node = node->parent)
        path.insert(path.begin(), node->tokens.begin(), node->tokens.end());
      const auto known = known_.find(path.front());
      ASSERT_NE(known, known_.end());
      const auto& tokens = known->second.tokens;
      ASSERT_LE(path.size(), known->second.n_cached) << "never had K and V";
      ASSERT_TRUE(std::equal(path.begin(), path.end(), tokens.begin())) << "a rejected draft token";
    }
  }

 private:
  struct Known {
    std::vector<TokenId> tokens;
    uint32_t n_cached = 0;
  };
  std::map<TokenId, Known> known_;
};

void check_plan(Rig& rig, const StepPlan& plan) {
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    const auto n_draft = static_cast<uint32_t>(sequence->speculation.draft.size());
    EXPECT_LE(n_new, sequence->n_pending() + n_draft);
    EXPECT_GE(sequence->table.n_tokens_max(), sequence->n_cached + n_new);
    if (n_draft == 0) continue;
    EXPECT_TRUE(sequence->is_decoding());
    EXPECT_EQ(n_new, 1 + n_draft);
    EXPECT_EQ(n_wanted, 1 + n_draft);
    EXPECT_LT(sequence->n_generated() + n_draft, sequence->request.max_tokens);
  }
  const PageCounts& pages = rig.pages();
  EXPECT_EQ(pages.total(), rig.kv().n_pages());
}

void run_seed(uint32_t seed, uint64_t& n_operations, uint64_t& n_drafted) {
  std::mt19937 numbers(seed);
  const auto random = [&numbers] { return static_cast<uint32_t>(numbers()); };
  RandomDrafter drafter(numbers);
  const uint32_t n_pages = 3 + random() % 20;
  const uint32_t n_running = 1 + random() % 8;
  SchedulerOptions options{
      .max_step_tokens = n_running + random() % 80,
      .max_running = n_running,
      .speculation = {.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}};
  if (random() % 2 == 0) options.itl_target = from_ms(1 + random() % 60);
  Rig rig(n_pages, options);
  PlainModel model;
  rig.cost_ms = [&](const StepWork& work) { return 5 + 1.0 * work.n_rows + random() % 5; };
  rig.on_plan = [&](const StepPlan& plan) {
    check_plan(rig, plan);
    for (const auto& entry : plan.entries) n_drafted += entry.sequence->speculation.draft.size();
  };
  // Called before the commit: the accepted tokens will have K and V after it.
  rig.on_sampled = [&](const StepPlan& plan, std::vector<uint32_t>& accepted) {
    for (size_t i = 0; i < accepted.size(); ++i) {
      Sequence& sequence = *plan.entries[i].sequence;
      const uint32_t n_cached = sequence.n_cached;
      sequence.n_cached += accepted[i];
      model.note(sequence);
      sequence.n_cached = n_cached;
    }
  };
  for (int i = 0; i < 500; ++i) {
    n_operations += 2;
    if (rig.alive().size() < 10 && random() % 3 == 0) {
      const uint32_t n_max = n_pages * kPageTokens;
      const uint32_t n_prompt = 1 + random() % (n_max - 1);
      rig.add({.n_prompt = n_prompt,
               .max_tokens = 1 + random() % std::min(150u, n_max - n_prompt),
               .cache = random() % 8 == 0 ? Request::Cache::kOff : Request::Cache::kUse});
    }
    if (!rig.alive().empty() && random() % 30 == 0)
      rig.remove(rig.alive()[random() % rig.alive().size()]);
    if (!rig.alive().empty()) rig.step();
    if (i % 5 == 0) model.check(rig);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
  }
  while (!rig.alive().empty()) rig.remove(rig.alive().front());
  model.check(rig);
  EXPECT_EQ(rig.n_pages_held(), 0u);
}

TEST(Drafts, random_operations_cache_no_rejected_tokens) {
  uint64_t n_operations = 0, n_drafted = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    run_seed(seed, n_operations, n_drafted);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(n_operations, 100'000u);
  EXPECT_GT(n_drafted, 50'000u);
}

}  // namespace
}  // namespace kvik
