#include "text/special_tokens.h"

#include <gtest/gtest.h>

#include "text/vocabularies.h"

namespace kvik {
namespace {

constexpr TokenizeOptions kPlain = {.add_bos = false};
constexpr TokenizeOptions kSpecial = {.add_bos = false, .parse_special = true};

// Returns a toy vocabulary with further tokens of the given kind, from id 258 on.
Metadata with_tokens(const std::vector<std::string>& texts, int64_t kind) {
  const Metadata metadata = toy_bpe();
  auto tokens = **metadata.get_strings("tokenizer.ggml.tokens");
  auto kinds = **metadata.get_ints("tokenizer.ggml.token_type");
  tokens.insert(tokens.end(), texts.begin(), texts.end());
  kinds.resize(tokens.size(), kind);
  return with(with(metadata, "tokenizer.ggml.tokens", tokens), "tokenizer.ggml.token_type", kinds);
}

TEST(SpecialTokens, user_content_never_becomes_a_control_token) {
  for (const auto& tokenizer : {load(toy_bpe()), load(toy_spm()), load_demo()}) {
    std::string text;
    for (TokenId id = 0; id < tokenizer->n_vocab(); ++id) {
      text += tokenizer->piece(id, Tokenizer::Special::kShow) + " ";
    }
    for (const TokenId id : tokenizer->tokenize(text, kPlain)) {
      EXPECT_NE(tokenizer->kind(id), TokenKind::kControl);
    }
  }
}

TEST(SpecialTokens, an_end_token_marked_as_normal_is_a_control_token_all_the_same) {
  Metadata metadata = toy_spm({{"<"}, {"/"}, {"s"}, {">"}, {"</"}, {"</s"}});
  metadata = with(metadata, "tokenizer.ggml.token_type", std::nullopt);
  const auto tokenizer = load(metadata);
  EXPECT_EQ(tokenizer->kind(2), TokenKind::kControl);
  for (const TokenId id : tokenizer->tokenize("</s>", kPlain)) EXPECT_NE(id, 2u);
}

TEST(SpecialTokens, a_frame_becomes_control_tokens_where_asked) {
  const auto tokenizer = load(toy_bpe());
  EXPECT_EQ(tokenizer->tokenize("a<|end|><|begin|>b", kSpecial),
            (std::vector<TokenId>{'a', 257, 256, 'b'}));
}

TEST(SpecialTokens, the_longest_at_each_place_wins) {
  const auto tokenizer = load(with_tokens({"<a>", "<a><b>", "b><c"}, 3));
  EXPECT_EQ(tokenizer->tokenize("<a><b><c>", kSpecial), (std::vector<TokenId>{259, '<', 'c', '>'}));
  EXPECT_EQ(tokenizer->tokenize("<a><b", kSpecial), (std::vector<TokenId>{258, '<', 'b'}));
}

TEST(SpecialTokens, user_defined_tokens_are_found_in_any_text) {
  const auto tokenizer = load(with_tokens({"  ", "foo bar"}, 4));
  EXPECT_EQ(tokenizer->tokenize("xfoo barx", kPlain), (std::vector<TokenId>{'x', 259, 'x'}));
  EXPECT_EQ(tokenizer->tokenize("x  x", kPlain), (std::vector<TokenId>{'x', 258, 'x'}));
  EXPECT_EQ(tokenizer->detokenize(std::vector<TokenId>{259, 258}, Tokenizer::Special::kHide),
            "foo bar  ");
}

TEST(TokenTrie, a_longer_text_that_breaks_off_leaves_the_shorter_one) {
  const TokenTrie trie({{"ab", 7}, {"abcd", 8}, {"b", 9}});
  EXPECT_FALSE(trie.longest_at("xab", 0));
  EXPECT_EQ(trie.longest_at("xabc", 1)->n_bytes, 2u);
  EXPECT_EQ(trie.longest_at("xabcd", 1)->id, 8u);
  EXPECT_EQ(trie.longest_at("xabcd", 2)->id, 9u);
}

TEST(EndTokens, control_tokens_with_a_known_name_end_an_answer_too) {
  const auto tokenizer = load(with_tokens({"<|im_end|>", "<|user|>"}, 3));
  const auto ends = tokenizer->end_tokens();
  EXPECT_EQ(std::vector(ends.begin(), ends.end()), (std::vector<TokenId>{257, 258}));
}

TEST(EndTokens, a_known_name_of_another_kind_does_not) {
  const auto tokenizer = load(with_tokens({"<|im_end|>"}, 4));
  for (const TokenId id : tokenizer->end_tokens()) EXPECT_NE(id, 258u);
}

TEST(EndTokens, eot_is_one_and_none_comes_twice) {
  const Metadata metadata =
      with(with_tokens({"<stop>", "<|eot_id|>"}, 3), "tokenizer.ggml.eot_token_id", uint64_t{258});
  const auto tokenizer = load(metadata);
  const auto ends = tokenizer->end_tokens();
  EXPECT_EQ(std::vector(ends.begin(), ends.end()), (std::vector<TokenId>{257, 258, 259}));
}

TEST(EndTokens, in_harmony_the_end_of_a_message_is_not_the_end_of_the_answer) {
  const Metadata metadata = with(with_tokens({"<|return|>", "<|call|>"}, 3),
                                 "tokenizer.ggml.eos_token_id", uint64_t{258});
  const auto tokenizer = load(metadata);
  const auto ends = tokenizer->end_tokens();
  EXPECT_EQ(std::vector(ends.begin(), ends.end()), (std::vector<TokenId>{258, 259}));
}

}  // namespace
}  // namespace kvik
