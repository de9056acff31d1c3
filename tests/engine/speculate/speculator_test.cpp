#include "engine/speculate/speculator.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/scheduler_rig.h"

// Measures the gain of speculation on a simulated machine, and checks that it never costs more than
// it saves.
namespace kvik {
namespace {

// The time of a step on two cores with tinyllama-1.1b in Q4_0: a few rows cost little more than
// one.
double actual_ms(uint32_t n_rows) {
  return 18 + 0.9 * std::min(n_rows - 1, 7u) + 2.0 * (std::max(n_rows, 8u) - 8);
}

// Returns tokens that never repeat, so that other drafters propose nothing.
TokenId answer_at(size_t at) { return 1000 + static_cast<TokenId>(at * 2654435761u % 1'000'003); }

// Proposes tokens that are right with a fixed probability, independently of each other.
class EvenDrafter final : public Drafter {
 public:
  EvenDrafter(double share, std::mt19937& random) : share_(share), random_(random) {}
  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override {
    for (uint32_t i = 0; i < n_max; ++i) {
      const bool is_right = std::uniform_real_distribution(0.0, 1.0)(random_) < share_;
      draft.push_back(
          {is_right ? answer_at(sequence.tokens.size() + i) : 7, {DraftSource::kModel, 3}});
    }
  }

 private:
  double share_;
  std::mt19937& random_;
};

// Records for how many tokens a model is asked.
class AskedDrafter final : public Drafter {
 public:
  void begin_step(std::span<Sequence* const> sequences, uint32_t n_max) override {
    EXPECT_EQ(sequences.size(), 1u);
    asked.push_back(n_max);
  }
  void propose(Sequence&, uint32_t, Draft&) override {}

  std::vector<uint32_t> asked;
};

struct Simulation {
  SpeculationOptions::Mode mode = SpeculationOptions::Mode::kAuto;
  double share = 0;  // acceptance rate of draft tokens
  uint32_t n_users = 1;
  uint32_t n_without = 0;  // further users without speculation
  uint32_t n_steps = 400;
  uint32_t seed = 1;
};

struct Outcome {
  double tokens_per_s = 0;
  double drafted_per_step = 0;
  double longest_ms = 0;  // longest step, without noise
};

// Simulates steps that take actual_ms(), a few percent more or less, and now and then three times
// as long.
Outcome simulate(const Simulation& s) {
  std::mt19937 random(s.seed);
  std::normal_distribution<double> noise(1, 0.05);
  EvenDrafter drafter(s.share, random);
  Rig rig(4096, {.speculation = {.mode = s.mode, .drafter = &drafter}});
  rig.answer = answer_at;
  double ms = 0, longest_ms = 0;
  uint64_t n_drafted = 0, n_tokens = 0;
  rig.cost_ms = [&](const StepWork& work) {
    const double taken = actual_ms(work.n_rows) * noise(random) * (random() % 100 == 0 ? 3 : 1);
    ms += taken;
    longest_ms = std::max(longest_ms, actual_ms(work.n_rows));
    return taken;
  };
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& entry : plan.entries) n_drafted += entry.sequence->speculation.draft.size();
  };
  for (uint32_t i = 0; i < s.n_users; ++i) rig.add({.n_prompt = 1, .max_tokens = 100'000});
  for (uint32_t i = 0; i < s.n_without; ++i) {
    rig.add({.n_prompt = 1, .max_tokens = 100'000, .speculate = Request::Speculate::kOff});
  }
  rig.step();
  ms = longest_ms = 0;
  for (const Sequence* sequence : rig.alive()) n_tokens -= sequence->n_generated();
  for (uint32_t i = 0; i < s.n_steps; ++i) rig.step();
  for (const Sequence* sequence : rig.alive()) n_tokens += sequence->n_generated();
  return {1e3 * static_cast<double>(n_tokens) / ms,
          static_cast<double>(n_drafted) / s.n_steps / s.n_users, longest_ms};
}

double gain(const Simulation& s) {
  Simulation off = s;
  off.mode = SpeculationOptions::Mode::kOff;
  return simulate(s).tokens_per_s / simulate(off).tokens_per_s;
}

// Returns the mean of several runs. A single run of 400 steps is uncertain by a percent.
double mean_gain(Simulation s) {
  double sum = 0;
  for (s.seed = 1; s.seed <= 5; ++s.seed) sum += gain(s);
  return sum / 5;
}

TEST(Speculator, never_costs_more_than_three_percent) {
  for (const uint32_t n_users : {1u, 2u, 4u, 8u, 16u, 40u}) {
    for (const double share : {0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8}) {
      EXPECT_GT(mean_gain({.share = share, .n_users = n_users}), 0.97)
          << n_users << " users, " << share << " of the draft tokens are accepted";
    }
  }
}

TEST(Speculator, accepted_drafts_make_an_answer_much_faster) {
  EXPECT_GT(mean_gain({.share = 0.6}), 1.6);
  EXPECT_GT(mean_gain({.share = 0.95}), 4);
  EXPECT_GT(mean_gain({.share = 0.95, .n_users = 4}), 1.5);
}

TEST(Speculator, rejected_drafts_are_soon_not_computed) {
  EXPECT_LT(simulate({.share = 0}).drafted_per_step, 0.2);
  EXPECT_GT(simulate({.share = 0.95}).drafted_per_step, 5);
}

// On this machine sixteen rows take 40 ms and one takes 18 ms.
TEST(Speculator, no_step_takes_much_more_than_twice_its_time) {
  for (const double share : {0.95, 1.0}) {
    EXPECT_LT(simulate({.share = share}).longest_ms, 2.15 * actual_ms(1));
    EXPECT_LT(simulate({.share = share, .n_users = 3}).longest_ms, 2.15 * actual_ms(3));
  }
}

TEST(Speculator, drafts_slow_other_sequences_by_a_quarter_at_most) {
  for (const uint32_t n_without : {1u, 2u}) {
    const Outcome outcome = simulate({.share = 1, .n_users = 2, .n_without = n_without});
    EXPECT_LT(outcome.longest_ms, 1.3 * actual_ms(2 + n_without));
    EXPECT_GT(outcome.drafted_per_step, 0.5);
  }
}

TEST(Speculator, a_full_step_has_no_drafts) {
  EXPECT_LT(simulate({.share = 0.5, .n_users = 60}).drafted_per_step, 0.3);
}

// Each of these tokens takes a forward pass of the model.
TEST(Speculator, a_model_drafts_no_token_that_cannot_be_verified) {
  AskedDrafter drafter;
  Rig rig(4096, {.speculation = {
                     .mode = SpeculationOptions::Mode::kAlways, .n_max = 3, .drafter = &drafter}});
  rig.answer = answer_at;
  rig.add({.n_prompt = 1, .max_tokens = 7});
  while (!rig.alive().empty()) rig.step();
  // The first token needs no draft, and the last one has none.
  EXPECT_EQ(drafter.asked, (std::vector<uint32_t>{3, 3, 3, 2, 1}));
}

}  // namespace
}  // namespace kvik
