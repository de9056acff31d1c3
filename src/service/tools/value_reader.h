#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// The syntax of values: JSON, or a similar notation that models write instead.
struct ValueDialect {
  std::array<std::string_view, 2> quotes;  // quotes of strings; the second may be empty
  enum class Escapes : uint8_t { kJson, kPython, kNone } escapes;
  bool has_bare_keys;     // keys of objects need no quotes
  bool has_python_words;  // True, False, None, tuples, a trailing comma
};

extern const ValueDialect kJson;
extern const ValueDialect kPython;       // f(city="Paris", days=[1, 2])
extern const ValueDialect kGemmaValues;  // {city:<|"|>Paris<|"|>,days:[1,2]}

// Reads one value byte by byte and converts it to JSON. Valid JSON is unchanged, except that
// control characters in strings are escaped, as JSON requires. Runs in linear time; the result does
// not depend on how the bytes are divided.
class ValueReader {
 public:
  // The position at the first byte. kHere: before the value. kObject: after the '{' of an object;
  // it ends at its '}'. kCall: after the '(' of "name=value" arguments; it ends at ')'.
  enum class Begin : uint8_t { kHere, kObject, kCall };
  ValueReader(const ValueDialect& dialect, Begin begin);

  // kDone: the value is complete, and this byte was its last. kBroken: the bytes so far do not
  // begin a value; nothing more may be pushed.
  enum class State : uint8_t { kMore, kDone, kBroken };
  State push(char byte);

  const std::string& json() const { return json_; }
  // Number of bytes that were read last and are not in json().
  size_t n_held() const { return n_held_; }
  bool is_object() const { return json_.starts_with('{'); }

  // A member of the outermost object, as byte offsets in json().
  struct Member {
    size_t key_begin, key_end;  // without quotes
    size_t value_begin, value_end;
  };
  const std::vector<Member>& members() const { return members_; }
  std::string_view key_of(const Member& member) const {
    return std::string_view(json_).substr(member.key_begin, member.key_end - member.key_begin);
  }
  std::string_view value_of(const Member& member) const {
    return std::string_view(json_).substr(member.value_begin,
                                          member.value_end - member.value_begin);
  }

 private:
  enum class Expect : uint8_t {
    kValue,  // a value, or the end of an empty list
    kKey,    // a key, or the end of an empty object
    kColon,
    kComma,    // a comma, or the end of the list or object
    kBareKey,  // inside a bare key
    kScalar,   // inside a number or a word
    kOpening,  // inside the opening quote of a string, if it is longer than one byte
    kString,
    kEscape,        // after a backslash
    kHex,           // the hex digits of a code point
    kLowSurrogate,  // the backslash that must follow a high surrogate
    kSecondU,       // the 'u' after that backslash
  };
  State take(char byte);
  State blank(char byte);
  State begin_value(char byte);
  State begin_key(char byte);
  bool opens_string(char byte) const;
  State begin_string(char byte);
  State in_bare_key(char byte);
  State in_scalar(char byte);
  State in_opening(char byte);
  State in_string(char byte);
  State in_escape(char byte);
  State in_hex(char byte);
  State after_value(char byte);
  State close(char byte);
  State end_scalar();
  State end_string();
  State end_value();
  State open(char bracket);
  void put_comma();
  void put(char byte);
  void put_code_point(uint32_t code);
  bool is_in_object() const { return !frames_.empty() && is_object(frames_.back()); }
  static bool is_object(char frame) { return frame == '{' || frame == 'c'; }
  char after_key() const { return frames_.back() == 'c' ? '=' : ':'; }

  const ValueDialect& dialect_;
  std::string json_;
  std::string frames_;  // open brackets: '{', '[', '(' for a tuple, 'c' for a call
  std::vector<Member> members_;
  Expect expect_ = Expect::kValue;
  bool is_key_ = false;     // the string is a key
  bool has_comma_ = false;  // a comma was read and is written before the next item
  std::string blanks_;      // blanks after that comma
  std::string held_;        // an incomplete scalar or mark
  std::string_view quote_;  // closing quote of the string
  uint32_t code_ = 0, high_surrogate_ = 0;
  uint8_t n_digits_ = 0, n_read_ = 0;
  size_t n_held_ = 0;
};

// Returns the text and leaves it empty. Not inline: GCC 12 warns about an inlined std::exchange()
// here.
std::string taken(std::string& text);

// Returns a list, an object or a string as JSON, with its control characters escaped; empty if the
// text is not exactly one such value.
std::string read_value(std::string_view text, const ValueDialect& dialect);

// Returns any JSON value in the same way.
std::string read_json(std::string_view text);

// Returns the text as a JSON string, with quotes.
std::string json_string(std::string_view text);

// Returns the decoded contents of a JSON string. Requires valid input.
std::string unquoted(std::string_view json);

}  // namespace kvik
