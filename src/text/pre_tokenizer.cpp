#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvik {
namespace {

std::vector<Char> decode(std::string_view text) {
  std::vector<Char> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    const bool is_valid = step.kind == Utf8Step::Kind::kValid;
    chars.push_back(make_char(at, is_valid ? step.code_point : kNotACharacter));
    at += is_valid ? step.n_bytes : 1;
  }
  return chars;
}

// Appends the ends of the words that `rule` makes of a piece, counted from `begin` on.
void cut(std::span<const Char> piece, size_t begin, const PreTokenizer::Rule& rule,
         std::vector<size_t>& ends) {
  for (size_t at = 0; at < piece.size();) {
    const size_t end = rule.match(piece, at);
    if (end == at) {
      ++at;
      continue;
    }
    const bool gap_before = at > 0 && (ends.empty() || ends.back() < begin + at);
    if (gap_before) ends.push_back(begin + at);
    if (rule.cut == PreTokenizer::Cut::kThrees) {
      for (size_t i = at + (end - at) % 3; i < end; i += 3) {
        if (i > at) ends.push_back(begin + i);
      }
    }
    ends.push_back(begin + end);
    at = end;
  }
  if (ends.empty() || ends.back() < begin + piece.size()) ends.push_back(begin + piece.size());
}

}  // namespace

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  const std::vector<Char> chars = decode(text);
  std::vector<size_t> ends;
  if (!chars.empty()) ends.push_back(chars.size());
  for (const Rule& rule : rules) {
    std::vector<size_t> finer;
    finer.reserve(ends.size());
    size_t begin = 0;
    for (const size_t end : ends) {
      cut(std::span(chars).subspan(begin, end - begin), begin, rule, finer);
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

}  // namespace kvik
