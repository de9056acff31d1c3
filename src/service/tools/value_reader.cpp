#include "service/tools/value_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/blanks.h"
#include "base/utf8.h"

namespace kvik {

const ValueDialect kJson = {.quotes = {"\"", ""},
                            .escapes = ValueDialect::Escapes::kJson,
                            .has_bare_keys = false,
                            .has_python_words = false};
const ValueDialect kPython = {.quotes = {"\"", "'"},
                              .escapes = ValueDialect::Escapes::kPython,
                              .has_bare_keys = false,
                              .has_python_words = true};
const ValueDialect kGemmaValues = {.quotes = {"<|\"|>", ""},
                                   .escapes = ValueDialect::Escapes::kNone,
                                   .has_bare_keys = true,
                                   .has_python_words = true};

namespace {

// request bodies that contain earlier calls are read up to depth 64
constexpr size_t kMaxDepth = 60;
constexpr size_t kMaxScalar = 512;
constexpr size_t kMaxKey = 256;
constexpr std::string_view kMarks = "{}[](),:=\"'<>";  // bytes that end a word

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20; }

int hex_value(char byte) {
  if (is_digit(byte)) return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

void take_digits(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
}

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.front())) return false;
  if (text.size() > 1 && text[0] == '0' && is_digit(text[1])) return false;
  take_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (text.empty() || !is_digit(text.front())) return false;
    take_digits(text);
  }
  if (text.empty()) return true;
  if (text.front() != 'e' && text.front() != 'E') return false;
  text.remove_prefix(1);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  if (text.empty()) return false;
  take_digits(text);
  return text.empty();
}

// Returns the JSON word or number; empty if the text is neither.
std::string_view scalar_of(std::string_view text, bool has_python_words) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kWords = {
      {{"true", "True"}, {"false", "False"}, {"null", "None"}}};
  for (const auto& [json, python] : kWords) {
    if (text == json || (has_python_words && text == python)) return json;
  }
  return is_number(text) ? text : std::string_view();
}

// Returns the meaning of the byte after a backslash in Python; empty: the backslash is literal.
std::string_view python_escape(char byte) {
  switch (byte) {
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case 'r':
      return "\r";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    default:
      return {};
  }
}

// Appends one byte of text inside a JSON string, escaped if necessary.
void put_escaped(std::string& json, char byte) {
  switch (byte) {
    case '"':
      json += "\\\"";
      return;
    case '\\':
      json += "\\\\";
      return;
    case '\n':
      json += "\\n";
      return;
    case '\t':
      json += "\\t";
      return;
    case '\r':
      json += "\\r";
      return;
    default:
      if (is_control(byte)) {
        json += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
      } else {
        json += byte;
      }
  }
}

}  // namespace

ValueReader::ValueReader(const ValueDialect& dialect, Begin begin) : dialect_(dialect) {
  if (begin == Begin::kHere) return;
  frames_ += begin == Begin::kCall ? 'c' : '{';
  json_ = "{";
  expect_ = Expect::kKey;
}

ValueReader::State ValueReader::push(char byte) {
  const size_t n_before = json_.size();
  const State state = take(byte);
  const size_t n_pending = held_.size() + (has_comma_ ? 1 + blanks_.size() : 0);
  n_held_ = json_.size() > n_before ? n_pending : n_held_ + 1;
  if (state == State::kBroken) n_held_ = std::max(n_held_, size_t{1});
  return state;
}

ValueReader::State ValueReader::take(char byte) {
  switch (expect_) {
    case Expect::kValue:
      return begin_value(byte);
    case Expect::kKey:
      return begin_key(byte);
    case Expect::kColon:
      if (is_blank(byte)) return blank(byte);
      if (byte != after_key()) return State::kBroken;
      json_ += ':';
      expect_ = Expect::kValue;
      return State::kMore;
    case Expect::kComma:
      return after_value(byte);
    case Expect::kBareKey:
      return in_bare_key(byte);
    case Expect::kScalar:
      return in_scalar(byte);
    case Expect::kOpening:
      return in_opening(byte);
    case Expect::kString:
      return in_string(byte);
    case Expect::kEscape:
      return in_escape(byte);
    case Expect::kHex:
      return in_hex(byte);
    case Expect::kLowSurrogate:
      if (byte != '\\') return State::kBroken;
      expect_ = Expect::kSecondU;
      return State::kMore;
    case Expect::kSecondU:
      if (byte != 'u') return State::kBroken;
      expect_ = Expect::kHex;
      n_digits_ = 4;
      n_read_ = 0;
      code_ = 0;
      return State::kMore;
  }
  return State::kBroken;
}

ValueReader::State ValueReader::blank(char byte) {
  (has_comma_ ? blanks_ : json_) += byte;
  return State::kMore;
}

// Writes the pending comma, since the next item has begun.
void ValueReader::put_comma() {
  if (has_comma_) {
    json_ += ',';
    json_ += blanks_;
    blanks_.clear();
    has_comma_ = false;
  }
}

