#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "text/vocabularies.h"

// Each invalid file is rejected with one sentence that names the faulty key.

namespace kvik {
namespace {

using Strings = std::vector<std::string>;
using testing::HasSubstr;

void expect_refused(const Metadata& metadata, ErrorCode code, const std::string& words) {
  const auto tokenizer = Tokenizer::from_metadata(metadata);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  EXPECT_THAT(tokenizer.error().message, HasSubstr(words));
}

void expect_corrupt(const Metadata& metadata, const std::string& words) {
  expect_refused(metadata, ErrorCode::kCorrupt, words);
}

Strings tokens_of(const Metadata& metadata) {
  return **metadata.get_strings("tokenizer.ggml.tokens");
}

TEST(CorruptVocabulary, no_model_name) {
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.model", std::nullopt), "tokenizer.ggml.model");
}

TEST(CorruptVocabulary, an_unknown_model_is_unsupported) {
  expect_refused(with(toy_bpe(), "tokenizer.ggml.model", std::string("rwkv")),
                 ErrorCode::kUnsupported, "'rwkv'");
}

TEST(CorruptVocabulary, an_unknown_pre_tokenizer_is_unsupported_and_the_known_ones_are_named) {
  const Metadata metadata = with(toy_bpe(), "tokenizer.ggml.pre", std::string("klingon"));
  expect_refused(metadata, ErrorCode::kUnsupported, "'klingon'");
  expect_refused(metadata, ErrorCode::kUnsupported, "gpt-2");
}

TEST(CorruptVocabulary, a_key_of_the_wrong_type) {
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.tokens", uint64_t{3}), "tokenizer.ggml.tokens");
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.model", uint64_t{3}), "tokenizer.ggml.model");
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.merges", uint64_t{3}), "tokenizer.ggml.merges");
  expect_corrupt(with(toy_spm(), "tokenizer.ggml.scores", Strings{}), "tokenizer.ggml.scores");
  expect_corrupt(with(toy_spm(), "tokenizer.ggml.bos_token_id", std::string("1")),
                 "tokenizer.ggml.bos_token_id");
  expect_corrupt(with(toy_spm(), "tokenizer.ggml.add_bos_token", uint64_t{1}),
                 "tokenizer.ggml.add_bos_token");
}

TEST(CorruptVocabulary, no_tokens) {
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.tokens", std::nullopt), "is missing");
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.tokens", Strings{}), "is empty");
}

TEST(CorruptVocabulary, more_tokens_than_any_model_has) {
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.tokens", Strings((size_t{1} << 24) + 1)),
                 "16777217 tokens");
}

TEST(CorruptVocabulary, a_token_twice) {
  Strings tokens = tokens_of(toy_bpe());
  tokens[7] = tokens[9];
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.tokens", tokens), "twice, as 7 and 9");
}

TEST(CorruptVocabulary, empty_tokens_are_padding_and_load) {
  Strings tokens = tokens_of(toy_bpe());
  tokens.insert(tokens.end(), {"", ""});
  Metadata metadata = with(toy_bpe(), "tokenizer.ggml.tokens", tokens);
  metadata = with(metadata, "tokenizer.ggml.token_type", std::nullopt);
  EXPECT_EQ(load(metadata)->n_vocab(), 260u);
}

TEST(CorruptVocabulary, kinds_that_are_too_few_or_out_of_range) {
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.token_type", std::vector<int64_t>(257, 1)),
                 "'tokenizer.ggml.token_type' has 257 values, expected one for each of 258");
  for (const int64_t kind : {int64_t{-1}, int64_t{0}, int64_t{7}, int64_t{1} << 40}) {
    std::vector<int64_t> kinds(258, 1);
    kinds[5] = kind;
    expect_corrupt(with(toy_bpe(), "tokenizer.ggml.token_type", kinds), "for token 5");
  }
}

TEST(CorruptVocabulary, scores_that_are_too_many_or_no_numbers) {
  expect_corrupt(with(toy_spm(), "tokenizer.ggml.scores", std::vector<double>(260, 0.0)),
                 "'tokenizer.ggml.scores' has 260 values");
  std::vector<double> scores(259, 0.0);
  scores[8] = std::nan("");
  expect_corrupt(with(toy_spm(), "tokenizer.ggml.scores", scores), "NaN for token 8");
}

TEST(CorruptVocabulary, a_special_id_outside_the_vocabulary) {
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    expect_corrupt(with(toy_bpe(), key, uint64_t{258}), key);
    expect_corrupt(with(toy_bpe(), key, ~uint64_t{0}), key);
    expect_corrupt(with(toy_bpe(), key, int64_t{-1}), key);
  }
}

TEST(CorruptVocabulary, bos_is_to_be_added_but_there_is_none) {
  Metadata metadata = with(toy_bpe(), "tokenizer.ggml.add_bos_token", true);
  metadata = with(metadata, "tokenizer.ggml.bos_token_id", std::nullopt);
  expect_corrupt(metadata, "tokenizer.ggml.bos_token_id");
}

TEST(CorruptVocabulary, eos_is_to_be_added_but_there_is_none) {
  Metadata metadata = with(toy_bpe(), "tokenizer.ggml.add_eos_token", true);
  metadata = with(metadata, "tokenizer.ggml.eos_token_id", std::nullopt);
  expect_corrupt(metadata, "tokenizer.ggml.eos_token_id");
}

TEST(CorruptVocabulary, no_merges) {
  expect_corrupt(with(toy_bpe(), "tokenizer.ggml.merges", std::nullopt), "tokenizer.ggml.merges");
}

TEST(CorruptVocabulary, a_merge_that_is_not_two_tokens) {
  for (const char* merge : {"", " ", "ab", "a ", " a"}) {
    expect_corrupt(with(toy_bpe(), "tokenizer.ggml.merges", Strings{merge}),
                   "expected two tokens separated by a space");
  }
  for (const char* merge : {"a xyz", "xyz a", "a b c"}) {
    expect_corrupt(with(toy_bpe(), "tokenizer.ggml.merges", Strings{merge}), "is not a token");
  }
}

TEST(CorruptVocabulary, a_byte_token_that_spells_no_byte) {
  for (const char* text : {"<0xG1>", "<0x1>", "0x01", "", "<0x0 >", "<0x-1>"}) {
    Strings tokens = tokens_of(toy_spm());
    tokens[4] = text;
    expect_corrupt(with(toy_spm(), "tokenizer.ggml.tokens", tokens), "expected <0x00> to <0xFF>");
  }
}

TEST(CorruptVocabulary, a_missing_byte_and_no_unknown_token) {
  Metadata spm = toy_spm();
  Strings tokens = tokens_of(spm);
  tokens[3 + 0x41] = "A";
  std::vector<int64_t> kinds(tokens.size(), 1);
  spm = with(spm, "tokenizer.ggml.tokens", tokens);
  spm = with(spm, "tokenizer.ggml.token_type", kinds);
  spm = with(spm, "tokenizer.ggml.unknown_token_id", std::nullopt);
  expect_corrupt(spm, "no '<0x41>'");
}

}  // namespace
}  // namespace kvik
