#include "constrain/schema/compact_json.h"

#include <fmt/format.h>

#include "constrain/decimal.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMaxPlainDigits = 400;

void write_string(std::string_view text, std::string& out) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
  out += '"';
  for (const char c : text) {
    const size_t found = kEscaped.find(c);
    if (found != kEscaped.npos) {
      out += '\\';
      out += kNames[found];
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string plain_number(std::string text) {
  const bool has_exponent = text.find_first_of("eE") != text.npos;
  const auto number = has_exponent ? Decimal::parse(text) : std::nullopt;
  if (!number) return text;
  std::string plain = number->text();
  return plain.size() <= kMaxPlainDigits ? plain : text;
}

void write(const Json& json, std::string& out) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      out += "null";
      break;
    case Json::Kind::kFalse:
      out += "false";
      break;
    case Json::Kind::kTrue:
      out += "true";
      break;
    case Json::Kind::kNumber:
      out += plain_number(json.number_text());
      break;
    case Json::Kind::kString:
      write_string(json.text(), out);
      break;
    case Json::Kind::kArray:
      out += '[';
      for (const Json& item : json.list()) {
        if (&item != &json.list().front()) out += ',';
        write(item, out);
      }
      out += ']';
      break;
    case Json::Kind::kObject:
      out += '{';
      for (const auto& [name, item] : json.fields()) {
        if (&item != &json[0]) out += ',';
        write_string(name, out);
        out += ':';
        write(item, out);
      }
      out += '}';
      break;
  }
}

}  // namespace

std::string compact_json(const Json& json) {
  std::string out;
  write(json, out);
  return out;
}

std::string compact_json(std::string_view text) {
  std::string out;
  write_string(text, out);
  return out;
}

}  // namespace kvik::constrain