ValueReader::State ValueReader::in_bare_key(char byte) {
  if (byte == after_key() || is_blank(byte)) {
    json_ += json_string(held_);
    if (frames_.size() == 1) members_.back().key_end = json_.size() - 1;
    held_.clear();
    expect_ = Expect::kColon;
    return take(byte);
  }
  const bool is_bad = is_control(byte) || kMarks.find(byte) != kMarks.npos;
  if (is_bad || held_.size() >= kMaxKey) return State::kBroken;
  held_ += byte;
  return State::kMore;
}

ValueReader::State ValueReader::in_scalar(char byte) {
  if (is_blank(byte) || kMarks.find(byte) != kMarks.npos) {
    return end_scalar() == State::kBroken ? State::kBroken : take(byte);
  }
  if (held_.size() >= kMaxScalar) return State::kBroken;
  held_ += byte;
  return State::kMore;
}

ValueReader::State ValueReader::open(char bracket) {
  if (frames_.size() >= kMaxDepth) return State::kBroken;
  frames_ += bracket;
  json_ += bracket == '(' ? '[' : bracket;
  expect_ = bracket == '{' ? Expect::kKey : Expect::kValue;
  return State::kMore;
}

ValueReader::State ValueReader::begin_value(char byte) {
  if (is_blank(byte)) return blank(byte);
  const bool is_item = !frames_.empty() && !is_in_object();
  if (is_item && (byte == ']' || byte == ')')) return close(byte);
  put_comma();
  if (frames_.size() == 1 && is_in_object()) members_.back().value_begin = json_.size();
  if (byte == '{' || byte == '[') return open(byte);
  if (byte == '(' && dialect_.has_python_words) return open(byte);
  if (opens_string(byte)) {
    is_key_ = false;
    return begin_string(byte);
  }
  if (is_digit(byte) || byte == '-' || (byte >= 'A' && byte <= 'Z') ||
      (byte >= 'a' && byte <= 'z')) {
    held_ = byte;
    expect_ = Expect::kScalar;
    return State::kMore;
  }
  return State::kBroken;
}

ValueReader::State ValueReader::begin_key(char byte) {
  if (is_blank(byte)) return blank(byte);
  const bool is_call = frames_.back() == 'c';
  if (byte == (is_call ? ')' : '}')) return close(byte);
  put_comma();
  const bool is_quoted = !is_call && opens_string(byte);
  if (frames_.size() == 1) members_.push_back({json_.size() + 1, 0, 0, 0});
  if (is_quoted) {
    is_key_ = true;
    return begin_string(byte);
  }
  if (!is_call && !dialect_.has_bare_keys) return State::kBroken;
  if (is_control(byte) || kMarks.find(byte) != kMarks.npos) return State::kBroken;
  held_ = byte;
  expect_ = Expect::kBareKey;
  return State::kMore;
}

bool ValueReader::opens_string(char byte) const {
  return std::ranges::any_of(dialect_.quotes,
                             [byte](std::string_view quote) { return quote.starts_with(byte); });
}

ValueReader::State ValueReader::begin_string(char byte) {
  quote_ = dialect_.quotes[0].front() == byte ? dialect_.quotes[0] : dialect_.quotes[1];
  held_ = byte;
  if (quote_.size() > 1) {
    expect_ = Expect::kOpening;
    return State::kMore;
  }
  held_.clear();
  json_ += '"';
  expect_ = Expect::kString;
  return State::kMore;
}

ValueReader::State ValueReader::in_opening(char byte) {
  held_ += byte;
  if (!quote_.starts_with(held_)) return State::kBroken;
  if (held_.size() < quote_.size()) return State::kMore;
  held_.clear();
  json_ += '"';
  expect_ = Expect::kString;
  return State::kMore;
}

void ValueReader::put(char byte) { put_escaped(json_, byte); }

ValueReader::State ValueReader::in_string(char byte) {
  if (quote_.size() > 1) {
    held_ += byte;
    while (!quote_.starts_with(held_)) {
      put(held_.front());
      held_.erase(0, 1);
    }
    if (held_.size() < quote_.size()) return State::kMore;
    held_.clear();
    return end_string();
  }
  if (byte == quote_.front()) return end_string();
  if (byte == '\\' && dialect_.escapes != ValueDialect::Escapes::kNone) {
    expect_ = Expect::kEscape;
    return State::kMore;
  }
  put(byte);
  return State::kMore;
}

ValueReader::State ValueReader::in_escape(char byte) {
  expect_ = Expect::kString;
  const bool is_python = dialect_.escapes == ValueDialect::Escapes::kPython;
  const bool is_wide = is_python && (byte == 'x' || byte == 'U');
  if (byte == 'u' || is_wide) {
    expect_ = Expect::kHex;
    n_digits_ = byte == 'u' ? 4 : byte == 'x' ? 2 : 8;
    n_read_ = 0;
    code_ = 0;
    high_surrogate_ = 0;
    if (!is_python) held_ = "\\u";  // JSON escapes are kept unchanged
    return State::kMore;
  }
  if (!is_python) {
    if (std::string_view("\"\\/bfnrt").find(byte) == std::string_view::npos) return State::kBroken;
    json_ += '\\';
    json_ += byte;
    return State::kMore;
  }
  if (byte == '\n') return State::kMore;  // line continuation
  const std::string_view meant = python_escape(byte);
  if (meant.empty()) put('\\');
  put(meant.empty() ? byte : meant.front());
  return State::kMore;
}

