#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/interleaved_matchers.h"

// Several interleaved matchers of one grammar, some of which meet its limits.
namespace kvik::constrain {
namespace {

std::shared_ptr<CompiledGrammar> compile(const std::string& text) {
  auto grammar = parse_gbnf(text, {});
  if (!grammar) ADD_FAILURE() << grammar.error().message;
  return CompiledGrammar::make(*grammar, matcher_vocabulary());
}

constexpr const char* kHostile = "root ::= a{1,100}\na ::= b{1,100}\nb ::= [a-z ]{1,100} | \"x\" a";

Transcript walk(const CompiledGrammar& compiled, uint32_t seed) {
  Walker walker(compiled, seed);
  while (walker.step()) {
  }
  return walker.transcript();
}

TEST(InterleavedMatchers, an_exhausted_grammar_is_an_error_and_never_a_wrong_verdict) {
  const auto compiled = compile(kHostile);
  std::vector<Walker> matchers;
  for (uint32_t i = 0; i < 2; ++i) matchers.emplace_back(*compiled, i);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (Walker& walker : matchers) goes_on |= walker.step();
  }
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(matchers[i].transcript().end, Transcript::End::kExhausted);
    EXPECT_EQ(matchers[i].transcript(), walk(*compile(kHostile), i)) << i;
  }
}

TEST(InterleavedMatchers, what_has_failed_says_so_again_and_a_fresh_matcher_works) {
  const auto compiled = compile(kHostile);
  GrammarMatcher matcher = compiled->start();
  while (true) {
    const auto read = matcher.accept_bytes("ab");
    if (!read) break;
    ASSERT_EQ(*read, 2u);
  }
  EXPECT_TRUE(matcher.has_failed());
  EXPECT_EQ(matcher.accept_bytes("a").error().code, ErrorCode::kExhausted);
  EXPECT_FALSE(matcher.is_complete().has_value());
  EXPECT_EQ(matcher.bytes(), 0u) << "it keeps no memory";
  EXPECT_EQ(*compiled->start().accept_bytes("ab"), 2u);
}

TEST(InterleavedMatchers, a_small_effort_changes_nothing_where_it_does_not_suffice) {
  const auto compiled = compile(kHostile);
  GrammarMatcher matcher = compiled->start();
  size_t n_small = 0;
  for (int i = 0; i < 200; ++i) {
    matcher.set_effort(GrammarMatcher::Effort::kSmall);
    if (!matcher.accept_bytes("a")) {
      ASSERT_FALSE(matcher.has_failed());
      ++n_small;
      matcher.set_effort(GrammarMatcher::Effort::kFull);
      if (!matcher.accept_bytes("a")) break;
    }
  }
  EXPECT_GT(n_small, 0u);
}

TEST(InterleavedMatchers, a_matcher_keeps_a_bounded_memory) {
  const auto meter = std::make_shared<std::atomic<int64_t>>(0);
  auto grammar = parse_gbnf(kHostile, {});
  ASSERT_TRUE(grammar.has_value());
  {
    const auto compiled = CompiledGrammar::make(*grammar, matcher_vocabulary(), meter);
    GrammarMatcher matcher = compiled->start();
    for (int i = 0; i < 400 && matcher.accept_bytes("a"); ++i) {
      EXPECT_LE(matcher.bytes(), GrammarMatcher::kSmallBytes);
      EXPECT_EQ(*meter, static_cast<int64_t>(matcher.bytes()));
    }
  }
  EXPECT_EQ(*meter, 0);
}

TEST(InterleavedMatchers, interleaved_matchers_give_the_same_results_as_alone) {
  const char* const n_wanted = std::getenv("KVIK_TRIALS");
  const char* const first = std::getenv("KVIK_FIRST_TRIAL");
  const auto n = n_wanted ? static_cast<uint32_t>(std::stoul(n_wanted)) : 2'000u;
  const auto begin = first ? static_cast<uint32_t>(std::stoul(first)) : 0u;
  uint32_t n_limited = 0;
  for (uint32_t i = 0; i < n; ++i) {
    n_limited += try_interleaved({.seed = begin + i, .n_matchers = 1 + i % 4}) ? 1 : 0;
  }
  EXPECT_GT(n_limited, n / 50) << "the limits were hardly met";
  EXPECT_LT(n_limited, n - n / 20);
  RecordProperty("limited", static_cast<int>(n_limited));
}

}  // namespace
}  // namespace kvik::constrain
