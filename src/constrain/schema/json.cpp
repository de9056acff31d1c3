#include "constrain/schema/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/utf8.h"
#include "constrain/decimal.h"
#include "constrain/string_cursor.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMaxPlainDigits = 400;

class Parser {
 public:
  Parser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<Json> run() {
    if (text_.size() > limits_.max_bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the JSON has {} bytes; expected at most {}", text_.size(),
                              limits_.max_bytes));
    }
    Json value;
    TRY(read(value, 0));
    skip_blanks();
    if (at_ != text_.size()) return wrong("the end");
    return value;
  }

 private:
  std::unexpected<Error> wrong(std::string_view expected) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("not JSON at byte {}: expected {}", at_, expected));
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").contains(text_[at_])) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<void> read(Json& value, size_t depth) {
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
        return read_object(value, depth);
      case '[':
        return read_array(value, depth);
      case '"':
        value.kind = Json::Kind::kString;
        return read_string(value.text);
      case 'n':
        value.kind = Json::Kind::kNull;
        return read_word("null");
      case 't':
        value.kind = Json::Kind::kTrue;
        return read_word("true");
      case 'f':
        value.kind = Json::Kind::kFalse;
        return read_word("false");
      default:
        return read_number(value);
    }
  }

  Result<void> read_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return wrong(word);
    at_ += word.size();
    return {};
  }

  size_t skip_digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - begin;
  }

  Result<void> read_number(Json& value) {
    const size_t begin = at_;
    if (text_[at_] == '-') ++at_;
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    const size_t n_digits = skip_digits();
    if (n_digits == 0 || (zero && n_digits > 1)) return wrong("a value");
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      if (skip_digits() == 0) return wrong("a digit");
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (skip_digits() == 0) return wrong("a digit");
    }
    value.kind = Json::Kind::kNumber;
    value.text = text_.substr(begin, at_ - begin);
    return {};
  }

  Result<void> read_string(std::string& out) {
    ++at_;
    for (uint32_t partial = 0; at_ < text_.size(); ++at_) {
      const auto step = CharacterCursor::step_string(partial, static_cast<uint8_t>(text_[at_]));
      partial = step.partial;
      if (step.kind == CharacterCursor::Kind::kInvalid) return wrong("a string's character");
      if (step.kind == CharacterCursor::Kind::kCharacter) append_utf8(step.code_point, out);
      if (step.kind == CharacterCursor::Kind::kQuote) {
        ++at_;
        return {};
      }
    }
    return wrong("a quote");
  }

  Result<void> read_array(Json& value, size_t depth) {
    value.kind = Json::Kind::kArray;
    ++at_;
    if (take(']')) return {};
    do {
      TRY(read(value.items.emplace_back(), depth + 1));
    } while (take(','));
    if (!take(']')) return wrong("a comma or ]");
    return {};
  }

  Result<void> read_object(Json& value, size_t depth) {
    value.kind = Json::Kind::kObject;
    ++at_;
    if (take('}')) return {};
    std::unordered_map<std::string, size_t> places;
    do {
      skip_blanks();
      if (at_ >= text_.size() || text_[at_] != '"') return wrong("a name");
      std::string name;
      TRY(read_string(name));
      if (!take(':')) return wrong("a colon");
      const auto [found, is_new] = places.try_emplace(name, value.items.size());
      if (is_new) {
        value.names.push_back(std::move(name));
        value.items.emplace_back();
      }
      Json member;
      TRY(read(member, depth + 1));
      value.items[found->second] = std::move(member);
    } while (take(','));
    if (!take('}')) return wrong("a comma or }");
    return {};
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t at_ = 0;
  size_t n_values_ = 0;
};

void write_string(std::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", c);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

void write(const Json& value, std::string& out) {
  switch (value.kind) {
    case Json::Kind::kNull:
      out += "null";
      return;
    case Json::Kind::kFalse:
      out += "false";
      return;
    case Json::Kind::kTrue:
      out += "true";
      return;
    case Json::Kind::kNumber: {
      const bool has_exponent = value.text.find_first_of("eE") != std::string::npos;
      const auto plain = has_exponent ? Decimal::parse(value.text) : std::nullopt;
      const std::string text = plain ? plain->text() : value.text;
      out += text.size() <= kMaxPlainDigits ? text : value.text;
      return;
    }
    case Json::Kind::kString:
      return write_string(value.text, out);
    case Json::Kind::kArray:
      out.push_back('[');
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out.push_back(',');
        write(value.items[i], out);
      }
      out.push_back(']');
      return;
    case Json::Kind::kObject:
      out.push_back('{');
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out.push_back(',');
        write_string(value.names[i], out);
        out.push_back(':');
        write(value.items[i], out);
      }
      out.push_back('}');
      return;
  }
}

}  // namespace

const Json* Json::find(std::string_view name) const {
  if (kind != Kind::kObject) return nullptr;
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? nullptr : &items[static_cast<size_t>(found - names.begin())];
}

std::string Json::compact() const {
  std::string out;
  write(*this, out);
  return out;
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  return Parser(text, limits).run();
}

std::u32string to_characters(std::string_view utf8) {
  std::u32string characters;
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Step step = next_utf8(utf8, at);
    characters.push_back(step.kind == Utf8Step::Kind::kValid ? step.code_point : U'\uFFFD');
    at += step.n_bytes;
  }
  return characters;
}

}  // namespace kvik::constrain
