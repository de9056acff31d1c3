#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::hf {

// A text during pre-tokenization. It is split into words, some of which may have been removed.
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
  std::vector<Range> ranges;  // ascending; not empty
  bool begins_text = false;   // whether the first word begins the whole input
  // a search reached its limit, so later regular expressions skip this text
  bool regex_reached_limit = false;
};

// The treatment of delimiters when a word is split.
enum class Behavior : uint8_t {
  kRemoved,
  kIsolated,            // each delimiter is a word
  kMergedWithPrevious,  // a delimiter is part of the previous word
  kMergedWithNext,      // a delimiter is part of the next word
  kContiguous,          // adjacent delimiters are one word
};

// Collects the parts into which a word is split: delimiters and the text between them.
class Parts {
 public:
  Parts(uint32_t begin, std::vector<Words::Range>& words, Behavior behavior)
      : words_(words), end_(begin), behavior_(behavior) {}

  enum class Kind { kDelimiter, kBetween };
  // Adds the next part. It has n_bytes bytes and may be empty.
  void push(size_t n_bytes, Kind kind);

 private:
  bool joins_last(Kind kind) const;

  std::vector<Words::Range>& words_;
  uint32_t end_;
  const Behavior behavior_;
  bool has_last_ = false;
  Kind last_ = Kind::kBetween;
};

// Splits every word. find_parts(word, parts) pushes the parts of `word`.
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
