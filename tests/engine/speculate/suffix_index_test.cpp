#include "engine/speculate/suffix_index.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvik {
namespace {

// Finds the longest suffix that occurred earlier by comparing all positions.
SuffixMatch find_plainly(const std::vector<TokenId>& tokens) {
  SuffixMatch best;
  const auto end = static_cast<uint32_t>(tokens.size());
  for (uint32_t at = end - 1; at > 0; --at) {
    const uint32_t n = SuffixIndex::common_suffix(tokens, at, end);
    if (n >= 2 && n > best.n_matched) best = {at, n};
  }
  return best;
}

TEST(SuffixIndex, finds_the_tokens_after_an_earlier_occurrence) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 9, 2, 3, 4};
  SuffixIndex index(tokens.size());
  const SuffixMatch match = index.find(tokens);
  EXPECT_EQ(match.next, 4u);
  EXPECT_EQ(match.n_matched, 3u);
}

TEST(SuffixIndex, finds_nothing_without_an_earlier_bigram) {
  SuffixIndex index(8);
  EXPECT_EQ(index.find(std::vector<TokenId>{1}).n_matched, 0u);
  EXPECT_EQ(index.find(std::vector<TokenId>{1, 2, 1}).n_matched, 0u);
  EXPECT_EQ(index.find(std::vector<TokenId>{1, 2, 1, 3}).n_matched, 0u);
}

TEST(SuffixIndex, the_newest_of_equally_long_matches_wins) {
  SuffixIndex index(16);
  EXPECT_EQ(index.find(std::vector<TokenId>{1, 2, 7, 1, 2, 8, 1, 2}).next, 5u);
}

TEST(SuffixIndex, a_repeated_token_matches_its_previous_occurrence) {
  SuffixIndex index(16);
  const SuffixMatch match = index.find(std::vector<TokenId>(100, 5));
  EXPECT_EQ(match.next, 99u);
  EXPECT_EQ(match.n_matched, SuffixIndex::kLongest);
}

// The list grows token by token like an answer and has few different tokens, so there are many
// repetitions. Chains are followed only for a few positions: a result always matches, and it is
// usually the longest match.
TEST(SuffixIndex, agrees_with_comparing_all_places) {
  uint32_t n_longest = 0, n_all = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens(50);
    for (TokenId& token : tokens) token = random() % 12;
    SuffixIndex index(64);
    for (int i = 0; i < 500; ++i) {
      if (random() % 10 == 0 && tokens.size() > 60) {  // repeats an earlier part
        const size_t begin = random() % (tokens.size() - 30);
        for (size_t k = 0; k < 20; ++k) tokens.push_back(tokens[begin + k]);
      } else {
        tokens.push_back(random() % 12);
      }
      const SuffixMatch expected = find_plainly(tokens);
      const SuffixMatch match = index.find(tokens);
      ++n_all;
      n_longest += match.n_matched == expected.n_matched;
      if (match.n_matched == 0) continue;
      ASSERT_EQ(
          SuffixIndex::common_suffix(tokens, match.next, static_cast<uint32_t>(tokens.size())),
          match.n_matched);
      ASSERT_LT(match.next, tokens.size());
    }
  }
  EXPECT_GT(n_longest, n_all * 95 / 100);
}

}  // namespace
}  // namespace kvik
