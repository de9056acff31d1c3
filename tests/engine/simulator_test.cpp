#include "engine/simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kvik {
namespace {

// Minutes of traffic in the fast suite, hours in the long one.
double minutes(double n) { return n * 60 * (std::getenv("KVIK_TEST_LONG") ? 20 : 1); }

// A shared prefix of 1,024 tokens, 64 own tokens, 64 generated ones: close to the machine's limit.
std::vector<Conversation> chats(double rate) {
  return poisson({.like = {.prefix_tokens = 1024, .own_tokens = 64, .answer_tokens = 64},
                  .rate = rate,
                  .seconds = minutes(8),
                  .n_prefixes = 4});
}

// Adds one prompt of 6,000 tokens per minute.
std::vector<Conversation> with_long_prompts(std::vector<Conversation> conversations) {
  const auto prompts = poisson({.like = {.prefix = 100, .own_tokens = 6000, .answer_tokens = 64},
                                .rate = 1.0 / 60,
                                .seconds = minutes(8),
                                .seed = 2});
  conversations.insert(conversations.end(), prompts.begin(), prompts.end());
  return conversations;
}

TEST(Simulator, the_same_seed_gives_the_same_result) {
  const SimulationResult first = simulate(chats(1.5), {});
  const SimulationResult second = simulate(chats(1.5), {});
  EXPECT_EQ(first.n_steps, second.n_steps);
  EXPECT_EQ(first.simulated_s, second.simulated_s);
  EXPECT_EQ(first.all.ttft_s, second.all.ttft_s);
}

TEST(Simulator, long_prompts_do_not_delay_decoding_sequences) {
  const auto conversations = with_long_prompts(chats(0.6));
  const SimulationResult kvik = simulate(conversations, {});
  const SimulationResult fcfs = simulate(conversations, {.policy = SimulatedPolicy::kFcfs});
  EXPECT_LE(kvik.all.itl_at(0.99), 0.1);  // twice the target
  EXPECT_GT(fcfs.all.itl_at(0.99), 2 * kvik.all.itl_at(0.99));
  EXPECT_GT(kvik.goodput(), 1.2 * fcfs.goodput());
}

TEST(Simulator, every_prompt_advances_within_the_bound) {
  const auto conversations = poisson(
      {.like = {.own_tokens = 400, .answer_tokens = 64}, .rate = 1.5, .seconds = minutes(3)});
  const SimulationResult result = simulate(with_long_prompts(conversations), {});
  EXPECT_GT(result.longest_wait_steps, Scheduler::kMaxWaitSteps);
  EXPECT_LE(result.longest_wait_steps, Scheduler::kMaxWaitSteps + 64);
}

TEST(Simulator, a_prefix_is_computed_once) {
  const auto conversations = chats(1.5);
  const SimulationResult result = simulate(conversations, {});
  const uint64_t new_tokens = conversations.size() * 64 + 4 * 1024;
  EXPECT_LE(result.computed_tokens, new_tokens * 102 / 100);
}

TEST(Simulator, a_flooding_tenant_does_not_reduce_the_share_of_others) {
  std::vector<Conversation> conversations;
  for (uint32_t user = 0; user < 5; ++user) {
    const auto some = poisson({.like = {.tenant = std::string(1, static_cast<char>('a' + user)),
                                        .prefix = 10 * user,
                                        .prefix_tokens = 512,
                                        .own_tokens = 64,
                                        .answer_tokens = 48},
                               .rate = 0.1,
                               .seconds = minutes(4),
                               .seed = 10 + user});
    conversations.insert(conversations.end(), some.begin(), some.end());
  }
  const SimulationResult calm = simulate(conversations, {});
  const auto flood =
      poisson({.like = {.tenant = "z", .prefix = 999, .own_tokens = 1500, .answer_tokens = 64},
               .rate = 3,
               .seconds = minutes(4)});
  conversations.insert(conversations.end(), flood.begin(), flood.end());
  const SimulationOptions options{.scheduler = {.max_running = 16, .itl_target = from_ms(50)},
                                  .max_queue = 32};
  const SimulationResult shared = simulate(conversations, options);
  uint64_t n_good = 0, n_requests = 0;
  for (const char* tenant : {"a", "b", "c", "d", "e"}) {
    const SimulatedOutcome& outcome = shared.of(tenant);
    EXPECT_EQ(outcome.n_refused, 0u) << tenant;
    n_good += outcome.n_good;
    n_requests += outcome.n_requests;
    EXPECT_LE(outcome.itl_at(0.95), 0.1) << tenant;
    EXPECT_LE(outcome.ttft_at(0.5), 10 * calm.of(tenant).ttft_at(0.5) + 1) << tenant;
  }
  EXPECT_GE(n_good * 100, n_requests * 90);
  EXPECT_GT(shared.of("z").n_refused, 0u);
  EXPECT_GT(shared.of("z").n_good + shared.of("z").ttft_s.size(), 0u);
}

TEST(Simulator, an_overload_is_rejected_and_accepted_requests_meet_the_slo) {
  const SimulationOptions options{.scheduler = {.max_running = 16, .itl_target = from_ms(50)},
                                  .max_queue = 4};
  const SimulationResult result = simulate(chats(25), options);
  EXPECT_GT(result.all.n_refused, result.all.n_requests / 2);
  EXPECT_LE(result.all.itl_at(0.95), 0.1);
  EXPECT_LE(result.all.ttft_at(0.99), 15);
}

TEST(Simulator, each_turn_of_an_agent_computes_only_new_tokens) {
  std::vector<Conversation> agents;
  for (uint32_t i = 0; i < 8; ++i) {
    agents.push_back({.begin_s = i * 0.5,
                      .prefix = 1,
                      .prefix_tokens = 800,
                      .own_tokens = 150,
                      .answer_tokens = 60,
                      .max_tokens = 200,
                      .n_turns = 10,
                      .think_s = 2});
  }
  const SimulationResult result = simulate(agents, {});
  const uint64_t new_tokens = 800 + 8 * 10 * 150 + 8 * 9;  // and the last token of each answer
  EXPECT_LE(result.computed_tokens, new_tokens * 102 / 100);
  EXPECT_EQ(result.n_preemptions, 0u);
}

}  // namespace
}  // namespace kvik
