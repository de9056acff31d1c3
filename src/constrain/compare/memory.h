#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace kvik::constrain {

// Values that are compared as wholes are kept by a Machine, each once: a list of its kind and of
//   kWord: 0 null, 1 true, 2 false      kNumber: its text, in a form that is one for equal numbers
//   kString: its text                   kArray: its items
//   kObject: names (texts) and values in turn, names ascending
// so that equal values have equal numbers.
enum class ValueKind : uint32_t { kWord, kNumber, kString, kArray, kObject };

// What a value may be, as a list: a mode, then values, ascending.
enum class ValueRule : uint32_t {
  kNone,  // none of them
  kSome,  // one of them
};

// What a frame remembers of an object or an array that is compared as a whole. Numbers of lists.
struct Memory {
  uint32_t list = 0;       // what its frame would have otherwise
  uint32_t record = 0;     // its value so far, as in a value's list
  uint32_t rule = 0;       // what it may be
  uint32_t name = 0;       // of the property that is being read: a text
  uint32_t next_rule = 0;  // what the property or item that is being read may be

  static constexpr size_t kWords = 5;
  std::array<uint32_t, kWords> words() const {
    return std::bit_cast<std::array<uint32_t, kWords>>(*this);
  }
};

// Some different values, ascending: all that there are, unless there are at least as many as were
// asked for.
struct SomeValues {
  bool are_many = false;
  std::vector<uint32_t> all;
};

}  // namespace kvik::constrain
