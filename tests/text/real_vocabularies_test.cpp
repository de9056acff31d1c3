#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <sstream>

#include "base/utf8.h"
#include "text/vocabularies.h"

// Each real vocabulary comes with texts (.inp) and the ids that llama.cpp gives for them (.out),
// without BOS and without parsing special tokens.

namespace kvik {
namespace {

std::vector<std::string> read_cases(const std::string& path) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string all = read_text(path);
  std::vector<std::string> cases;
  for (size_t begin = 0;;) {
    const size_t end = all.find(kSeparator, begin);
    if (end == all.npos) return cases;
    cases.push_back(all.substr(begin, end - begin));
    begin = end + kSeparator.size();
  }
}

std::vector<std::vector<TokenId>> read_ids(const std::string& path) {
  std::istringstream lines(read_text(path));
  std::vector<std::vector<TokenId>> all;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    std::vector<TokenId>& ids = all.emplace_back();
    for (TokenId id; numbers >> id;) ids.push_back(id);
  }
  return all;
}

TEST(RealVocabularies, text_becomes_the_ids_that_llama_cpp_makes) {
  for (const std::string& file : vocabulary_files()) {
    SCOPED_TRACE(file);
    const auto metadata = metadata_of_file(file);
    ASSERT_TRUE(metadata);
    const auto tokenizer = load(*metadata);
    const auto cases = read_cases(file + ".inp");
    const auto expected = read_ids(file + ".out");
    ASSERT_EQ(cases.size(), expected.size());
    ASSERT_GT(cases.size(), 40u);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(tokenizer->tokenize(cases[i], {.add_bos = false}), expected[i]) << cases[i];
    }
  }
}

TEST(RealVocabularies, text_comes_back_from_its_ids) {
  for (const std::string& file : vocabulary_files()) {
    SCOPED_TRACE(file);
    const auto tokenizer = load(*metadata_of_file(file));
    if (tokenizer->describe().starts_with("bert")) continue;  // lower-cases and removes accents
    for (const std::string& text : read_cases(file + ".inp")) {
      const auto ids = tokenizer->tokenize(text, {});
      EXPECT_EQ(tokenizer->detokenize(ids, Tokenizer::Special::kHide), text);
    }
  }
}

// Returns random text with characters of all planes, common ones more often, and invalid bytes.
std::string random_text(std::mt19937& random) {
  std::string text;
  for (size_t n = random() % 40; n > 0; --n) {
    const uint32_t pick = random() % 8;
    if (pick < 3) {
      text += static_cast<char>(' ' + random() % 95);
    } else if (pick == 3) {
      text += " \n\t\r"[random() % 4];
    } else if (pick == 4 && random() % 8 == 0) {
      text += static_cast<char>(random());
    } else {
      const uint32_t range = pick < 6 ? 0x800 : pick == 6 ? 0x10000 : 0x110000;
      const char32_t c = random() % range;
      if (c < 0xD800 || c > 0xDFFF) append_utf8(c, text);
    }
  }
  return text;
}

TEST(RealVocabularies, generated_text_comes_back_byte_for_byte_where_the_vocabulary_allows) {
  const int n_texts = std::getenv("KVIK_TEST_LONG") ? 100'000 : 2'000;
  for (const std::string& file : vocabulary_files()) {
    SCOPED_TRACE(file);
    const auto tokenizer = load(*metadata_of_file(file));
    if (tokenizer->describe().starts_with("bert")) continue;  // lower-cases and removes accents
    std::array<bool, 256> has_token{};                        // Falcon has no token for some bytes
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      has_token[byte] = !tokenizer->tokenize(std::string_view(&c, 1), {.add_bos = false}).empty();
    }
    std::mt19937 random(3);
    for (int i = 0; i < n_texts; ++i) {
      const std::string text = random_text(random);
      const bool is_allowed =
          text.find("\xE2\x96\x81") == text.npos &&  // the mark of a blank is decoded as a blank
          std::all_of(text.begin(), text.end(),
                      [&](char c) { return has_token[static_cast<uint8_t>(c)]; });
      if (!is_allowed) continue;
      std::string back;
      for (const TokenId id : tokenizer->tokenize(text, {.add_bos = false})) {
        back += tokenizer->piece(id, Tokenizer::Special::kShow);
      }
      if (tokenizer->strips_leading_space() && back.starts_with(' ')) back.erase(0, 1);
      ASSERT_EQ(back, text);
    }
  }
}

TEST(RealVocabularies, bos_and_the_end_are_those_of_the_model) {
  struct Expected {
    const char* name;
    std::optional<TokenId> bos;
    bool adds_bos;
    std::vector<TokenId> ends;
    const char* description;
  };
  const Expected all[] = {
      {"deepseek-llm",
       100000,
       true,
       {100001},
       "gpt2 (pre-tokenizer deepseek-llm), 102,400 tokens, 99,757 merges"},
      {"falcon", 11, false, {11}, "gpt2 (pre-tokenizer falcon), 65,024 tokens, 64,784 merges"},
      {"gpt-2", 50256, false, {50256}, "gpt2 (pre-tokenizer gpt-2), 50,257 tokens, 50,000 merges"},
      {"llama-spm", 1, true, {2}, "llama (SentencePiece), 32,000 tokens with byte fallback"},
      {"phi-3", 1, true, {32000, 32007}, "llama (SentencePiece), 32,064 tokens with byte fallback"},
  };
  const std::string folder = vocabulary_folder();
  if (folder.empty()) return;
  for (const Expected& expected : all) {
    SCOPED_TRACE(expected.name);
    const auto metadata =
        metadata_of_file(folder + "/ggml-vocab-" + std::string(expected.name) + ".gguf");
    if (!metadata) continue;  // missing in another folder
    const auto tokenizer = load(*metadata);
    const auto ends = tokenizer->end_tokens();
    EXPECT_EQ(tokenizer->bos(), expected.bos);
    EXPECT_EQ(tokenizer->adds_bos(), expected.adds_bos);
    EXPECT_EQ(std::vector(ends.begin(), ends.end()), expected.ends);
    EXPECT_EQ(tokenizer->describe(), expected.description);
  }
}

TEST(RealVocabularies, phi_3_special_tokens_eat_the_newline_after_them) {
  const auto metadata = metadata_of_file(vocabulary_folder() + "/ggml-vocab-phi-3.gguf");
  if (!metadata) return;
  const auto tokenizer = load(*metadata);
  const TokenizeOptions options = {.add_bos = false, .parse_special = true};
  EXPECT_EQ(tokenizer->tokenize("<|user|>\n Hello<|end|>\n<|assistant|>", options),
            tokenizer->tokenize("<|user|>Hello<|end|><|assistant|>", options));
}

TEST(RealVocabularies, the_demo_model_round_trips_a_speech) {
  const auto tokenizer = load_demo();
  const std::string speech =
      "ROMEO:\nBut, soft! what light through yonder window breaks?\nIt is the east, and Juliet is "
      "the sun.\n\n  Arise, fair sun -- and 'tis 1597.\n\n\n";
  const auto ids = tokenizer->tokenize(speech, {});
  ASSERT_GT(ids.size(), 20u);
  EXPECT_LT(ids.size(), speech.size() / 2);
  EXPECT_EQ(ids.front(), tokenizer->bos());
  EXPECT_EQ(tokenizer->detokenize(ids, Tokenizer::Special::kHide), speech);
  EXPECT_EQ(tokenizer->detokenize(ids, Tokenizer::Special::kShow), "<|begin|>" + speech);
}

}  // namespace
}  // namespace kvik
