#include "text/pre_tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"

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

TEST(PreTokenizer, a_text_cut_at_a_split_point_has_the_words_of_the_whole) {
  std::mt19937 random(6);
  constexpr std::u32string_view kAlphabet = U"abcZ12   '\n\n\t./s(\r\u00E9\u0301\u6211\u3002";
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    size_t n_split_points = 0;
    for (int i = 0; i < 1000; ++i) {
      std::string text;
      for (size_t n = random() % 24; n > 0; --n) {
        append_utf8(kAlphabet[random() % kAlphabet.size()], text);
        if (random() % 32 == 0) text += '\xFF';
      }
      const Words whole = split(pre_tokenizer.name, text);
      for (size_t at = 1; at < text.size(); ++at) {
        if (!is_split_point(text, at, pre_tokenizer.window_ends)) continue;
        ++n_split_points;
        Words parts = split(pre_tokenizer.name, text.substr(0, at));
        for (const std::string& word : split(pre_tokenizer.name, text.substr(at)))
          parts.push_back(word);
        ASSERT_EQ(parts, whole) << pre_tokenizer.name << " at " << at;
      }
    }
    // Words of superbpe are the text between numbers.
    if (pre_tokenizer.name != "superbpe") {
      EXPECT_GT(n_split_points, 100u) << pre_tokenizer.name;
    }
  }
}

TEST(PreTokenizer, a_long_text_is_cut_in_windows_that_end_at_split_points) {
  const auto windows = [](std::string_view text) {
    std::vector<size_t> sizes;
    for (; !text.empty(); text.remove_prefix(sizes.back()))
      sizes.push_back(n_window_bytes(text, WindowEnds::kBlanks));
    return sizes;
  };
  using Sizes = std::vector<size_t>;
  std::string early = "a b";
  early.append(kWindowBytes, 'c');
  EXPECT_EQ(windows(early), (Sizes{1, early.size() - 1}));
  std::string late(kWindowBytes + 9, 'c');
  late += " d";
  EXPECT_EQ(windows(late), (Sizes{kWindowBytes + 9, 2}));
  const std::string never(4 * kWindowBytes, 'c');
  EXPECT_EQ(windows(never), (Sizes{never.size()}));
}

}  // namespace
}  // namespace kvik
