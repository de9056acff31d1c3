#include "service/forms/loop_guard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvik {
namespace {

enum Token : uint32_t { kWord, kQuote, kQuoteBrace, kComma, kBracket, kBrace };

std::shared_ptr<const grammar::VocabularyTrie> vocabulary() {
  return std::make_shared<grammar::VocabularyTrie>(
      std::vector<std::string>{"zebra", "\"", "\"}", ", ", "]", "}"});
}

uint64_t bits(const std::vector<Token>& tokens) {
  uint64_t mask = 0;
  for (const Token token : tokens) mask |= uint64_t{1} << token;
  return mask;
}

uint64_t narrowed(const LoopGuard& guard, const std::vector<Token>& tokens) {
  uint64_t mask = bits(tokens);
  guard.narrow({&mask, 1});
  return mask;
}

void read(LoopGuard& guard, std::string_view piece, int n) {
  for (int i = 0; i < n; ++i) guard.read(piece);
}

TEST(LoopGuard, the_same_piece_again_and_again_is_a_loop) {
  LoopGuard guard(vocabulary());
  guard.read("{\"tags\": [\"reader");
  read(guard, "_role", 76);
  EXPECT_FALSE(guard.is_looping()) << "380 bytes";
  guard.read("_role");
  EXPECT_TRUE(guard.is_looping());
  guard.read("\"");
  EXPECT_FALSE(guard.is_looping());
}

TEST(LoopGuard, text_that_differs_is_no_loop) {
  LoopGuard guard(vocabulary());
  for (int i = 0; i < 1000; ++i) {
    guard.read("{\"id\": " + std::to_string(i) + "}, ");
    ASSERT_FALSE(guard.is_looping()) << i;
  }
}

TEST(LoopGuard, a_second_loop_is_seen_earlier) {
  LoopGuard guard(vocabulary());
  read(guard, "a", 384);
  EXPECT_TRUE(guard.is_looping());
  guard.read("\", \"");
  read(guard, "b", 95);
  EXPECT_FALSE(guard.is_looping());
  guard.read("b");
  EXPECT_TRUE(guard.is_looping());
}

TEST(LoopGuard, a_string_that_loops_must_end) {
  LoopGuard guard(vocabulary());
  read(guard, "_role", 77);
  EXPECT_EQ(narrowed(guard, {kWord, kQuote, kQuoteBrace, kBracket}), bits({kQuote, kQuoteBrace}));
  guard.read("\", \"reader");
  EXPECT_EQ(narrowed(guard, {kWord, kQuote}), bits({kWord, kQuote})) << "another string";
}

TEST(LoopGuard, arrays_and_objects_close_after_a_loop) {
  LoopGuard guard(vocabulary());
  EXPECT_FALSE(guard.is_active());
  read(guard, "\"a\", ", 77);
  EXPECT_EQ(narrowed(guard, {kComma, kBracket}), bits({kBracket}));
  guard.read("\"b\"");
  EXPECT_TRUE(guard.is_active());
  EXPECT_EQ(narrowed(guard, {kComma, kBracket}), bits({kBracket}));
  EXPECT_EQ(narrowed(guard, {kQuote, kBrace}), bits({kBrace}));
  EXPECT_EQ(narrowed(guard, {kQuote, kComma}), bits({kQuote, kComma})) << "nothing closes";
}

TEST(LoopGuard, rolled_back_tokens_are_forgotten) {
  LoopGuard guard(vocabulary());
  read(guard, "_role", 77);
  ASSERT_TRUE(guard.is_looping());
  guard.read("x");
  guard.read("y");
  guard.roll_back(2);
  EXPECT_TRUE(guard.is_looping());
  guard.roll_back(1);
  EXPECT_FALSE(guard.is_looping());
  read(guard, "_role", 1);
  EXPECT_TRUE(guard.is_looping());
  read(guard, "_role", 5000);
  guard.roll_back(64);
  EXPECT_TRUE(guard.is_looping());
}

}  // namespace
}  // namespace kvik
