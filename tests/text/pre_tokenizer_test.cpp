#include "text/pre_tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

namespace kvik {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view name, std::string_view text) {
  const auto pre_tokenizer = find_pre_tokenizer(name);
  if (!pre_tokenizer) return {pre_tokenizer.error().message};
  Words words;
  for (const std::string_view word : (*pre_tokenizer)->split(text)) words.emplace_back(word);
  return words;
}

TEST(PreTokenizer, gpt_2_keeps_one_blank_with_the_word_after_it) {
  EXPECT_EQ(split("gpt-2", "Hello  world 12 !?"), (Words{"Hello", " ", " world", " 12", " !?"}));
  EXPECT_EQ(split("gpt-2", "a \n b\t\tc  "), (Words{"a", " \n", " b", "\t", "\t", "c", "  "}));
  EXPECT_EQ(split("gpt-2", ""), Words{});
}

TEST(PreTokenizer, gpt_2_cuts_contractions_in_small_letters) {
  EXPECT_EQ(split("gpt-2", "we're I'LL 'tis don't'"),
            (Words{"we", "'re", " I", "'", "LL", " '", "tis", " don", "'t", "'"}));
}

TEST(PreTokenizer, gpt_2_knows_letters_numbers_and_blanks_beyond_ascii) {
  EXPECT_EQ(split("gpt-2", "\xC3\xA9t\xC3\xA9\xC2\xBD\xE2\x85\xA7\xC2\xA0x"),
            (Words{"\xC3\xA9t\xC3\xA9", "\xC2\xBD\xE2\x85\xA7", "\xC2\xA0", "x"}));
}

TEST(PreTokenizer, bytes_that_are_not_utf8_are_symbols) {
  EXPECT_EQ(split("gpt-2", "a\xFF\xE6\x88 \x80z"), (Words{"a", "\xFF\xE6\x88", " \x80", "z"}));
}

TEST(PreTokenizer, llama_3_takes_digits_in_threes_and_any_symbol_with_the_word_after_it) {
  EXPECT_EQ(split("llama-bpe", "12345 I'LL (see)\n\n  x=1;\n"),
            (Words{"123", "45", " I", "'LL", " (", "see", ")\n\n", " ", " x", "=", "1", ";\n"}));
}

TEST(PreTokenizer, qwen_2_takes_digits_one_by_one) {
  EXPECT_EQ(split("qwen2", "a 42"), (Words{"a", " ", "4", "2"}));
}

TEST(PreTokenizer, falcon_takes_punctuation_out_first) {
  EXPECT_EQ(split("falcon", "it's 1234."), (Words{"it", "'", "s", " ", "123", "4", "."}));
}

TEST(PreTokenizer, deepseek_llm_cuts_ascii_out_of_accented_words) {
  EXPECT_EQ(split("deepseek-llm", "d\xC3\xA9j\xC3\xA0\n 12\xE6\x88\x91\xE6\x83\xB3"),
            (Words{"d", "\xC3\xA9", "j", "\xC3\xA0", "\n", " ", "12", "\xE6\x88\x91\xE6\x83\xB3"}));
}

TEST(PreTokenizer, words_joined_are_the_text_whatever_the_bytes) {
  std::mt19937 random(5);
  const std::string_view alphabet = "a1 '\n\t.Zs\xC3\xA9\xE6\x88\x91\xFF\x80re";
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    for (int i = 0; i < 100; ++i) {
      std::string text;
      for (size_t n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
      std::string joined;
      for (const std::string& word : split(pre_tokenizer.name, text)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      EXPECT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace kvik
