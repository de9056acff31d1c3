#include "engine/sample/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/process/processor_budget.h"
#include "engine/sample/log_softmax.h"
#include "support/counting_constraint.h"
#include "support/other_samplers.h"
#include "support/tiny_engine.h"

// Tests of constrained answers in the engine, which queries a constraint and knows nothing else
// about it.
namespace kvik {
namespace {

using testing::ElementsAre;
using Form = CountingConstraint;

std::shared_ptr<Form> make_form(uint32_t may_end_at = UINT32_MAX,
                                uint32_t must_end_at = UINT32_MAX) {
  return std::make_shared<Form>(
      Form::Options{.may_end_at = may_end_at, .must_end_at = must_end_at});
}

Request with_form(Request request, std::shared_ptr<const Constraint> form) {
  request.constraint = std::move(form);
  return request;
}

bool keeps_to_form(const std::vector<TokenId>& tokens) {
  for (size_t n = 0; n < tokens.size(); ++n) {
    if (tokens[n] % 3 != n % 3) return false;
  }
  return true;
}

TEST(Constraint, a_greedy_answer_is_the_likeliest_of_what_is_allowed) {
  EngineRig rig;
  Request request = with_form(greedy_request(some_tokens(10), 30), make_form());
  request.logits = Request::Logits::kLast;
  const auto sink = rig.run(request);
  const auto tokens = sink->tokens();
  const auto logits = sink->logits();
  ASSERT_EQ(tokens.size(), 30u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
  for (size_t n = 0; n < tokens.size(); ++n) {
    const std::vector<float>& row = logits[n].second;
    TokenId best = static_cast<TokenId>(n % 3);
    for (TokenId id = best; id < row.size(); id += 3) best = row[id] > row[best] ? id : best;
    EXPECT_EQ(tokens[n], best) << "token " << n;
  }
}

TEST(Constraint, a_sampled_answer_satisfies_it_at_any_temperature) {
  for (const float temperature : {0.2f, 1.0f, 5.0f}) {
    EngineRig rig;
    Request request = with_form(seeded_request(some_tokens(10), 60, 7), make_form());
    request.sampling.temperature = temperature;
    const auto tokens = rig.run(request)->tokens();
    EXPECT_EQ(tokens.size(), 60u);
    EXPECT_TRUE(keeps_to_form(tokens)) << temperature;
  }
}

TEST(Constraint, penalties_and_biases_count_among_what_is_allowed) {
  EngineRig rig;
  Request request = with_form(greedy_request(some_tokens(10), 60), make_form());
  request.sampling.presence_penalty = 1000;
  auto tokens = rig.run(request)->tokens();
  EXPECT_TRUE(keeps_to_form(tokens));
  std::ranges::sort(tokens);
  EXPECT_TRUE(std::ranges::adjacent_find(tokens) == tokens.end()) << "a token came twice";

  Request biased = with_form(greedy_request(some_tokens(10), 3), make_form());
  biased.sampling.logit_bias = {{6, 100.0f}, {7, 100.0f}, {8, 100.0f}};
  EXPECT_THAT(rig.run(biased)->tokens(), ElementsAre(6, 7, 8));
}

TEST(Constraint, other_samplers_pick_what_is_allowed) {
  EngineRig rig;
  for (uint32_t i = 0; i < kOtherSamplers; ++i) {
    Request request = with_form(seeded_request(some_tokens(10), 40, i), make_form());
    add_other_sampler(request.sampling, i);
    const auto tokens = rig.run(request)->tokens();
    EXPECT_EQ(tokens.size(), 40u) << i;
    EXPECT_TRUE(keeps_to_form(tokens)) << i;
  }
}

TEST(Constraint, banned_tokens_are_allowed_only_if_nothing_else_is) {
  EngineRig rig;
  Request request = with_form(greedy_request(some_tokens(10), 30), make_form());
  for (TokenId id = 0; id < 260; ++id) {
    if (id != 42 && id != 43) request.sampling.banned.push_back({id});
  }
  // 42 = 0 and 43 = 1 modulo 3; every token that is 2 modulo 3 is banned.
  const auto tokens = rig.run(request)->tokens();
  ASSERT_EQ(tokens.size(), 30u);
  EXPECT_TRUE(keeps_to_form(tokens));
  for (size_t n = 0; n < tokens.size(); ++n) {
    if (n % 3 == 2) continue;
    EXPECT_EQ(tokens[n], 42 + n % 3);
  }
}

TEST(Constraint, an_answer_ends_only_where_its_constraint_is_complete) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(10), 30);
  request.stop_tokens = {0, 2};
  request.sampling.logit_bias = {{2, 100.0f}};  // the model would end at once
  EXPECT_TRUE(rig.run(request)->tokens().empty());
  const auto sink = rig.run(with_form(request, make_form(7)));
  EXPECT_EQ(sink->tokens().size(), 7u);
  EXPECT_TRUE(keeps_to_form(sink->tokens()));
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kStop));

  Request late = with_form(request, make_form(7));
  late.min_tokens = 12;
  EXPECT_EQ(rig.run(late)->tokens().size(), 12u);
  Request drawn = with_form(request, make_form(7));
  drawn.sampling.temperature = 1;
  EXPECT_EQ(rig.run(drawn)->tokens().size(), 7u);
}

