#include <gtest/gtest.h>

#include <utility>

#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/vocabularies.h"

// A megabyte of text that is hard for tokenizers. Nothing is timed here: a quadratic step would
// take hours.

namespace kvik {
namespace {

std::string repeat(std::string_view unit) {
  std::string text;
  while (text.size() < size_t{1} << 20) text += unit;
  return text;
}

// Returns toy vocabularies in which every power-of-two run of a letter is a token, which gives the
// longest chains of merges.
std::unique_ptr<Tokenizer> chain_bpe() {
  std::vector<std::string> merges;
  for (std::string half = "a"; half.size() <= 4096; half += half)
    merges.push_back(half + " " + half);
  return load(toy_bpe(merges));
}

std::unique_ptr<Tokenizer> chain_spm() {
  std::vector<ToyPiece> pieces = {{"a"}, {"\xE2\x96\x81"}};
  for (std::string text = "aa"; text.size() <= 4096; text += text) pieces.push_back({text, -1});
  return load(toy_spm(pieces));
}

class HostileText : public testing::TestWithParam<const char*> {
 protected:
  const std::string text_ = repeat(GetParam());
};

TEST_P(HostileText, a_megabyte_of_it_becomes_tokens_and_text_again) {
  for (const auto& tokenizer : {load_demo(), chain_bpe(), chain_spm()}) {
    SCOPED_TRACE(tokenizer->describe());
    const auto ids = tokenizer->tokenize(text_, {.add_bos = false});
    const auto back = tokenizer->detokenize(ids, Tokenizer::Special::kShow);
    const bool is_utf8 = back.find("\xEF\xBF\xBD") == back.npos;
    const std::string_view unit = GetParam();
    EXPECT_EQ(is_utf8, unit != "\xFF" && unit != "\xE6\x88");
    if (is_utf8) {
      EXPECT_TRUE(back == text_);
    }
  }
}

TEST_P(HostileText, a_megabyte_of_it_is_searched_for_special_tokens) {
  for (const auto& tokenizer : {load_demo(), load(toy_spm())}) {
    EXPECT_FALSE(tokenizer->tokenize(text_, {.add_bos = false, .parse_special = true}).empty());
  }
}

TEST_P(HostileText, much_of_it_is_cut_into_words_by_every_pre_tokenizer) {
  const std::string_view text = std::string_view(text_).substr(0, size_t{1} << 18);
  // One pre-tokenizer of each behavior: those that differ only in name are adjacent.
  Matcher seen = nullptr;
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    if (std::exchange(seen, pre_tokenizer.rules.back().match) == pre_tokenizer.rules.back().match) {
      continue;
    }
    size_t n_bytes = 0;
    for (const auto word : pre_tokenizer.split(text)) n_bytes += word.size();
    EXPECT_EQ(n_bytes, text.size()) << pre_tokenizer.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Units, HostileText,
                         testing::Values("a", " ", "\n", "7", "'", "\t x", "    \n", "\xE6\x88\x91",
                                         "\xF0\x9F\x98\x81", "\xFF", "\xE6\x88", "<0x0A>", "<|<|<|",
                                         "<|end|>", "<|endoftext|", "</s><s>", "'re",
                                         "\xE3\x80\x80"),
                         [](const auto& unit) { return "unit_" + std::to_string(unit.index); });

}  // namespace
}  // namespace kvik
