#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik {

// Watches a growing text for stop strings, which may span any number of pieces. Holds back what
// could be the beginning of one, so that no part of a stop string is ever sent. The stop that is
// whole first wins, of those that end together the longest: however the text comes in pieces, the
// answer is the same.
class StopMatcher {
 public:
  // Shared: all choices of a request have the same, and there may be many.
  using Stops = std::shared_ptr<const std::vector<std::string>>;

  // No stop string is empty.
  explicit StopMatcher(std::vector<std::string> stops)
      : stops_(std::make_shared<const std::vector<std::string>>(std::move(stops))) {}
  // Null: there are none.
  static StopMatcher sharing(Stops stops) {
    StopMatcher matcher({});
    if (stops) matcher.stops_ = std::move(stops);
    return matcher;
  }

  // The text that can be sent now; after a match, what stood before it.
  std::string push(std::string_view text);

  // Returns the text that was held back, when no more comes; nothing after a match.
  std::string finish() { return matched_ ? std::string() : std::exchange(held_, {}); }

  // The text that was pushed and not returned: after a match, the stop string and what follows it.
  const std::string& held() const { return held_; }

  // The stop string that was found first. No text may be pushed after that.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  size_t suffix_that_may_become_a_stop() const;

  Stops stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace kvik
