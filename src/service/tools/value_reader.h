#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// How a language writes values: JSON, and what models write in its place.
struct ValueDialect {
  std::array<std::string_view, 2> quotes;  // of strings; the second may be empty
  enum class Escapes : uint8_t { kJson, kPython, kNone } escapes;
  bool has_bare_keys;     // keys of every object need no quotes
  bool has_python_words;  // True, False, None, tuples, a comma behind the last item
};

extern const ValueDialect kJson;
extern const ValueDialect kPython;       // f(city="Paris", days=[1, 2])
extern const ValueDialect kGemmaValues;  // {city:<|"|>Paris<|"|>,days:[1,2]}

// Reads one value byte by byte and writes it as JSON: what is JSON already stays as it is, but for
// control characters in strings, which JSON wants escaped. Linear, and the same result however the
// bytes come.
class ValueReader {
 public:
  // kHere: before the value. The others stand behind the bracket that opens an object: kObject ends
  // at its '}', kCall, with "name=value" in it, at ')'.
  enum class Begin : uint8_t { kHere, kObject, kCall };
  ValueReader(const ValueDialect& dialect, Begin begin);

  // kDone: the value is whole, and this byte was its last. kBroken: with this byte there is no such
  // value; nothing may be pushed any more.
  enum class State : uint8_t { kMore, kDone, kBroken };
  State push(char byte);

  const std::string& json() const { return json_; }
  bool is_object() const { return json_.starts_with('{'); }

  // A member of the outermost object, in bytes of json().
  struct Member {
    size_t key_begin, key_end;  // quotes left out
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
    kValue,  // or what ends an empty list
    kKey,    // or what ends an empty object
    kColon,
    kComma,    // or what ends the list or object
    kBareKey,  // inside one
    kScalar,   // inside a number or a word
    kOpening,  // inside the mark that opens a string, of more than one byte
    kString,
    kEscape,      // behind a backslash
    kHex,         // the digits of a code point
    kSecondHalf,  // what must follow the first half of a surrogate pair: a backslash
    kSecondU,     // and a u
  };
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
  std::string frames_;  // what is open: '{', '[', '(' for a tuple, 'c' for a call
  std::vector<Member> members_;
  Expect expect_ = Expect::kValue;
  bool is_key_ = false;     // the string is one
  bool has_comma_ = false;  // one waits for what it stands before
  std::string blanks_;      // behind that comma
  std::string held_;        // a scalar, a mark in part
  std::string_view quote_;  // what ends the string
  uint32_t code_ = 0, first_half_ = 0;
  uint8_t n_digits_ = 0, n_read_ = 0;
};

// What is there, which then is empty. Out of line: inlined, GCC 12 warns of std::exchange() here.
std::string taken(std::string& text);

// Whether the text is one JSON value with nothing around it.
bool is_json(std::string_view text);

// The beginning of a JSON object, as an object: its members that came whole. An object that is
// whole stays as it is; anything else gives an empty one.
std::string whole_members(std::string_view json);

// The text as a JSON string, quotes around it.
std::string json_string(std::string_view text);

// What a JSON string says; it is one.
std::string unquoted(std::string_view json);

}  // namespace kvik
