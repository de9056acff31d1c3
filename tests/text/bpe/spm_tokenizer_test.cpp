#include <gtest/gtest.h>

#include <random>

#include "text/vocabularies.h"

namespace kvik {
namespace {

constexpr TokenizeOptions kPlain = {.add_bos = false};
const std::string kMark = "\xE2\x96\x81";

std::vector<std::string> names(const Tokenizer& tokenizer, std::string_view text,
                               const TokenizeOptions& options = kPlain) {
  std::vector<std::string> all;
  for (const TokenId id : tokenizer.tokenize(text, options)) {
    all.push_back(tokenizer.piece(id, Tokenizer::Special::kShow));
  }
  return all;
}

const std::vector<ToyPiece>& abc() {
  static const std::vector<ToyPiece> pieces = {{"a", -1},          {"b", -2},   {"c", -3},
                                               {kMark, -4},        {"ab", -10}, {"bc", -5},
                                               {kMark + "a", -20}, {"aa", -6}};
  return pieces;
}

TEST(SpmTokenizer, the_highest_score_joins_first_and_the_leftmost_among_equals) {
  const auto tokenizer = load(with(toy_spm(abc()), "tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(names(*tokenizer, "abc"), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(names(*tokenizer, "abab"), (std::vector<std::string>{"ab", "ab"}));
  EXPECT_EQ(names(*tokenizer, "aaa"), (std::vector<std::string>{"aa", "a"}));
}

TEST(SpmTokenizer, a_blank_is_put_before_the_text_and_taken_from_it_again) {
  const auto tokenizer = load(toy_spm(abc()));
  EXPECT_EQ(names(*tokenizer, "a"), std::vector<std::string>{" a"});
  EXPECT_EQ(names(*tokenizer, " a"), (std::vector<std::string>{" ", " a"}));
  EXPECT_TRUE(tokenizer->tokenize("", kPlain).empty());
  for (const std::string text : {"a", " a", "  ab c ", ""}) {
    EXPECT_EQ(tokenizer->detokenize(tokenizer->tokenize(text, {}), Tokenizer::Special::kHide),
              text);
  }
}

TEST(SpmTokenizer, text_after_a_special_token_begins_with_a_blank_too) {
  const auto tokenizer = load(toy_spm(abc()));
  EXPECT_EQ(names(*tokenizer, "<s>a</s>a", {.add_bos = false, .parse_special = true}),
            (std::vector<std::string>{"<s>", " a", "</s>", " a"}));
}

TEST(SpmTokenizer, characters_without_a_token_become_bytes) {
  const auto tokenizer = load(with(toy_spm(abc()), "tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(tokenizer->tokenize("a\xC3\xA9\n", kPlain),
            (std::vector<TokenId>{259, 3 + 0xC3, 3 + 0xA9, 3 + '\n'}));
  EXPECT_EQ(tokenizer->tokenize("\xFF", kPlain), std::vector<TokenId>{3 + 0xFF});
}

TEST(SpmTokenizer, a_vocabulary_without_byte_tokens_has_one_unknown_token_for_a_character) {
  Metadata metadata = toy_spm({{"a"}});
  metadata = with(metadata, "tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "a"});
  metadata = with(metadata, "tokenizer.ggml.token_type", std::vector<int64_t>{2, 1});
  metadata = with(metadata, "tokenizer.ggml.scores", std::vector<double>{0, 0});
  metadata = with(metadata, "tokenizer.ggml.add_space_prefix", false);
  metadata = with(metadata, "tokenizer.ggml.bos_token_id", std::nullopt);
  metadata = with(metadata, "tokenizer.ggml.eos_token_id", std::nullopt);
  EXPECT_EQ(load(metadata)->tokenize("a\xF0\x9F\x98\x81", kPlain), (std::vector<TokenId>{1, 0}));
}

TEST(SpmTokenizer, the_text_of_a_byte_token_is_plain_text) {
  std::vector<ToyPiece> pieces;
  for (const char* text : {"<", "0", "x", "A", ">", "<0", "<0x", "<0x0", "<0x0A"}) {
    pieces.push_back({text, 0});
  }
  const auto tokenizer = load(with(toy_spm(pieces), "tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(names(*tokenizer, "<0x0A>"), (std::vector<std::string>{"<0x0A", ">"}));
}

TEST(SpmTokenizer, unused_tokens_are_neither_made_nor_shown) {
  const auto tokenizer =
      load(with(toy_spm({{"a"}, {"b"}, {"ab", 5, 5}}), "tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(names(*tokenizer, "ab"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(tokenizer->kind(261), TokenKind::kUnused);
  EXPECT_EQ(tokenizer->piece(261, Tokenizer::Special::kHide), "");
}

TEST(SpmTokenizer, any_bytes_come_back_as_pieces) {
  const auto tokenizer = load(with(toy_spm(abc()), "tokenizer.ggml.add_space_prefix", false));
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    std::string bytes;
    for (size_t n = random() % 100; n > 0; --n) bytes.push_back(static_cast<char>(random()));
    std::string back;
    for (const TokenId id : tokenizer->tokenize(bytes, kPlain)) {
      back += tokenizer->piece(id, Tokenizer::Special::kShow);
    }
    EXPECT_EQ(back, bytes);
  }
}

TEST(SpmTokenizer, a_file_that_names_no_special_tokens_has_those_of_llama) {
  Metadata metadata = toy_spm();
  for (const char* name : {"bos", "eos", "unknown"}) {
    metadata = with(metadata, std::string("tokenizer.ggml.") + name + "_token_id", std::nullopt);
  }
  const auto tokenizer = load(metadata);
  EXPECT_EQ(tokenizer->bos(), 1u);
  EXPECT_TRUE(tokenizer->adds_bos());
  ASSERT_EQ(tokenizer->end_tokens().size(), 1u);
  EXPECT_EQ(tokenizer->end_tokens()[0], 2u);
}

}  // namespace
}  // namespace kvik
