#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik {

// Searches a growing text for stop strings, which may span any number of pieces. Text that may be
// the beginning of a stop string is held back, so no part of a stop string is ever sent. The stop
// string that ends first wins; among those that end at the same byte, the longest. The result does
// not depend on how the text is divided into pieces.
class StopMatcher {
 public:
  // Shared by all choices of a request, of which there may be many.
  using Stops = std::shared_ptr<const std::vector<std::string>>;

  // Requires that no stop string is empty.
  explicit StopMatcher(std::vector<std::string> stops)
      : stops_(std::make_shared<const std::vector<std::string>>(std::move(stops))) {}
  // Returns a matcher that shares the stop strings; null: none.
  static StopMatcher sharing(Stops stops) {
    StopMatcher matcher({});
    if (stops) matcher.stops_ = std::move(stops);
    return matcher;
  }

  // Adds text and returns what can be sent now; on a match, the text before the stop string.
  std::string push(std::string_view text);

  // Returns the held-back text at the end of the input; empty after a match.
  std::string finish() { return matched_ ? std::string() : std::exchange(held_, {}); }

  // Returns the text that was pushed but not returned: after a match, the stop string and the text
  // after it.
  const std::string& held() const { return held_; }

  // Returns the matched stop string. No text may be pushed after a match.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  size_t partial_stop_length() const;

  Stops stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace kvik
