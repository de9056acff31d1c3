#include "service/forms/loop_guard.h"

#include <algorithm>

#include "base/check.h"
#include "engine/sample/constraint.h"

namespace kvik {
namespace {

constexpr size_t kFirstLoopBytes = 384, kNextLoopBytes = 96;
constexpr size_t kMaxPeriod = 96;
constexpr size_t kMinRepeats = 4;
// Of the text, beside what may be rolled back.
constexpr size_t kKeptBytes = 1024;

// The text ends with at least `n_bytes` that repeat a piece.
bool ends_with_loop(std::string_view text, size_t n_bytes) {
  if (text.size() < n_bytes) return false;
  const std::string_view end = text.substr(text.size() - n_bytes);
  const size_t longest = std::min(kMaxPeriod, n_bytes / kMinRepeats);
  for (size_t period = 1; period <= longest; ++period) {
    if (end.substr(period) == end.substr(0, n_bytes - period)) return true;
  }
  return false;
}

}  // namespace

void LoopGuard::look() {
  is_looping_ = ends_with_loop(text_, has_looped_ ? kNextLoopBytes : kFirstLoopBytes);
}

void LoopGuard::read(std::string_view bytes) {
  if (tokens_.size() >= 4 * size_t{kMaxRollBack}) {
    const auto begin = tokens_.begin();
    tokens_.erase(begin, tokens_.end() - static_cast<ptrdiff_t>(kMaxRollBack));
    size_t n_kept = kKeptBytes;
    for (const Token& token : tokens_) n_kept += token.n_bytes;
    if (text_.size() > n_kept) text_.erase(0, text_.size() - n_kept);
  }
  tokens_.push_back({static_cast<uint32_t>(bytes.size()), has_looped_});
  has_looped_ |= is_looping_;
  text_ += bytes;
  look();
}

void LoopGuard::roll_back(uint32_t n_tokens) {
  CHECK(n_tokens <= tokens_.size());
  if (n_tokens == 0) return;
  for (; n_tokens > 0; --n_tokens) {
    text_.resize(text_.size() - tokens_.back().n_bytes);
    has_looped_ = tokens_.back().had_looped;
    tokens_.pop_back();
  }
  look();
}

void LoopGuard::narrow(std::span<uint64_t> mask) const {
  const size_t n_tokens = std::min<size_t>(vocabulary_->n_vocab(), mask.size() * 64);
  const auto with_first = [&](std::string_view firsts) {
    std::vector<uint64_t> made(mask.size());
    for (size_t id = 0; id < n_tokens; ++id) {
      const uint64_t bit = uint64_t{1} << id % 64;
      const std::string& bytes = vocabulary_->bytes(static_cast<TokenId>(id));
      const bool is_allowed = (mask[id / 64] & bit) != 0 && !bytes.empty();
      if (is_allowed && firsts.contains(bytes.front())) made[id / 64] |= bit;
    }
    return made;
  };
  const auto is_empty = [](const std::vector<uint64_t>& bits) {
    return std::ranges::all_of(bits, [](uint64_t word) { return word == 0; });
  };
  // No part of JSON outside strings begins with these.
  const bool is_in_string = !is_empty(with_first("zZxX"));
  if (is_in_string && !is_looping_) return;
  const std::vector<uint64_t> left = with_first(is_in_string ? "\"" : "]}");
  if (!is_empty(left)) std::ranges::copy(left, mask.begin());
}

}  // namespace kvik
