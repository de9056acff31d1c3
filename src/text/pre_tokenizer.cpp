#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/char_class.h"
#include "text/matchers.h"
#include "text/utf8.h"

namespace kvik {
namespace {

std::vector<Char> decode(std::string_view text) {
  std::vector<Char> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (step.kind == Utf8Step::Kind::kValid) {
      chars.push_back({at, step.code_point, class_of(step.code_point)});
      at += step.n_bytes;
    } else {
      chars.push_back({at, kNotACharacter, CharClass::kOther});
      ++at;
    }
  }
  return chars;
}

// Appends the ends of the words that `match` makes of chars[begin, end).
void cut(std::span<const Char> chars, size_t begin, Matcher match, std::vector<size_t>& ends) {
  for (size_t at = 0; at < chars.size();) {
    const size_t end = match(chars, at);
    if (end == at) {
      ++at;
      continue;
    }
    const bool gap_before = at > 0 && (ends.empty() || ends.back() < begin + at);
    if (gap_before) ends.push_back(begin + at);
    ends.push_back(begin + end);
    at = end;
  }
  if (ends.empty() || ends.back() < begin + chars.size()) ends.push_back(begin + chars.size());
}

// One entry per behaviour; names that share it follow as further entries.
const std::vector<PreTokenizer>& pre_tokenizers() {
  static const std::vector<PreTokenizer> all = [] {
    const PreTokenizer gpt2 = {"gpt-2", {match_gpt2}};
    const PreTokenizer llama3 = {"llama-bpe", {match_llama3}, true, true};
    const PreTokenizer qwen2 = {"qwen2", {match_qwen2}};
    const PreTokenizer falcon = {"falcon",
                                 {match_falcon_punctuation, match_gpt2, match_three_digits}};
    const PreTokenizer deepseek = {
        "deepseek-llm",
        {match_newline, match_deepseek_letters, match_deepseek_punctuation, match_trailing_blanks,
         match_deepseek_cjk, match_numbers}};
    const auto alias = [](PreTokenizer like, std::string_view name) {
      like.name = name;
      return like;
    };
    return std::vector<PreTokenizer>{gpt2,
                                     alias(gpt2, "phi-2"),
                                     alias(gpt2, "mpt"),
                                     alias(gpt2, "olmo"),
                                     llama3,
                                     alias(llama3, "llama3"),
                                     alias(llama3, "llama-v3"),
                                     alias(llama3, "falcon3"),
                                     qwen2,
                                     alias(qwen2, "stablelm2"),
                                     alias(qwen2, "deepseek-r1-qwen"),
                                     falcon,
                                     deepseek};
  }();
  return all;
}

}  // namespace

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  const std::vector<Char> chars = decode(text);
  std::vector<size_t> ends;
  if (!chars.empty()) ends.push_back(chars.size());
  for (const Matcher match : matchers) {
    std::vector<size_t> finer;
    finer.reserve(ends.size());
    size_t begin = 0;
    for (const size_t end : ends) {
      cut(std::span(chars).subspan(begin, end - begin), begin, match, finer);
      begin = end;
    }
    ends = std::move(finer);
  }
  std::vector<std::string_view> words;
  words.reserve(ends.size());
  size_t begin_byte = 0;
  for (const size_t end : ends) {
    const size_t end_byte = end < chars.size() ? chars[end].begin : text.size();
    words.push_back(text.substr(begin_byte, end_byte - begin_byte));
    begin_byte = end_byte;
  }
  return words;
}

Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name) {
  std::string supported;
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    if (pre_tokenizer.name == name) return &pre_tokenizer;
    if (!supported.empty()) supported += ", ";
    supported += pre_tokenizer.name;
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("metadata key 'tokenizer.ggml.pre' is '{}', expected one of {}", name,
                          supported));
}

}  // namespace kvik
