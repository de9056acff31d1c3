#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

using Position = Detokenizer::Position;
using Special = Tokenizer::Special;

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (step.kind != Utf8Step::Kind::kValid) return false;
    at += step.n_bytes;
  }
  return true;
}

// Returns the decoded text of one token per byte, piece by piece, followed by the text that was
// held back.
std::vector<std::string> push_bytes(std::string_view bytes) {
  const auto tokenizer = load(toy_bpe());
  Detokenizer detokenizer(*tokenizer, Position::kStart, Special::kHide);
  std::vector<std::string> texts;
  for (const char byte : bytes) texts.push_back(detokenizer.push(static_cast<uint8_t>(byte)));
  texts.push_back(detokenizer.finish());
  return texts;
}

TEST(Detokenizer, an_emoji_comes_out_with_its_last_byte) {
  EXPECT_EQ(push_bytes("a\xF0\x9F\x98\x81"
                       "b"),
            (std::vector<std::string>{"a", "", "", "", "\xF0\x9F\x98\x81", "b", ""}));
}

TEST(Detokenizer, an_emoji_cut_by_the_end_is_one_replacement_character) {
  EXPECT_EQ(push_bytes("\xF0\x9F\x98"), (std::vector<std::string>{"", "", "", "\xEF\xBF\xBD"}));
}

TEST(Detokenizer, an_emoji_cut_by_a_letter_is_replaced_as_soon_as_that_is_clear) {
  EXPECT_EQ(push_bytes("\xF0\x9F"
                       "a"),
            (std::vector<std::string>{"", "",
                                      "\xEF\xBF\xBD"
                                      "a",
                                      ""}));
}

TEST(Detokenizer, bytes_that_begin_no_character_are_replaced_at_once) {
  EXPECT_EQ(push_bytes("\xFF\x80"), (std::vector<std::string>{"\xEF\xBF\xBD", "\xEF\xBF\xBD", ""}));
}

TEST(Detokenizer, a_lone_surrogate_is_three_replacement_characters_as_in_browsers) {
  const auto tokenizer = load(toy_bpe());
  EXPECT_EQ(tokenizer->detokenize(std::vector<TokenId>{0xED, 0xA0, 0x80}, Special::kHide),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Detokenizer, any_tokens_make_utf8_and_pieces_join_to_the_whole) {
  for (const auto& tokenizer : {load_demo(), load(toy_spm({{"a"}, {"\xE6\x88\x91"}}))}) {
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
      std::vector<TokenId> ids;
      for (int n = 0; n < 60; ++n) ids.push_back(random() % std::min(tokenizer->n_vocab(), 300u));
      Detokenizer detokenizer(*tokenizer, Position::kStart, Special::kShow);
      std::string joined;
      for (const TokenId id : ids) {
        const std::string text = detokenizer.push(id);
        EXPECT_TRUE(is_utf8(text));
        joined += text;
      }
      joined += detokenizer.finish();
      EXPECT_TRUE(is_utf8(joined));
      EXPECT_EQ(joined, tokenizer->detokenize(ids, Special::kShow));
    }
  }
}

TEST(Detokenizer, random_characters_come_back_whole) {
  std::mt19937 random(4);
  const auto bpe = load_demo();
  const auto spm = load(toy_spm({{"a"}, {" "}, {"\xE2\x96\x81"}}));
  for (int i = 0; i < 200; ++i) {
    std::string text;
    while (text.size() < 100) {
      std::string bytes;
      for (int n = 0; n < 4; ++n) bytes.push_back(static_cast<char>(random()));
      const Utf8Step step = next_utf8(bytes, 0);
      if (step.kind == Utf8Step::Kind::kValid) text += bytes.substr(0, step.n_bytes);
      if (random() % 4 == 0) text += "a ";
    }
    EXPECT_EQ(bpe->detokenize(bpe->tokenize(text, {}), Special::kHide), text);
    EXPECT_EQ(spm->detokenize(spm->tokenize(text, {}), Special::kHide), text);
  }
}

TEST(Detokenizer, the_dummy_blank_goes_from_the_start_of_a_text_only) {
  const auto tokenizer =
      load(toy_spm({{"\xE2\x96\x81"
                     "a"}}));
  const TokenId bos = 1, word = 259;
  const auto decode = [&](Position position, const std::vector<TokenId>& ids) {
    Detokenizer detokenizer(*tokenizer, position, Special::kHide);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id);
    return text + detokenizer.finish();
  };
  EXPECT_EQ(decode(Position::kStart, {word, word}), "a a");
  EXPECT_EQ(decode(Position::kStart, {bos, word}), "a");
  EXPECT_EQ(decode(Position::kContinuation, {word, word}), " a a");
}

TEST(Detokenizer, control_tokens_are_shown_only_where_asked) {
  const auto tokenizer = load(toy_bpe());
  const std::vector<TokenId> ids = {256, 'a', 257};
  EXPECT_EQ(tokenizer->detokenize(ids, Special::kHide), "a");
  EXPECT_EQ(tokenizer->detokenize(ids, Special::kShow), "<|begin|>a<|end|>");
}

}  // namespace
}  // namespace kvik
