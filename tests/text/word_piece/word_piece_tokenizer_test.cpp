#include <gtest/gtest.h>

#include "text/vocabularies.h"

namespace kvik {
namespace {

const std::string kMark = "\xE2\x96\x81";

Metadata toy_word_piece() {
  const std::vector<std::string> tokens = {
      "[PAD]",     "[UNK]", "[CLS]",       "[SEP]",     kMark + "un",          "able",
      kMark + "a", "b",     kMark + "ete", kMark + ",", kMark + "\xE6\x88\x91"};
  std::vector<int64_t> kinds(tokens.size(), 1);
  for (const size_t i : {0, 1, 2, 3}) kinds[i] = 3;
  Metadata metadata;
  metadata.insert("tokenizer.ggml.model", std::string("bert"));
  metadata.insert("tokenizer.ggml.tokens", tokens);
  metadata.insert("tokenizer.ggml.token_type", kinds);
  metadata.insert("tokenizer.ggml.unknown_token_id", uint64_t{1});
  metadata.insert("tokenizer.ggml.cls_token_id", uint64_t{2});
  metadata.insert("tokenizer.ggml.seperator_token_id", uint64_t{3});
  return metadata;
}

using Ids = std::vector<TokenId>;
constexpr TokenizeOptions kPlain = {.add_bos = false};

TEST(WordPieceTokenizer, words_are_cut_into_the_longest_tokens) {
  const auto tokenizer = load(toy_word_piece());
  EXPECT_EQ(tokenizer->tokenize("unable a", kPlain), (Ids{4, 5, 6}));
  EXPECT_EQ(tokenizer->tokenize("ab,a", kPlain), (Ids{6, 7, 9, 6}));
}

TEST(WordPieceTokenizer, case_accents_and_control_characters_do_not_count) {
  const auto tokenizer = load(toy_word_piece());
  EXPECT_EQ(tokenizer->tokenize("\xC3\x89t\xC3\xA9", kPlain), Ids{8});
  EXPECT_EQ(tokenizer->tokenize("E\xCC\x81te\x01", kPlain), Ids{8});
}

TEST(WordPieceTokenizer, a_cjk_character_is_a_word) {
  const auto tokenizer = load(toy_word_piece());
  EXPECT_EQ(tokenizer->tokenize("a\xE6\x88\x91\xE6\x88\x91", kPlain), (Ids{6, 10, 10}));
}

TEST(WordPieceTokenizer, a_word_that_can_not_be_cut_or_is_very_long_is_unknown) {
  const auto tokenizer = load(toy_word_piece());
  EXPECT_EQ(tokenizer->tokenize("abz un", kPlain), (Ids{1, 4}));
  EXPECT_EQ(tokenizer->tokenize("a" + std::string(100, 'b'), kPlain), Ids{1});
}

TEST(WordPieceTokenizer, cls_and_sep_frame_the_text) {
  EXPECT_EQ(load(toy_word_piece())->tokenize("a", {}), (Ids{2, 6, 3}));
}

}  // namespace
}  // namespace kvik
