#include "service/stop_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

std::string StopMatcher::push(std::string_view text) {
  CHECK(!matched_);
  held_ += text;
  size_t first = std::string::npos;
  size_t first_end = std::string::npos;
  for (const std::string& stop : *stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (matched_ && (end > first_end || (end == first_end && at >= first))) continue;
    first = at;
    first_end = end;
    matched_ = stop;
  }
  const size_t n_sent = matched_ ? first : held_.size() - partial_stop_length();
  std::string out = held_.substr(0, n_sent);
  held_.erase(0, n_sent);
  return out;
}

// Returns the length of the longest suffix of held_ that is a proper prefix of a stop string.
size_t StopMatcher::partial_stop_length() const {
  size_t longest = 0;
  for (const std::string& stop : *stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace kvik
