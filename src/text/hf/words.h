#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::hf {

// A text during pre-tokenization: split into words, some of which may have been removed.
struct Words {
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  // `whole` is shorter than 4 GiB.
  explicit Words(std::string whole) : text(std::move(whole)) {
    if (!text.empty()) ranges.push_back({0, static_cast<uint32_t>(text.size())});
  }

  std::string_view of(const Range& range) const {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  }

  std::string text;
  std::vector<Range> ranges;   // ascending; none empty
  bool begins_text = false;    // the first word is the first of the whole input
  bool regex_gave_up = false;  // a search took too long: later ones skip this text
};

// How delimiters are treated when words are split.
enum class Behavior : uint8_t {
  kRemoved,
  kIsolated,            // each is a word
  kMergedWithPrevious,  // part of the previous word
  kMergedWithNext,      // part of the next word
  kContiguous,          // adjacent delimiters are one word
};

// The parts into which a word is split: delimiters and the text between them.
class Parts {
 public:
  Parts(uint32_t begin, std::vector<Words::Range>& words, Behavior behavior)
      : words_(words), end_(begin), behavior_(behavior) {}

  enum class Kind { kDelimiter, kBetween };
  // The next part, in bytes; it may be empty.
  void push(size_t n_bytes, Kind kind);

 private:
  bool joins_last(Kind kind) const;

  std::vector<Words::Range>& words_;
  uint32_t end_;
  const Behavior behavior_;
  bool has_last_ = false;
  Kind last_ = Kind::kBetween;
};

// Splits every word: find_parts(word, parts) pushes the parts of `word`.
template <class FindParts>
void split(Words& words, Behavior behavior, const FindParts& find_parts) {
  std::vector<Words::Range> finer;
  finer.reserve(words.ranges.size());
  for (const Words::Range& range : words.ranges) {
    Parts parts(range.begin, finer, behavior);
    find_parts(words.of(range), parts);
  }
  words.ranges = std::move(finer);
}

}  // namespace kvik::hf
