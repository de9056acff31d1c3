#pragma once

#include <bitset>
#include <cstddef>
#include <string_view>

namespace kvik {

struct Vocabulary;

// Places where a text may be cut because no token of the vocabulary reaches across: whatever joins
// tokens by what they spell gives the same ids for the parts as for the whole. Knows pairs of ASCII
// characters and the blank mark, and takes all other characters for the same one. Immutable: any
// thread.
class Seams {
 public:
  explicit Seams(const Vocabulary& vocabulary);

  // Calls take(part) with the parts of `text`, in which blanks are blank marks.
  template <class Take>
  void each_part(std::string_view text, const Take& take) const {
    while (!text.empty()) {
      const size_t n_bytes = n_bytes_before_seam(text);
      take(text.substr(0, n_bytes));
      text.remove_prefix(n_bytes);
    }
  }

 private:
  // ASCII stands for itself, the blank mark for NUL, which both may be: a pair that only one of
  // them makes is no seam for the other either.
  static constexpr size_t kMark = 0;
  static constexpr size_t kOther = 128;
  struct Step {
    size_t symbol;
    size_t n_bytes;
  };
  size_t n_bytes_before_seam(std::string_view text) const;
  static Step step(std::string_view text, size_t at);

  std::bitset<(kOther + 1) * (kOther + 1)> joined_;  // [left, right]
};

}  // namespace kvik
