#include "constrain/code_points.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvik::constrain {
namespace {

constexpr CodePointSet::Range kSurrogates{0xD800, 0xDFFF};

using Range = CodePointSet::Range;

// Returns the first range that ends at or after `c`.
auto find_range(const std::vector<Range>& ranges, char32_t c) {
  return std::ranges::lower_bound(ranges, c, {}, &Range::last);
}

}  // namespace

CodePointSet::CodePointSet(std::vector<Range> ranges) {
  std::ranges::sort(ranges);
  const auto put = [&](char32_t first, char32_t last) {
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, last);
    } else {
      ranges_.push_back({first, last});
    }
  };
  for (auto [first, last] : ranges) {
    last = std::min(last, kMaxCodePoint);
    if (last < kSurrogates.first || first > kSurrogates.last) {
      put(first, last);
      continue;
    }
    if (first < kSurrogates.first) put(first, kSurrogates.first - 1);
    put(kSurrogates.last + 1, last);
  }
}

CodePointSet CodePointSet::all() { return {{0, kMaxCodePoint}}; }

bool CodePointSet::contains(char32_t c) const { return meets(c, c); }

bool CodePointSet::meets(char32_t first, char32_t last) const {
  const auto found = find_range(ranges_, first);
  return found != ranges_.end() && found->first <= last;
}

CodePointSet CodePointSet::operator|(const CodePointSet& other) const {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(both));
}

CodePointSet CodePointSet::operator&(const CodePointSet& other) const {
  std::vector<Range> both;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const char32_t first = std::max(ranges_[i].first, other.ranges_[j].first);
    const char32_t last = std::min(ranges_[i].last, other.ranges_[j].last);
    if (first <= last) both.push_back({first, last});
    ++(ranges_[i].last < other.ranges_[j].last ? i : j);
  }
  return CodePointSet(std::move(both));
}

CodePointSet CodePointSet::complement() const {
  std::vector<Range> rest;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) rest.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kMaxCodePoint) rest.push_back({next, kMaxCodePoint});
  return CodePointSet(std::move(rest));
}

std::u32string to_characters(std::string_view utf8) {
  std::u32string characters;
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Step step = next_utf8(utf8, at);
    characters.push_back(step.kind == Utf8Step::Kind::kValid ? step.code_point : U'\uFFFD');
    at += step.n_bytes;
  }
  return characters;
}

}  // namespace kvik::constrain
