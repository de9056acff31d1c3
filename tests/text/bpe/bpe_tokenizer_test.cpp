#include <gtest/gtest.h>

#include <random>

#include "text/vocabularies.h"

namespace kvik {
namespace {

constexpr TokenizeOptions kPlain = {.add_bos = false};

std::string random_bytes(std::mt19937& random, size_t n) {
  std::string bytes;
  for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(random()));
  return bytes;
}

// Returns the concatenated bytes of all pieces, before a detokenizer repairs invalid UTF-8.
std::string pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.piece(id, Tokenizer::Special::kShow);
  return bytes;
}

std::vector<std::string> words(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> all;
  for (const TokenId id : tokenizer.tokenize(text, kPlain)) {
    all.push_back(tokenizer.piece(id, Tokenizer::Special::kShow));
  }
  return all;
}

TEST(BpeTokenizer, the_earliest_merge_joins_first_and_the_leftmost_among_equals) {
  const auto tokenizer = load(toy_bpe({"b c", "a b", "bc d", "a a"}));
  EXPECT_EQ(words(*tokenizer, "abcd"), (std::vector<std::string>{"a", "bcd"}));
  EXPECT_EQ(words(*tokenizer, "abab"), (std::vector<std::string>{"ab", "ab"}));
  EXPECT_EQ(words(*tokenizer, "aaaaa"), (std::vector<std::string>{"aa", "aa", "a"}));
}

TEST(BpeTokenizer, nothing_joins_across_words) {
  const auto tokenizer = load(toy_bpe({"a \xC4\xA0", "\xC4\xA0 a"}));
  EXPECT_EQ(words(*tokenizer, "a a"), (std::vector<std::string>{"a", " a"}));
}

TEST(BpeTokenizer, a_merge_whose_result_is_no_token_is_left_out) {
  Metadata metadata = toy_bpe({"a b"});
  metadata = with(metadata, "tokenizer.ggml.merges", std::vector<std::string>{"x y", "a b"});
  EXPECT_EQ(words(*load(metadata), "xyab"), (std::vector<std::string>{"x", "y", "ab"}));
}

TEST(BpeTokenizer, any_bytes_come_back) {
  const auto tokenizer = load_demo();
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = random_bytes(random, random() % 200);
    EXPECT_EQ(pieces(*tokenizer, tokenizer->tokenize(bytes, kPlain)), bytes);
  }
}

TEST(BpeTokenizer, a_lone_surrogate_a_nul_and_a_cut_character_are_bytes) {
  const auto tokenizer = load(toy_bpe());
  for (const std::string& bytes :
       {std::string("\xED\xA0\x80"), std::string("a\0b", 3), std::string("\xF0\x9F\x98"),
        std::string("\xC0\xAF"), std::string("\xFF \xFE")}) {
    const auto ids = tokenizer->tokenize(bytes, kPlain);
    EXPECT_EQ(ids.size(), bytes.size());
    EXPECT_EQ(pieces(*tokenizer, ids), bytes);
  }
}

TEST(BpeTokenizer, a_text_longer_than_one_part_comes_back) {
  const auto tokenizer = load_demo();
  std::string text;
  while (text.size() < (size_t{33} << 20)) text += "\xE6\x88\x91 was here ";  // parts end inside 我
  EXPECT_EQ(pieces(*tokenizer, tokenizer->tokenize(text, kPlain)), text);
}

TEST(BpeTokenizer, bos_and_eos_come_where_both_the_caller_and_the_vocabulary_ask) {
  const Metadata plain = toy_bpe();
  const Metadata asks =
      with(with(plain, "tokenizer.ggml.add_bos_token", true), "tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(load(plain)->tokenize("a", {}).size(), 1u);
  EXPECT_EQ(load(asks)->tokenize("a", kPlain).size(), 1u);
  EXPECT_EQ(load(asks)->tokenize("a", {}), (std::vector<TokenId>{256, 'a', 257}));
}

TEST(BpeTokenizer, llama_3_takes_whole_words_before_merges_and_adds_bos) {
  // "abc" is a token that no merge produces.
  Metadata metadata = toy_bpe({"a b", "b c"});
  auto tokens = **metadata.get_strings("tokenizer.ggml.tokens");
  tokens.push_back("abc");
  metadata = with(metadata, "tokenizer.ggml.tokens", tokens);
  metadata = with(metadata, "tokenizer.ggml.token_type", std::nullopt);
  EXPECT_EQ(words(*load(metadata), "abc"), (std::vector<std::string>{"ab", "c"}));
  metadata = with(metadata, "tokenizer.ggml.pre", std::string("llama-bpe"));
  EXPECT_EQ(words(*load(metadata), "abc"), (std::vector<std::string>{"abc"}));
  EXPECT_TRUE(load(metadata)->adds_bos());
}

TEST(BpeTokenizer, a_byte_without_a_token_is_left_out) {
  Metadata metadata = toy_bpe();
  auto tokens = **metadata.get_strings("tokenizer.ggml.tokens");
  tokens['q'] = "something else";
  metadata = with(metadata, "tokenizer.ggml.tokens", tokens);
  EXPECT_EQ(words(*load(metadata), "aqa"), (std::vector<std::string>{"a", "a"}));
  EXPECT_TRUE(load(metadata)->tokenize("q", kPlain).empty());
}

TEST(BpeTokenizer, a_file_without_a_pre_tokenizer_means_the_default_one) {
  for (const auto& pre :
       {std::optional<Metadata::Value>(), std::optional<Metadata::Value>(std::string("default"))}) {
    const auto tokenizer = load(with(toy_bpe(), "tokenizer.ggml.pre", pre));
    EXPECT_EQ(tokenizer->describe(), "gpt2 (pre-tokenizer default), 258 tokens, 0 merges");
  }
}

// Gemma 4's vocabulary has characters in place of bytes, and blanks as U+2581.
TEST(BpeTokenizer, gemma_4_joins_characters_and_spells_unknown_ones_in_bytes) {
  const std::string mark = "\xE2\x96\x81";
  Metadata metadata = toy_spm({{"a"}, {"\xC3\xA9"}, {mark}, {mark + "a"}, {"\n"}, {"\n\n"}});
  metadata = with(metadata, "tokenizer.ggml.model", std::string("gemma4"));
  metadata.insert("tokenizer.ggml.merges", std::vector<std::string>{mark + " a", "\n \n"});
  const auto tokenizer = load(metadata);
  const std::string text = "a a\xC3\xA9\n\nz";
  const auto ids = tokenizer->tokenize(text, kPlain);
  EXPECT_EQ(ids, (std::vector<TokenId>{259, 262, 260, 264, 3 + 'z'}));
  EXPECT_EQ(tokenizer->detokenize(ids, Tokenizer::Special::kHide), text);
}

TEST(BpeTokenizer, gemma_4_merges_may_name_blanks_that_the_tokens_spell_out) {
  const std::string mark = "\xE2\x96\x81";
  Metadata metadata = toy_spm({{"a"}, {mark}, {"  ", 0, 4}, {"   ", 0, 4}});
  metadata = with(metadata, "tokenizer.ggml.model", std::string("gemma4"));
  metadata.insert("tokenizer.ggml.merges",
                  std::vector<std::string>{mark + " " + mark, mark + mark + " " + mark});
  const auto tokenizer = load(metadata);
  EXPECT_EQ(tokenizer->tokenize("a   a", kPlain), (std::vector<TokenId>{259, 262, 259}));
}

}  // namespace
}  // namespace kvik
