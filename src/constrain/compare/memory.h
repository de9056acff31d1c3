#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace kvik::constrain {

// Values that are compared as a whole are stored by a Machine, each once, as a list that begins
// with the kind:
//   kWord: 0 null, 1 true, 2 false      kNumber: its text, in a form that is one for equal numbers
//   kString: its text                   kArray: its items
//   kObject: names (texts) and values in turn, names ascending
// so that equal values have equal ids.
enum class ValueKind : uint32_t { kWord, kNumber, kString, kArray, kObject };

// Allowed values as a list: a mode, then values in ascending order.
enum class ValueRule : uint32_t {
  kNone,  // none of them
  kSome,  // one of them
};

// The state of a frame whose object or array is compared as a whole. Members are indices of lists.
struct Memory {
  uint32_t list = 0;       // list that its frame has without comparing
  uint32_t record = 0;     // its value so far, as in a value's list
  uint32_t rule = 0;       // allowed values
  uint32_t name = 0;       // name of the property being read: a text
  uint32_t next_rule = 0;  // allowed values of the property or item being read

  static constexpr size_t kWords = 5;
  std::array<uint32_t, kWords> words() const {
    return std::bit_cast<std::array<uint32_t, kWords>>(*this);
  }
};

// Different values in ascending order: all that exist, unless there are at least as many as
// requested.
struct SomeValues {
  bool are_many = false;
  std::vector<uint32_t> all;
};

}  // namespace kvik::constrain