TEST(Constraint, an_answer_ends_at_once_if_nothing_can_follow) {
  EngineRig rig;
  const auto sink = rig.run(with_form(greedy_request(some_tokens(10), 30), make_form(2, 5)));
  EXPECT_EQ(sink->tokens().size(), 5u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kStop));
  EXPECT_EQ(rig.engine().snapshot().steps, 5u);
  // The constraint also decides if its last token is the last one that max_tokens allows.
  const auto last = rig.run(with_form(greedy_request(some_tokens(10), 5), make_form(2, 5)));
  EXPECT_THAT(last->finishes(), ElementsAre(FinishReason::kStop));
  const auto none = rig.run(with_form(greedy_request(some_tokens(10), 5), make_form(0, 0)));
  EXPECT_TRUE(none->tokens().empty());
  EXPECT_THAT(none->finishes(), ElementsAre(FinishReason::kStop));
}

TEST(Constraint, max_tokens_that_ends_it_early_is_a_matter_of_length) {
  EngineRig rig;
  const auto sink = rig.run(with_form(greedy_request(some_tokens(10), 4), make_form(2, 5)));
  EXPECT_EQ(sink->tokens().size(), 4u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
}

TEST(Constraint, that_no_token_satisfies_fails_only_its_request) {
  EngineRig rig;
  const auto form = std::make_shared<Form>(Form::Options{.n_vocab = 0});
  const auto failed = rig.submit(with_form(seeded_request(some_tokens(10), 4, 1), form));
  const auto beside = rig.submit(greedy_request(some_tokens(12), 4));
  rig.run();
  EXPECT_THAT(failed->finishes(), ElementsAre(FinishReason::kFailed));
  EXPECT_THAT(beside->finishes(), ElementsAre(FinishReason::kLength));
}

TEST(Constraint, one_mask_is_made_for_each_token) {
  for (const float temperature : {0.0f, 1.0f}) {
    EngineRig rig({.speculation = kNoSpeculation});
    Request request = seeded_request(some_tokens(10), 8, 1);
    request.sampling.temperature = temperature;
    const auto form = make_form();
    rig.run(with_form(request, form));
    EXPECT_EQ(form->counts().masks, 8);
  }
}

TEST(Constraint, choices_of_one_request_have_independent_states) {
  EngineRig rig;
  const auto form = make_form(3);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t choice = 0; choice < 4; ++choice) {
    Request request = with_form(seeded_request(some_tokens(10), 20 + choice, 3), form);
    request.sampling.choice_index = choice;
    sinks.push_back(rig.submit(std::move(request)));
    rig.engine().step();
  }
  rig.run();
  for (uint32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(sinks[choice]->tokens().size(), 20 + choice);
    EXPECT_TRUE(keeps_to_form(sinks[choice]->tokens()));
  }
}