ValueReader::State ValueReader::in_hex(char byte) {
  const int digit = hex_value(byte);
  if (digit < 0) return State::kBroken;
  if (dialect_.escapes == ValueDialect::Escapes::kJson) held_ += byte;
  code_ = code_ * 16 + static_cast<uint32_t>(digit);
  if (++n_read_ < n_digits_) return State::kMore;
  expect_ = Expect::kString;
  const bool is_first = code_ >= 0xD800 && code_ < 0xDC00;
  const bool is_second = code_ >= 0xDC00 && code_ < 0xE000;
  if (is_second != (high_surrogate_ != 0) || code_ > 0x10FFFF) return State::kBroken;
  if (is_first) {
    high_surrogate_ = code_;
    expect_ = Expect::kLowSurrogate;
    if (dialect_.escapes == ValueDialect::Escapes::kJson) held_ += "\\u";
    return State::kMore;
  }
  if (dialect_.escapes == ValueDialect::Escapes::kJson) {
    json_ += taken(held_);
  } else {
    put_code_point(is_second ? 0x10000 + ((high_surrogate_ - 0xD800) << 10) + (code_ - 0xDC00)
                             : code_);
  }
  high_surrogate_ = 0;
  return State::kMore;
}

void ValueReader::put_code_point(uint32_t code) {
  std::string text;
  append_utf8(code, text);
  for (const char byte : text) put(byte);
}

ValueReader::State ValueReader::end_string() {
  json_ += '"';
  if (!is_key_) return end_value();
  if (frames_.size() == 1) members_.back().key_end = json_.size() - 1;
  is_key_ = false;
  expect_ = Expect::kColon;
  return State::kMore;
}

ValueReader::State ValueReader::end_scalar() {
  const std::string_view json = scalar_of(held_, dialect_.has_python_words);
  if (json.empty()) return State::kBroken;
  json_ += json;
  held_.clear();
  return end_value() == State::kBroken ? State::kBroken : State::kMore;
}

ValueReader::State ValueReader::end_value() {
  if (frames_.empty()) return State::kDone;
  if (frames_.size() == 1 && is_in_object()) members_.back().value_end = json_.size();
  expect_ = Expect::kComma;
  return State::kMore;
}

ValueReader::State ValueReader::after_value(char byte) {
  if (frames_.empty()) return State::kBroken;
  if (is_blank(byte)) return blank(byte);
  if (byte != ',') return close(byte);
  has_comma_ = true;
  expect_ = is_in_object() ? Expect::kKey : Expect::kValue;
  return State::kMore;
}

ValueReader::State ValueReader::close(char byte) {
  const char open = frames_.back();
  const char wanted = open == '{' ? '}' : open == '[' ? ']' : ')';
  const bool dangles = has_comma_ && !dialect_.has_python_words;
  if (byte != wanted || dangles) return State::kBroken;
  has_comma_ = false;
  blanks_.clear();
  json_ += is_object(frames_.back()) ? '}' : ']';
  frames_.pop_back();
  return end_value();
}

std::string taken(std::string& text) {
  std::string all;
  all.swap(text);
  return all;
}

std::string read_json(std::string_view text) {
  if (const std::string_view scalar = scalar_of(text, false); !scalar.empty())
    return std::string(scalar);
  return read_value(text, kJson);
}

std::string read_value(std::string_view text, const ValueDialect& dialect) {
  ValueReader reader(dialect, ValueReader::Begin::kHere);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto state = reader.push(text[i]);
    if (state == ValueReader::State::kMore) continue;
    const bool is_whole = state == ValueReader::State::kDone && i + 1 == text.size();
    return is_whole ? reader.json() : std::string();
  }
  return {};
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char byte : text) put_escaped(json, byte);
  return json += '"';
}

std::string unquoted(std::string_view json) {
  // Python supports all of JSON's escapes except the solidus. Surrogate pairs are combined.
  std::string text;
  for (size_t i = 1; i + 1 < json.size(); ++i) {
    if (json[i] != '\\') {
      text += json[i];
      continue;
    }
    const char byte = json[++i];
    if (byte != 'u') {
      const std::string_view meant = python_escape(byte);
      text += meant.empty() ? byte : meant.front();
      continue;
    }
    const auto digits = [&](size_t at) {
      uint32_t code = 0;
      for (size_t k = 0; k < 4; ++k)
        code = code * 16 + static_cast<uint32_t>(hex_value(json[at + k]));
      return code;
    };
    uint32_t code = digits(i + 1);
    i += 4;
    if (code >= 0xD800 && code < 0xDC00) {
      code = 0x10000 + ((code - 0xD800) << 10) + (digits(i + 3) - 0xDC00);
      i += 6;
    }
    append_utf8(code, text);
  }
  return text;
}

}  // namespace kvik
