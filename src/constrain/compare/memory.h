#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace kvik::constrain {

// JSON values that are compared with each other are stored by a Machine. Each distinct value is
// stored once, so equal values have equal ids. A value is a list that begins with its kind:
//   kWord: 0 null, 1 true, 2 false      kNumber: its text, in a canonical form
//   kString: its text                   kArray: its items
//   kObject: names (texts) and values in turn, names ascending
enum class ValueKind : uint32_t { kWord, kNumber, kString, kArray, kObject };

// The kind of a rule for values. A rule is a list: its kind, then values in ascending order.
enum class ValueRule : uint32_t {
  kNone,  // all values except these are allowed
  kSome,  // only these values are allowed
};

// The state of an object or array whose value is compared with others. Every member is the index of
// a list or text in the Machine.
struct Memory {
  uint32_t list = 0;       // what Frame::b is without comparison
  uint32_t record = 0;     // value so far, in the format of a value's list
  uint32_t rule = 0;       // allowed values
  uint32_t name = 0;       // name of the property being read: a text
  uint32_t next_rule = 0;  // allowed values of the property or item being read

  static constexpr size_t kWords = 5;
  std::array<uint32_t, kWords> words() const {
    return std::bit_cast<std::array<uint32_t, kWords>>(*this);
  }
};

// Different values in ascending order. These are all values unless are_many is true, which means
// that there are at least as many as were requested.
struct SomeValues {
  bool are_many = false;
  std::vector<uint32_t> all;
};

}  // namespace kvik::constrain
