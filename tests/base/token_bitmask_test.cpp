#include "base/token_bitmask.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvik {
namespace {

std::vector<TokenId> allowed_by(const TokenBitmask& mask) {
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < 400; ++id) {
    if (mask.allows(id)) tokens.push_back(id);
  }
  return tokens;
}

TEST(TokenBitmask, holds_what_was_allowed_and_nothing_beyond_its_vocabulary) {
  TokenBitmask mask(70);
  mask.allow(0);
  mask.allow(69);
  mask.set(64, true);
  mask.set(0, false);
  EXPECT_EQ(allowed_by(mask), (std::vector<TokenId>{64, 69}));
  mask.allow_first(66);
  EXPECT_EQ(allowed_by(mask).size(), 66u);
  mask.allow_first(400);
  EXPECT_EQ(allowed_by(mask).size(), 70u);
  EXPECT_EQ(mask.words()[1], 63u);
}

TEST(TokenBitmask, a_copy_has_the_tokens_that_both_vocabularies_have) {
  TokenBitmask large(200), small(70);
  large.allow_first(200);
  small.allow_those_of(large);
  EXPECT_EQ(allowed_by(small).size(), 70u);
  EXPECT_EQ(small.words()[1], 63u) << "no bit after the last token";
  large.allow_those_of(small);
  EXPECT_EQ(allowed_by(large).size(), 70u);
  TokenBitmask other(70);
  other.allow(3);
  large.allow_none();
  large.allow(100);
  large.allow_too(other);
  EXPECT_EQ(allowed_by(large), (std::vector<TokenId>{3, 100}));
}

}  // namespace
}  // namespace kvik