TEST(Constraint, batching_and_preemption_do_not_change_tokens) {
  const auto request = [](uint32_t i) {
    Request one = with_form(seeded_request(some_tokens(20 + i, i + 1), 60, i), make_form());
    one.sampling.temperature = i % 3 == 0 ? 0.0f : 1.0f;
    return one;
  };
  EngineRig crowded({.n_pages = 12});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 8; ++i) sinks.push_back(crowded.submit(request(i)));
  crowded.run();
  EXPECT_GT(crowded.engine().snapshot().preemptions, 0u);
  for (uint32_t i = 0; i < 8; ++i) {
    EngineRig alone;
    EXPECT_EQ(sinks[i]->tokens(), alone.run(request(i))->tokens()) << i;
    EXPECT_TRUE(keeps_to_form(sinks[i]->tokens()));
  }
}

TEST(Constraint, logprobs_are_the_models_own_whatever_is_allowed) {
  EngineRig rig;
  Request request = with_form(greedy_request(some_tokens(10), 6), make_form());
  request.n_logprobs = 3;
  request.logits = Request::Logits::kLast;
  const auto sink = rig.run(request);
  const auto events = sink->events();
  const auto logits = sink->logits();
  for (size_t n = 0; n < events.size(); ++n) {
    ASSERT_TRUE(events[n].chosen.has_value());
    EXPECT_EQ(events[n].chosen->logprob, LogSoftmax(logits[n].second).of(events[n].id));
    EXPECT_EQ(events[n].top.front().id, LogSoftmax(logits[n].second).top(1).front().id);
  }
}

TEST(MaskMaker, makes_every_mask_once_step_after_step) {
  std::vector<std::shared_ptr<Form>> forms;
  std::vector<NextTokens> constraints;
  for (size_t i = 0; i < 20; ++i) {
    forms.push_back(make_form());
    constraints.emplace_back(*forms[i], NextTokens::Owner{.tenant = "", .n_vocab = 260});
  }
  MaskMaker maker;
  std::vector<int> n_masks(constraints.size());
  for (size_t step = 0; step < 200; ++step) {
    const size_t n = step % (constraints.size() + 1);
    maker.begin_step(MaskMaker::Budgets::kOn);
    for (size_t i = 0; i < n; ++i) maker.begin(constraints[i]);
    while (std::ranges::any_of(std::span(constraints).first(n),
                               [](const auto& c) { return !c.is_ready(); })) {
      maker.finish();
    }
    for (size_t i = 0; i < n; ++i) {
      constraints[i].advance(static_cast<TokenId>(n_masks[i]++ % 3));
      maker.advance(constraints[i]);
    }
  }
  for (size_t i = 0; i < constraints.size(); ++i) {
    EXPECT_EQ(forms[i]->counts().masks, n_masks[i]) << i;
  }
}

// Takes 300 µs of processor time for each token.
class SteadyConstraint final : public Constraint {
 public:
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<SteadyConstraint>(); }
  void fill_mask(TokenBitmask& mask) override { mask.allow(0); }
  bool allows(TokenId) override { return true; }
  void advance(TokenId) override {
    const Duration end = thread_time() + std::chrono::microseconds(300);
    while (thread_time() < end) {
    }
  }
  void roll_back(uint32_t) override {}
  End end() override { return End::kNotYet; }
  void forced(uint32_t, std::vector<TokenId>&) override {}
};

TEST(MaskMaker, expensive_masks_run_on_the_slow_thread) {
  struct Case {
    MaskMaker::Budgets budgets;
    std::chrono::microseconds forward;
    bool is_heavy;
  };
  for (const auto& [budgets, forward, is_heavy] :
       {Case{MaskMaker::Budgets::kOn, std::chrono::microseconds(400), true},
        Case{MaskMaker::Budgets::kOn, std::chrono::seconds(4), false},
        Case{MaskMaker::Budgets::kOff, std::chrono::microseconds(400), false}}) {
    NextTokens next(SteadyConstraint(), NextTokens::Owner{.tenant = "a", .n_vocab = 260});
    MaskMaker maker;
    // The second token is scheduled by the measured time of the first.
    for (int n = 0; n < 3; ++n) {
      maker.begin_step(budgets, forward);
      while (!maker.make_now(next)) maker.wait(std::chrono::seconds(60));
      next.advance(0);
    }
    maker.begin_step(budgets, forward);
    maker.advance(next);
    maker.wait(std::chrono::seconds(60));
    EXPECT_EQ(maker.n_heavy() > 0, is_heavy) << forward.count();
  }
}

}  // namespace
}  // namespace kvik
