#include "text/bpe/split_points.h"

#include "text/blank_mark.h"
#include "text/vocabulary.h"

namespace kvik {

// Returns the symbol at `at`. Each byte of another character counts as kOther, even if the
// character is incomplete.
SplitPoints::Step SplitPoints::step(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {byte, 1};
  if (byte == static_cast<uint8_t>(kSpaceMark[0]) &&
      text.substr(at, kSpaceMark.size()) == kSpaceMark) {
    return {kMark, kSpaceMark.size()};
  }
  return {kOther, 1};
}

SplitPoints::SplitPoints(const Vocabulary& vocabulary) {
  joined_.set(kOther * (kOther + 1) + kOther);
  for (uint32_t id = 0; id < vocabulary.n_vocab(); ++id) {
    const std::string& text = vocabulary.texts[id];
    if (text.empty() || !vocabulary.is_of_text(id)) continue;
    Step left = step(text, 0);
    for (size_t at = left.n_bytes; at < text.size();) {
      const Step right = step(text, at);
      joined_.set(left.symbol * (kOther + 1) + right.symbol);
      left = right;
      at += right.n_bytes;
    }
  }
}

size_t SplitPoints::n_bytes_before_split(std::string_view text) const {
  Step left = step(text, 0);
  size_t at = left.n_bytes;
  while (at < text.size()) {
    const Step right = step(text, at);
    if (!joined_[left.symbol * (kOther + 1) + right.symbol]) return at;
    left = right;
    at += right.n_bytes;
  }
  return at;
}

}  // namespace kvik
