#include <fmt/format.h>

#include <charconv>
#include <unordered_map>
#include <utility>

#include "base/json/json.h"
#include "base/utf8.h"

namespace kvik {
namespace {

class JsonParser {
 public:
  JsonParser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<Json> run() {
    if (text_.size() > limits_.max_bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the JSON has {} bytes; expected at most {}", text_.size(),
                              limits_.max_bytes));
    }
    Json json;
    TRY(read(json, 0));
    skip_blanks();
    if (at_ != text_.size()) return wrong("the end");
    return json;
  }

 private:
  std::unexpected<Error> wrong(std::string_view expected) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("not JSON at byte {}: expected {}", at_, expected));
  }

  // Returns the byte at `at_`; at the end 0, which never occurs in JSON.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").contains(text_[at_])) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<void> read(Json& json, size_t depth) {
    skip_blanks();
    if (at_ >= text_.size()) return wrong("a value");
    if (depth > limits_.max_depth) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the JSON is nested over {} levels deep", limits_.max_depth));
    }
    if (++n_values_ > limits_.max_values) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the JSON has over {} values", limits_.max_values));
    }
    switch (text_[at_]) {
      case '{':
        return read_object(json.value.emplace<Json::Fields>(), depth);
      case '[':
        return read_array(json.value.emplace<Json::List>(), depth);
      case '"':
        return read_string(json.value.emplace<std::string>());
      case 'n':
        return read_word("null");
      case 't':
        json.value = true;
        return read_word("true");
      case 'f':
        json.value = false;
        return read_word("false");
      default:
        return read_number(json);
    }
  }

  Result<void> read_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return wrong(word);
    at_ += word.size();
    return {};
  }

  size_t skip_digits() {
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ - begin;
  }

  Result<void> read_number(Json& json) {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    const bool is_zero = peek() == '0';
    const size_t n_digits = skip_digits();
    if (n_digits == 0 || (is_zero && n_digits > 1)) return wrong("a value");
    if (peek() == '.') {
      ++at_;
      if (skip_digits() == 0) return wrong("a digit");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (skip_digits() == 0) return wrong("a digit");
    }
    const std::string_view text = text_.substr(begin, at_ - begin);
    int64_t whole = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size() && text != "-0") {
      json.value = whole;
    } else {
      json.value = Json::Number{std::string(text)};
    }
    return {};
  }

  Result<void> read_string(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return {};
      }
      if (static_cast<uint8_t>(c) < 0x20) return wrong("a string's character");
      if (c == '\\') {
        TRY(read_escape(out));
        continue;
      }
      if (static_cast<uint8_t>(c) < 0x80) {
        out += c;
        ++at_;
        continue;
      }
      const Utf8Step step = next_utf8(text_, at_);
      if (step.kind == Utf8Step::Kind::kValid) {
        out += text_.substr(at_, step.n_bytes);
        at_ += step.n_bytes;
        continue;
      }
      // Report the first byte that cannot be part of a character.
      const auto lead = static_cast<uint8_t>(c);
      if (lead >= 0xC2 && lead <= 0xF4) at_ += step.n_bytes;
      if (at_ < text_.size()) return wrong("a string's character");
    }
    return wrong("a quote");
  }

  Result<void> read_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kCharacters = "\"\\/\b\f\n\r\t";
    ++at_;
    if (at_ >= text_.size()) return wrong("a quote");
    const size_t found = kNames.find(text_[at_]);
    if (found != kNames.npos) {
      out += kCharacters[found];
      ++at_;
      return {};
    }
    if (text_[at_] != 'u') return wrong("a string's character");
    ++at_;
    TRY_ASSIGN(char32_t code_point, read_hex(0, 0xDBFF, 0xE000));
    if (code_point >= 0xD800 && code_point <= 0xDBFF) {
      for (const char next : {'\\', 'u'}) {
        if (at_ >= text_.size()) return wrong("a quote");
        if (text_[at_] != next) return wrong("a string's character");
        ++at_;
      }
      TRY_ASSIGN(const char32_t low, read_hex(0xDC00, 0xDFFF, 0x10000));
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(code_point, out);
    return {};
  }

  // Reads four hexadecimal digits of a number in [first, last] or from `above` on. The error is at
  // the first digit that makes this impossible.
  Result<char32_t> read_hex(uint32_t first, uint32_t last, uint32_t above) {
    uint32_t number = 0;
    for (uint32_t n_left = 4; n_left-- > 0; ++at_) {
      if (at_ >= text_.size()) return wrong("a quote");
      uint32_t digit = 0;
      const auto read = std::from_chars(&text_[at_], &text_[at_] + 1, digit, 16);
      if (read.ec != std::errc()) return wrong("a string's character");
      number = number << 4 | digit;
      const uint32_t least = number << (4 * n_left), most = least + (1u << (4 * n_left)) - 1;
      if ((least > last || most < first) && most < above) return wrong("a string's character");
    }
    return number;
  }

  Result<void> read_array(Json::List& list, size_t depth) {
    ++at_;
    if (take(']')) return {};
    do {
      TRY(read(list.emplace_back(), depth + 1));
    } while (take(','));
    if (!take(']')) return wrong("a comma or ]");
    return {};
  }

  Result<void> read_object(Json::Fields& fields, size_t depth) {
    ++at_;
    if (take('}')) return {};
    std::unordered_map<std::string, size_t> places;
    do {
      skip_blanks();
      if (peek() != '"') return wrong("a name");
      std::string name;
      TRY(read_string(name));
      if (!take(':')) return wrong("a colon");
      const auto [found, is_new] = places.try_emplace(name, fields.size());
      if (is_new) fields.emplace_back(std::move(name));
      Json member;
      TRY(read(member, depth + 1));
      fields[found->second].data = std::move(member);
    } while (take(','));
    if (!take('}')) return wrong("a comma or }");
    return {};
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t at_ = 0;
  size_t n_values_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  return JsonParser(text, limits).run();
}

}  // namespace kvik
