#include "text/bpe/seams.h"

#include "text/blank_mark.h"
#include "text/vocabulary.h"

namespace kvik {

// A byte of another character counts as one: both halves of a cut one are kOther.
Seams::Step Seams::step(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {byte, 1};
  if (byte == static_cast<uint8_t>(kBlankMark[0]) &&
      text.substr(at, kBlankMark.size()) == kBlankMark) {
    return {kMark, kBlankMark.size()};
  }
  return {kOther, 1};
}

Seams::Seams(const Vocabulary& vocabulary) {
  joined_.set(kOther * (kOther + 1) + kOther);
  for (uint32_t id = 0; id < vocabulary.n_vocab(); ++id) {
    const std::string& text = vocabulary.texts[id];
    const TokenKind kind = vocabulary.kinds[id];
    const bool is_of_text =
        kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kUnused;
    if (text.empty() || !is_of_text) continue;
    Step left = step(text, 0);
    for (size_t at = left.n_bytes; at < text.size();) {
      const Step right = step(text, at);
      joined_.set(left.symbol * (kOther + 1) + right.symbol);
      left = right;
      at += right.n_bytes;
    }
  }
}

size_t Seams::next(std::string_view text, size_t begin) const {
  Step left = step(text, begin);
  size_t at = begin + left.n_bytes;
  while (at < text.size()) {
    const Step right = step(text, at);
    if (!joined_[left.symbol * (kOther + 1) + right.symbol]) return at;
    left = right;
    at += right.n_bytes;
  }
  return at;
}

}  // namespace kvik
