#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::hf {

// A text on its way through pre-tokenizers: cut into words, of which some were left out.
struct Words {
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  // Of a whole text, shorter than 4 GiB.
  explicit Words(std::string whole) : text(std::move(whole)) {
    if (!text.empty()) ranges.push_back({0, static_cast<uint32_t>(text.size())});
  }

  std::string_view of(const Range& range) const {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  }

  std::string text;
  std::vector<Range> ranges;   // ascending; none empty
  bool begins_text = false;    // the first word is the first of all that is tokenized
  bool regex_gave_up = false;  // one took too long: none is asked again about this text
};

}  // namespace kvik::hf
