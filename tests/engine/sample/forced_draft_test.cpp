#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "engine/sample/constraint.h"
#include "support/tiny_engine.h"

// Tokens that a constraint forces are computed in one step.
namespace kvik {
namespace {

// Leaves every third token free and forces the others.
class HalfForced final : public Constraint {
 public:
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<HalfForced>(*this); }
  void fill_mask(TokenBitmask& mask) override {
    mask.allow_none();
    for (TokenId id = 0; id < 260; ++id) {
      if (fits(id, n_)) mask.allow(id);
    }
  }
  bool allows(TokenId token) override { return fits(token, n_); }
  void advance(TokenId token) override {
    CHECK(fits(token, n_));
    ++n_;
  }
  void roll_back(uint32_t n) override { n_ -= n; }
  End end() override { return n_ >= 90 ? End::kMust : End::kNotYet; }
  void forced(uint32_t n_max, std::vector<TokenId>& tokens) override {
    for (uint32_t i = 0; i < n_max && (n_ + i) % 3 != 0; ++i) tokens.push_back(named(n_ + i));
  }

 private:
  static TokenId named(uint32_t at) { return 10 + at * 37 % 200; }
  static bool fits(TokenId token, uint32_t at) { return at % 3 == 0 || token == named(at); }
  uint32_t n_ = 0;
};

TEST(ForcedDrafts, forced_tokens_take_no_steps_of_their_own) {
  for (const float temperature : {0.0f, 1.2f}) {
    Request request = seeded_request(some_tokens(30), 200, 4);
    request.sampling.temperature = temperature;
    request.constraint = std::make_shared<HalfForced>();
    request.n_logprobs = 2;
    EngineRig plain({.speculation = kNoSpeculation});
    EngineRig rig;
    const auto expected = plain.run(request);
    const auto sink = rig.run(request);
    EXPECT_EQ(expected->tokens(), sink->tokens());
    EXPECT_EQ(expected->finishes(), sink->finishes());
    ASSERT_EQ(sink->tokens().size(), 90u);
    EXPECT_GE(sink->usage().accepted_tokens, 50u);
    EXPECT_LT(rig.engine().snapshot().steps, 45u);
    EXPECT_EQ(rig.pages().cached, plain.pages().cached);
  }
}

}  // namespace
}  // namespace kvik
