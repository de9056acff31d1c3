#include <fmt/format.h>
#include <unicode/uchar.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "template/jinja/value.h"

namespace kvik::jinja {
namespace {

std::string escape_of(char32_t c) {
  if (c < 0x100) return fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  return fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
}

// Returns the same as Python's str.isprintable().
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const uint32_t mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (mask & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

std::string character_repr(std::string_view character, const Utf8Step& step, char quote) {
  if (character == "\n") return "\\n";
  if (character == "\r") return "\\r";
  if (character == "\t") return "\\t";
  if (character == "\\" || character.front() == quote) return std::string("\\").append(character);
  if (step.kind == Utf8Step::Kind::kValid && !is_printable(step.code_point)) {
    return escape_of(step.code_point);
  }
  return std::string(character);
}

void append_text_repr(const Text& text, Text& out) {
  const std::string_view all = text.view();
  const bool prefers_double = all.find('\'') != all.npos && all.find('"') == all.npos;
  const char quote = prefers_double ? '"' : '\'';
  const std::string_view quotes(&quote, 1);
  if (text.is_markup()) out.append("Markup(", Origin::kTemplate);
  out.append(quotes, Origin::kTemplate);
  text.each_run([&](std::string_view bytes, Origin origin) {
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Step step = next_utf8(bytes, at);
      out.append(character_repr(bytes.substr(at, step.n_bytes), step, quote), origin);
      at += step.n_bytes;
    }
  });
  out.append(quotes, Origin::kTemplate);
  if (text.is_markup()) out.append(")", Origin::kTemplate);
}

void append_list_repr(const List& list, Text& out) {
  const bool is_view = !list.is_sequence();
  if (list.kind == List::Kind::kRange) {
    const auto [begin, end, step] = list.range;
    std::string text = fmt::format("range({}, {}", begin, end);
    text += step == 1 ? ")" : fmt::format(", {})", step);
    out.append(text, Origin::kTemplate);
    return;
  }
  if (is_view) {
    constexpr std::array<std::string_view, 3> kNames = {"dict_keys(", "dict_values(",
                                                        "dict_items("};
    const auto first = static_cast<size_t>(List::Kind::kKeys);
    out.append(kNames[static_cast<size_t>(list.kind) - first], Origin::kTemplate);
  }
  out.append(list.is_tuple() ? "(" : "[", Origin::kTemplate);
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ", Origin::kTemplate);
    append_repr(list.items[i], out);
  }
  if (list.is_tuple() && list.items.size() == 1) out.append(",", Origin::kTemplate);
  out.append(list.is_tuple() ? ")" : "]", Origin::kTemplate);
  if (is_view) out.append(")", Origin::kTemplate);
}

void append_dict_repr(const Dict& dict, Text& out) {
  out.append("{", Origin::kTemplate);
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ", Origin::kTemplate);
    append_repr(dict.entries[i].first, out);
    out.append(": ", Origin::kTemplate);
    append_repr(dict.entries[i].second, out);
  }
  out.append("}", Origin::kTemplate);
}

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Writes the shortest digits that round-trip. Like Python, uses an exponent from 1e16 up and
  // below 1e-4.
  char digits[64];
  const double magnitude = std::fabs(value);
  const bool is_plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result = std::to_chars(digits, digits + sizeof(digits), value, format);
  std::string text(digits, result.ptr);
  if (is_plain && text.find('.') == text.npos) text += ".0";
  return text;
}

void append_repr(const Value& value, Text& out) {
  if (value.text()) {
    append_text_repr(*value.text(), out);
  } else if (value.is_undefined()) {
    out.append("Undefined", Origin::kTemplate);
  } else if (value.ns()) {  // a namespace may contain itself
    out.append("<Namespace {...}>", Origin::kTemplate);
  } else {
    out.append(to_text(value));
  }
}

Text to_text(const Value& value) {
  const auto own = [](std::string text) { return Text(std::move(text), Origin::kTemplate); };
  if (value.text()) return value.text()->plain();
  if (value.is_undefined()) return {};
  if (value.is_none()) return own("None");
  if (const bool* b = value.as<bool>()) return own(*b ? "True" : "False");
  if (const int64_t* i = value.as<int64_t>()) return own(std::to_string(*i));
  if (const double* d = value.as<double>()) return own(float_text(*d));
  Text out;
  if (value.list()) {
    append_list_repr(*value.list(), out);
  } else if (value.dict()) {
    append_dict_repr(*value.dict(), out);
  } else if (value.ns()) {
    out = own("<Namespace ");
    append_dict_repr(value.ns()->values, out);
    out.append(">", Origin::kTemplate);
  } else {
    out = own(fmt::format("<{}>", type_name(value)));
  }
  return out;
}

}  // namespace kvik::jinja
