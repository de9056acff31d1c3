#include "text/pre_tokenizer/pre_tokenizer.h"

#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

// Splits a piece by `rule` and writes the ends of the words to `ends`. `begin` is the index of the
// piece's first character in the text. Returns the position after the last end written.
uint32_t* cut(std::span<const Char> piece, size_t begin, const PreTokenizer::Rule& rule,
              uint32_t* ends) {
  const auto push = [&](size_t end) { *ends++ = static_cast<uint32_t>(begin + end); };
  for (size_t at = 0; at < piece.size();) {
    const Match match = rule.match(piece, at);
    // match.begin is the end of the piece if nothing more matches
    if (match.begin > at) push(match.begin);
    if (match.begin == match.end) break;
    if (rule.cut == PreTokenizer::Cut::kGroupsOfThree) {
      const size_t rest = (match.end - match.begin) % 3;
      for (size_t i = match.begin + (rest > 0 ? rest : 3); i < match.end; i += 3) push(i);
    }
    push(match.end);
    at = match.end;
  }
  return ends;
}

}  // namespace

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  CHECK(text.size() < std::numeric_limits<uint32_t>::max());
  const Chars decoded(text);
  const std::span<const Char> chars = decoded.all();
  if (chars.empty()) return {};
  // Each character ends at most one word.
  auto ends = std::make_unique_for_overwrite<uint32_t[]>(chars.size());
  auto finer = std::make_unique_for_overwrite<uint32_t[]>(chars.size());
  size_t n = 1;
  ends[0] = static_cast<uint32_t>(chars.size());
  for (const Rule& rule : rules) {
    uint32_t* next = finer.get();
    size_t begin = 0;
    for (const uint32_t end : std::span(ends.get(), n)) {
      next = cut(chars.subspan(begin, end - begin), begin, rule, next);
      begin = end;
    }
    n = static_cast<size_t>(next - finer.get());
    std::swap(ends, finer);
  }
  std::vector<std::string_view> words;
  words.reserve(n);
  size_t i = 0;
  size_t begin_byte = 0;
  for (const uint32_t end : std::span(ends.get(), n)) {
    size_t n_bytes = 0;
    for (; i < end; ++i) n_bytes += chars[i].n_bytes;
    words.push_back(text.substr(begin_byte, n_bytes));
    begin_byte += n_bytes;
  }
  return words;
}

}  // namespace kvik
