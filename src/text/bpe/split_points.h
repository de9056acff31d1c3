#pragma once

#include <bitset>
#include <cstddef>
#include <string_view>

namespace kvik {

struct Vocabulary;

// Finds the positions at which a text can be split because no token of the vocabulary
// crosses them: merging the parts gives the same ids as merging the whole. Distinguishes pairs of
// ASCII characters and the space mark; all other characters are one class. Immutable; thread-safe.
class SplitPoints {
 public:
  explicit SplitPoints(const Vocabulary& vocabulary);

  // Calls take(part) for the parts of `text`, in which spaces are space marks.
  template <class Take>
  void each_part(std::string_view text, const Take& take) const {
    while (!text.empty()) {
      const size_t n_bytes = n_bytes_before_split(text);
      take(text.substr(0, n_bytes));
      text.remove_prefix(n_bytes);
    }
  }

 private:
  // The symbols are the ASCII characters by number, and kOther. The space mark shares the number of
  // NUL, so a pair that occurs in a token with either of them is not a split point for the other.
  static constexpr size_t kMark = 0;
  static constexpr size_t kOther = 128;
  struct Step {
    size_t symbol;
    size_t n_bytes;
  };
  size_t n_bytes_before_split(std::string_view text) const;
  static Step step(std::string_view text, size_t at);

  std::bitset<(kOther + 1) * (kOther + 1)> joined_;  // [left, right]
};

}  // namespace kvik
