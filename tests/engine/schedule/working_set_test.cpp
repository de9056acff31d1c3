#include "engine/schedule/working_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/scheduler_rig.h"

namespace kvik {
namespace {

constexpr uint32_t kTurnTokens = 32;

// Conversations in a cache of a few pages. A second passes before each request.
class Crowd {
 public:
  explicit Crowd(uint32_t n_pages, uint32_t max_running = 16)
      : rig_(n_pages, {.max_step_tokens = 512, .max_running = max_running}) {
    rig_.cost_ms = [](const StepWork& work) { return 5.0 + work.n_rows; };
  }

  Rig& rig() { return rig_; }
  static std::vector<TokenId> prompt(TokenId conversation, uint32_t n_turns) {
    std::vector<TokenId> tokens;
    for (uint32_t i = 0; i < n_turns * kTurnTokens; ++i) {
      tokens.push_back(1000 * conversation + i);
    }
    tokens.push_back(1000 * conversation + 999);
    return tokens;
  }
  Sequence* send(TokenId conversation, uint32_t n_turns, uint32_t max_tokens = 1) {
    rig_.pass(std::chrono::seconds(1));
    now_ms_ += 1000;
    return rig_.add({.max_tokens = max_tokens,
                     .tenant = tenant,
                     .priority = priority,
                     .submitted_ms = now_ms_,
                     .prompt = prompt(conversation, n_turns)});
  }
  void finish(const Sequence* sequence) {
    while (std::ranges::count(rig_.alive(), sequence) > 0) {
      rig_.step();
      wait(0.1);
    }
  }
  // Teaches that turns follow after 5 s, and leaves four pages of conversation 9.
  void learn() {
    for (int i = 0; i < 40; ++i) {
      wait(4);
      finish(send(9, 3));
    }
  }
  void wait(double s) {
    rig_.pass(from_ms(1e3 * s));
    now_ms_ += 1e3 * s;
  }
  bool runs(const Sequence* sequence) const { return sequence->table.n_pages() > 0; }

  std::string tenant = {};
  int32_t priority = 0;

 private:
  Rig rig_;
  double now_ms_ = 0;
};

TEST(WorkingSet, a_new_conversation_waits_for_pages_that_are_expected_to_be_used) {
  Crowd crowd(10);
  crowd.learn();
  crowd.finish(crowd.send(1, 4));
  Sequence* running = crowd.send(2, 1, 1000);
  crowd.rig().step();
  Sequence* fresh = crowd.send(3, 4);
  crowd.rig().step();
  EXPECT_TRUE(crowd.runs(running));
  EXPECT_FALSE(crowd.runs(fresh)) << "took pages of conversation 1";
  EXPECT_EQ(crowd.rig().scheduler().n_held(), 1u);
  Sequence* next = crowd.send(1, 4, 10);
  crowd.rig().step();
  EXPECT_EQ(next->usage.cached_tokens, 4 * kTurnTokens);
}

TEST(WorkingSet, nothing_is_held_while_the_batch_is_full) {
  Crowd crowd(10, 2);
  crowd.learn();
  crowd.finish(crowd.send(1, 4));
  crowd.send(2, 1, 1000);
  crowd.rig().step();
  Sequence* fresh = crowd.send(3, 4);
  crowd.rig().step();
  EXPECT_EQ(crowd.rig().scheduler().n_held(), 1u);
  crowd.send(1, 4, 10);  // fills the batch of two
  crowd.rig().step();
  EXPECT_FALSE(crowd.runs(fresh));
  EXPECT_EQ(crowd.rig().scheduler().n_held(), 0u) << "it waits for a place";
}

TEST(WorkingSet, pages_unused_for_longer_than_the_usual_pause_are_taken) {
  Crowd crowd(10);
  crowd.learn();
  crowd.finish(crowd.send(1, 4));
  crowd.send(2, 1, 1000);
  crowd.rig().step();
  crowd.wait(20);
  Sequence* fresh = crowd.send(3, 4, 10);
  crowd.rig().step();
  EXPECT_TRUE(crowd.runs(fresh));
}

TEST(WorkingSet, nothing_is_held_while_nothing_runs) {
  Crowd crowd(10);
  crowd.learn();
  crowd.finish(crowd.send(1, 4));
  Sequence* fresh = crowd.send(3, 8, 10);
  crowd.rig().step();
  EXPECT_TRUE(crowd.runs(fresh));
}

TEST(WorkingSet, another_tenant_and_a_higher_priority_are_not_held) {
  Crowd crowd(12);
  crowd.learn();
  crowd.finish(crowd.send(1, 4));
  crowd.send(2, 1, 1000);
  crowd.rig().step();
  crowd.priority = -1;
  Sequence* urgent = crowd.send(3, 3, 1000);
  crowd.rig().step();
  EXPECT_TRUE(crowd.runs(urgent));
  crowd.priority = 0;
  crowd.tenant = "other";
  Sequence* other = crowd.send(4, 3, 10);
  crowd.rig().step();
  EXPECT_TRUE(crowd.runs(other));
}

TEST(WorkingSet, a_held_request_runs_in_the_end) {
  Crowd crowd(10);
  crowd.learn();
  crowd.finish(crowd.send(1, 4));
  crowd.send(2, 1, 1000);
  crowd.rig().step();
  Sequence* fresh = nullptr;
  for (int i = 0; i < 20; ++i) {
    crowd.finish(crowd.send(1, 4));  // its pages are always in use
    if (!fresh) fresh = crowd.send(3, 4, 10);
    crowd.rig().step();
    if (i == 0) {
      EXPECT_FALSE(crowd.runs(fresh));
    }
    if (std::ranges::count(crowd.rig().alive(), fresh) == 0) return;
  }
  FAIL() << "held for 20 turns";
}

}  // namespace
}  // namespace kvik
