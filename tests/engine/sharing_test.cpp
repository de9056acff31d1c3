#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "engine/scheduler_rig.h"

// Tests what a tenant can learn about others through the scheduler: which tokens are cached, and
// when.
namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

Tokens random_tokens(uint32_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  while (tokens.size() < n) tokens.push_back(random() % 1000);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string name_of(uint32_t user) { return "user-" + std::to_string(user); }

// Eight users whose prompts begin with the same shared prefix. n_computed() returns the number of
// prompt tokens computed for them.
struct Users {
  uint32_t n_shared = 0;
  uint32_t n_own = 0;
  enum class Come { kOneByOne, kTogether, kNowAndThen } come = Come::kTogether;
  Sharing sharing = Sharing::kTwo;
  uint32_t max_step_tokens = 512;
};
uint64_t n_computed(const Users& users) {
  Rig rig(4000, {.max_step_tokens = users.max_step_tokens});
  rig.kv().pages().set_sharing(users.sharing);
  const Tokens shared = random_tokens(users.n_shared, 1);
  for (uint32_t user = 0; user < 8; ++user) {
    const Tokens own = random_tokens(users.n_own, 100 + user);
    rig.add({.max_tokens = 3, .tenant = name_of(user), .prompt = shared + own});
    if (users.come == Users::Come::kNowAndThen) rig.step();
    while (users.come == Users::Come::kOneByOne && !rig.alive().empty()) rig.step();
  }
  while (!rig.alive().empty()) rig.step();
  return rig.scheduler().n_prompt_tokens();
}

TEST(SharedPrefix, of_eight_tenants_is_computed_twice) {
  for (const auto come :
       {Users::Come::kOneByOne, Users::Come::kTogether, Users::Come::kNowAndThen}) {
    for (const uint32_t n_step : {64u, 100u, 512u, 8192u}) {
      for (const uint32_t n_shared : {32u, 320u, 1024u}) {
        const Users users{
            .n_shared = n_shared, .n_own = 40, .come = come, .max_step_tokens = n_step};
        EXPECT_EQ(n_computed(users), 2 * n_shared + 8 * 40)
            << "step " << n_step << " shared " << n_shared << " come " << static_cast<int>(come);
      }
    }
  }
}

TEST(SharedPrefix, is_computed_once_if_all_tenants_share) {
  EXPECT_EQ(n_computed({.n_shared = 320, .n_own = 40, .sharing = Sharing::kAll}), 320u + 8 * 40);
}

TEST(SharedPrefix, of_one_tenants_requests_is_computed_once) {
  Rig rig(400, {});
  rig.kv().pages().set_sharing(Sharing::kTwo);
  const Tokens shared = random_tokens(321, 1);
  for (int i = 0; i < 8; ++i) rig.add({.max_tokens = 3, .tenant = "ann", .prompt = shared});
  while (!rig.alive().empty()) rig.step();
  EXPECT_EQ(rig.scheduler().n_prompt_tokens(), 321u + 7) << "each computes its last token";
}

// All that a client can observe of a prompt: the usage, the cache report, and the numbers of steps
// and tokens.
using Observation = std::tuple<uint32_t, MissReason, std::optional<uint32_t>,
                               std::optional<TokenId>, uint32_t, uint64_t, uint32_t>;

// An engine in which others work and one tenant probes. The prompts of the others differ between
// two worlds only in their tokens.
class SharedEngine {
 public:
  explicit SharedEngine(uint32_t secret_seed) : secret_seed_(secret_seed) {
    rig_.kv().pages().set_sharing(Sharing::kTwo);
    rig_.cost_ms = [](const StepWork& work) { return 1.0 + 0.1 * work.n_rows; };
    rig_.on_plan = [&](const StepPlan& plan) {
      for (const StepPlan::Entry& entry : plan.entries) ++n_steps_[entry.sequence->id];
    };
  }

  // Returns the n-th prompt of the others: a public prefix that all tenants know, and a secret.
  Tokens others_prompt(uint32_t n) const {
    return random_tokens(64, 7) + random_tokens(20 + n * 13 % 90, secret_seed_ + n);
  }

  void others_work(uint32_t n) {
    rig_.add({.max_tokens = 4, .tenant = "victim", .prompt = others_prompt(n)});
    rig_.add({.max_tokens = 2, .tenant = "second", .prompt = random_tokens(64, 7) + Tokens{n}});
  }

  Observation probe(const Tokens& prompt) {
    Sequence* sequence = rig_.add({.max_tokens = 2, .tenant = "prober", .prompt = prompt});
    const RequestId id = sequence->id;
    Observation seen;
    uint32_t n_steps = 0;
    while (std::ranges::count(rig_.alive(), sequence) > 0) {
      const CacheReport report = sequence->queue.found.report();
      seen = {sequence->usage.cached_tokens,
              report.miss,
              report.position,
              report.expected,
              report.ram_tokens,
              n_steps_[id],
              ++n_steps};
      rig_.step();
    }
    return seen;
  }
  void finish() {
    while (!rig_.alive().empty()) rig_.step();
  }

 private:
  Rig rig_{200'000, {.max_step_tokens = 96, .max_running = 16}};
  uint32_t secret_seed_;
  std::map<RequestId, uint32_t> n_steps_;
};

// Whatever a tenant requests, including prompts that match those of others up to any length, its
// observations are the same as if the others had sent different tokens.
TEST(TenantIsolation, observations_do_not_depend_on_prompts_of_others) {
  SharedEngine secret(1000), other(900'000);
  std::mt19937 random(5);
  uint32_t n_right = 0, n_found = 0;
  for (uint32_t i = 0; i < 10'000; ++i) {
    if (i % 50 == 0) {
      secret.others_work(i / 50);
      other.others_work(i / 50);
    }
    if (i % 7 == 0) {  // now and then no other request is running
      secret.finish();
      other.finish();
    }
    Tokens attempt = secret.others_prompt(random() % (i / 50 + 1));
    const size_t n_kept = random() % 3 == 0 ? attempt.size() : 1 + random() % attempt.size();
    attempt.resize(n_kept);
    n_right += n_kept > 64;
    while (random() % 4 != 0) attempt.push_back(random() % 1000);
    const Observation seen = secret.probe(attempt);
    ASSERT_EQ(seen, other.probe(attempt)) << "request " << i << ", right to token " << n_kept;
    n_found += std::get<0>(seen) > 0;
  }
  EXPECT_GT(n_right, 5000u);
  EXPECT_GT(n_found, 5000u) << "it does find its own pages and those of two tenants";
}

TEST(TenantIsolation, observes_cached_tokens_if_all_tenants_share) {
  Rig rig(400, {});
  rig.add({.max_tokens = 2, .tenant = "victim", .prompt = random_tokens(100, 3)});
  while (!rig.alive().empty()) rig.step();
  Sequence* sequence =
      rig.add({.max_tokens = 2, .tenant = "prober", .prompt = random_tokens(100, 3)});
  rig.step();
  EXPECT_EQ(sequence->usage.cached_tokens, 99u);
}

// A prompt of another tenant with the same next page does not make a sequence wait.
TEST(TenantIsolation, does_not_wait_for_what_another_computes) {
  Rig rig(400, {.max_step_tokens = 64});
  rig.kv().pages().set_sharing(Sharing::kTwo);
  rig.add({.tenant = "victim", .prompt = random_tokens(2000, 3)});
  rig.step();
  Sequence* prober = rig.add({.max_tokens = 2, .tenant = "prober", .prompt = random_tokens(20, 3)});
  rig.step();
  EXPECT_EQ(prober->n_generated(), 1u);
  EXPECT_EQ(prober->usage.cached_tokens, 0u);
}

}  // namespace
}  // namespace kvik
