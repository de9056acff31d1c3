#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/pre_tokenizer_patterns.h"

// Compares the scanners with the equivalent regular expressions, run by PCRE2 on generated text.

namespace kvik {
namespace {

// PCRE2's \s has one character more than Unicode's White_Space.
constexpr std::string_view kBlank =
    R"(\t-\r \x{85}\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using Code = std::unique_ptr<pcre2_code, CodeFree>;

Code compile(std::string pattern) {
  // Inside a class, \s becomes a list of characters; outside, it becomes a class. No pattern has \S
  // in a class.
  for (const std::string_view negated : {R"([^\s)", R"([^(\s)"}) {
    const std::string list = replace_all(std::string(negated), "\\s", kBlank);
    pattern = replace_all(std::move(pattern), negated, list);
  }
  pattern = replace_all(std::move(pattern), "\\s", "[" + std::string(kBlank) + "]");
  pattern = replace_all(std::move(pattern), "\\S", "[^" + std::string(kBlank) + "]");
  int error = 0;
  PCRE2_SIZE at = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &at, nullptr));
  EXPECT_TRUE(code) << pattern << " at " << at << ": " << error;
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

// Returns the words, each followed by a dot.
std::string split(const std::vector<Code>& codes, const std::string& text) {
  std::vector<std::string> pieces = {text};
  for (const Code& code : codes) {
    std::vector<std::string> finer;
    const auto add = [&](std::string word) {
      if (!word.empty()) finer.push_back(std::move(word));
    };
    pcre2_match_data* match = pcre2_match_data_create_from_pattern(code.get(), nullptr);
    for (const std::string& piece : pieces) {
      size_t at = 0;
      while (at < piece.size() &&
             pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), at,
                         0, match, nullptr) > 0) {
        const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match);
        add(piece.substr(at, found[0] - at));
        add(piece.substr(found[0], found[1] - found[0]));
        at = found[1];
      }
      add(piece.substr(at));
    }
    pcre2_match_data_free(match);
    pieces = std::move(finer);
  }
  std::string dotted;
  for (const std::string& piece : pieces) (dotted += piece) += "·";
  return dotted;
}

// Returns random text with characters of all kinds that patterns distinguish, common ones more
// often.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {" ",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "   \n ",
                                                 "a",
                                                 "b",
                                                 "Z",
                                                 "K",
                                                 "1",
                                                 "23",
                                                 "4567",
                                                 "'",
                                                 "'s",
                                                 "'LL",
                                                 "'re",
                                                 "'Ve",
                                                 ".",
                                                 ",",
                                                 "!?",
                                                 "/",
                                                 "//",
                                                 "(",
                                                 "|",
                                                 "$",
                                                 "+<=>^~`",
                                                 "_",
                                                 "-",
                                                 "@",
                                                 "é",
                                                 "É",
                                                 "ß",
                                                 "ǅ",
                                                 "ʰ",
                                                 "ª",
                                                 "ж",
                                                 "Ж",
                                                 "א",
                                                 "ب",
                                                 "۔",
                                                 "،",
                                                 "।",
                                                 "हि",
                                                 "ไท",
                                                 "中",
                                                 "文字",
                                                 "ひ",
                                                 "カ",
                                                 "ㄅ",
                                                 "가",
                                                 "ㄱ",
                                                 "〆",
                                                 "々",
                                                 "，",
                                                 "。",
                                                 "！",
                                                 "…",
                                                 "“",
                                                 "—",
                                                 "︰",
                                                 "́",
                                                 "̈",
                                                 "ⅷ",
                                                 "½",
                                                 "٣",
                                                 "९",
                                                 "😀",
                                                 "👨‍👩‍👧",
                                                 "️",
                                                 "\xC2\xA0",
                                                 "\xC2\x85",
                                                 "\xE2\x80\xA8",
                                                 "\xE3\x80\x80",
                                                 "\x01",
                                                 "\x7F",
                                                 "\xEF\xBB\xBF",
                                                 "<sentinel:12>",
                                                 "IMGIMGABZ",
                                                 "        ",
                                                 "Ა",
                                                 "ა",
                                                 "𐐀",
                                                 "ꮿ",
                                                 "ﬀ",
                                                 "€",
                                                 "©",
                                                 "\xE2\x80\x8D",
                                                 "ꜰ",
                                                 "\xE1\xA7\xA0",
                                                 "ｱ"};
  std::string text;
  for (size_t n = 1 + random() % 24; n > 0; --n) text += parts[random() % parts.size()];
  return text;
}

TEST(PreTokenizerRegex, scanners_cut_as_the_expressions_that_they_stand_for) {
  const int n_texts = std::getenv("KVIK_TEST_LONG") ? 100'000 : 3'000;
  for (const auto& [name, patterns] : pre_tokenizer_patterns()) {
    SCOPED_TRACE(name);
    const auto pre_tokenizer = find_pre_tokenizer(name);
    ASSERT_TRUE(pre_tokenizer);
    std::vector<Code> codes;
    for (const std::string& pattern : patterns) codes.push_back(compile(pattern));
    std::mt19937 random(11);
    for (int i = 0; i < n_texts; ++i) {
      const std::string text = random_text(random);
      std::string words;
      for (const std::string_view word : (*pre_tokenizer)->split(text)) (words += word) += "·";
      const std::string expected = split(codes, text);
      EXPECT_EQ(words, expected) << text;
      if (words != expected) break;
    }
  }
}

// Every name is covered: it shares its rules with one that the expressions above describe.
TEST(PreTokenizerRegex, every_name_shares_the_rules_of_one_that_is_compared) {
  const auto matchers = [](const PreTokenizer& pre_tokenizer) {
    std::vector<Matcher> all;
    for (const auto& rule : pre_tokenizer.rules) all.push_back(rule.match);
    return all;
  };
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    if (pre_tokenizer.name == "superbpe") continue;  // its expression matches between characters
    bool is_compared = false;
    for (const auto& entry : pre_tokenizer_patterns()) {
      is_compared |= matchers(**find_pre_tokenizer(entry.first)) == matchers(pre_tokenizer);
    }
    EXPECT_TRUE(is_compared) << pre_tokenizer.name;
  }
}

}  // namespace
}  // namespace kvik
