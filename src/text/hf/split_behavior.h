#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/hf/fields.h"
#include "text/hf/words.h"

namespace kvik::hf {

// What becomes of the delimiters that a word is split at.
enum class Behavior : uint8_t {
  kRemoved,
  kIsolated,            // each a word
  kMergedWithPrevious,  // part of the word before it
  kMergedWithNext,      // part of the word behind it
  kContiguous,          // neighbours together one word
};

Result<Behavior> read_behavior(const Fields& fields, Behavior otherwise);

// A part of a word, a delimiter or what lies between two.
struct Part {
  Words::Range range;
  bool is_delimiter;
};

// Appends the words that the parts of one word become.
void append_split(std::vector<Part> parts, Behavior behavior, std::vector<Words::Range>& words);

}  // namespace kvik::hf
