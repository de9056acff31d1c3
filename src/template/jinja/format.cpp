#include <algorithm>
#include <charconv>
#include <cmath>

#include "template/jinja/runtime.h"

// Implements Python's two kinds of formatting: "%5.1f" % x and "{:>5.1f}".format(x).

namespace kvik::jinja {
namespace {

constexpr size_t kMaxWidth = 1'000'000;
constexpr int kMaxPrecision = 400;

struct Spec {
  char fill = ' ';
  char align = '\0';  // one of < > ^ =, or '\0' if absent
  char sign = '-';    // '-', '+' or a space
  bool has_prefix = false;
  size_t width = 0;
  bool has_commas = false;
  std::optional<int> precision;
  char type = '\0';
};

// Reads the parts of a format specification in `text` and advances `at`.
class SpecReader {
 public:
  SpecReader(std::string_view text, size_t& at) : text_(text), at_(at) {}

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool skip(char c) {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  char next() {
    const char c = peek();
    ++at_;
    return c;
  }
  bool is_one_of(std::string_view set, size_t ahead = 0) const {
    return peek(ahead) != '\0' && set.find(peek(ahead)) != set.npos;
  }
  Result<size_t> number() {
    size_t value = 0;
    while (is_one_of("0123456789") && value <= kMaxWidth) {
      value = value * 10 + static_cast<size_t>(next() - '0');
    }
    if (value > kMaxWidth) return wrong("a format asks for too many characters");
    return value;
  }
  Result<std::optional<int>> precision() {
    if (!skip('.')) return std::optional<int>();
    TRY_ASSIGN(const size_t digits, number());
    if (digits > kMaxPrecision) return wrong("a format asks for too many digits");
    return std::optional<int>(static_cast<int>(digits));
  }

 private:
  std::string_view text_;
  size_t& at_;
};

bool is_among(char type, std::string_view types) { return types.find(type) != types.npos; }

Result<Text> padded(Runtime& runtime, Text text, const Spec& spec, char align) {
  const size_t n = n_characters(text.view());
  if (n >= spec.width) return text;
  const size_t missing = spec.width - n;
  TRY(runtime.charge_bytes(missing));
  const size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  Text out(std::string(left, spec.fill), Origin::kTemplate);
  out.append(text);
  out.append(std::string(missing - left, spec.fill), Origin::kTemplate);
  return out;
}

std::string with_commas(std::string_view digits) {
  const size_t n_whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < n_whole; ++i) {
    if (i > 0 && (n_whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out.append(digits.substr(n_whole));
}

// The parts of a number's text, in order.
struct NumberText {
  std::string_view minus;   // "-" or empty
  std::string prefix = {};  // of a base, such as "0x"
  std::string digits;
};

// Returns the text of a number. If the specification requires it, zeros are inserted before the
// digits.
Result<Text> padded_number(Runtime& runtime, NumberText number, const Spec& spec) {
  std::string digits = std::move(number.digits);
  if (spec.has_commas) digits = with_commas(digits);
  std::string sign(number.minus);
  if (sign.empty() && spec.sign != '-') sign.push_back(spec.sign);
  sign += number.prefix;
  if (spec.align == '=' && sign.size() + digits.size() < spec.width) {
    TRY(runtime.charge_bytes(spec.width));
    sign.append(spec.width - sign.size() - digits.size(), spec.fill);
  }
  return padded(runtime, Text(sign.append(digits), Origin::kTemplate), spec,
                spec.align == '\0' ? '>' : spec.align);
}

Result<Text> integer_text(Runtime& runtime, int64_t value, const Spec& spec) {
  const uint64_t magnitude =
      value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  const bool has_base = is_among(spec.type, "xXob");
  const std::string format = std::string("{:") + (has_base ? spec.type : 'd') + '}';
  std::string digits = fmt::format(fmt::runtime(format), magnitude);
  // With %, a precision is the least number of digits; format() knows none for integers.
  const auto n_min = static_cast<size_t>(spec.precision.value_or(0));
  if (digits.size() < n_min) digits.insert(0, n_min - digits.size(), '0');
  std::string prefix;
  if (has_base && spec.has_prefix) prefix = {'0', spec.type};
  return padded_number(
      runtime,
      {.minus = value < 0 ? "-" : "", .prefix = std::move(prefix), .digits = std::move(digits)},
      spec);
}

Result<Text> float_format(Runtime& runtime, double value, const Spec& spec) {
  const double magnitude = std::fabs(spec.type == '%' ? value * 100 : value);
  int precision = spec.precision.value_or(6);
  std::string digits;
  if (spec.type == '\0') {
    if (spec.precision) return wrong("a format's precision needs a type");
    digits = float_text(magnitude);
  } else {
    char type = is_among(spec.type, "eEgG") ? spec.type : 'f';
    if (spec.type == 'n') type = 'g';
    if (type == 'g' || type == 'G') precision = std::max(precision, 1);
    digits = fmt::format(fmt::runtime(std::string("{:.{}") + type + '}'), magnitude, precision);
  }
  if (spec.type == '%') digits += '%';
  return padded_number(
      runtime, {.minus = std::signbit(value) ? "-" : "", .digits = std::move(digits)}, spec);
}

Result<Text> number_text(Runtime& runtime, const Value& value, const Spec& spec) {
  const auto whole = value.as_int();
  if (whole && (spec.type == '\0' || is_among(spec.type, "dxXobn"))) {
    if (spec.precision) return wrong("a format of integers takes no precision");
    return integer_text(runtime, *whole, spec);
  }
  if (is_among(spec.type, "eEfFgG%n") || spec.type == '\0') {
    return float_format(runtime, *value.as_number(), spec);
  }
  return wrong("'{}' formats no {}", spec.type, type_name(value));
}

Result<Text> repr_of(Runtime& runtime, const Value& value) {
  TRY(text_of(runtime, value));  // charges the cost to the budget
  Text text;
  append_repr(value, text);
  return text;
}

Result<Text> string_text(Runtime& runtime, Text text, const Spec& spec, char align) {
  if (spec.precision) {
    const auto most = static_cast<size_t>(*spec.precision);
    text = text.substr(0, byte_of_character(text.view(), most));
  }
  return padded(runtime, std::move(text), spec, align);
}

// Formatting with %.

Result<Spec> percent_spec(SpecReader& reader) {
  Spec spec;
  while (reader.is_one_of("-+ 0#")) {
    const char flag = reader.next();
    if (flag == '-') spec.align = '<';
    if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
    if (flag == '#') spec.has_prefix = true;
    if (flag == '0') spec.fill = '0';
  }
  if (spec.fill == '0' && spec.align == '\0') spec.align = '=';
  if (spec.align == '<') spec.fill = ' ';
  TRY_ASSIGN(spec.width, reader.number());
  TRY_ASSIGN(spec.precision, reader.precision());
  spec.type = reader.next();
  return spec;
}

Result<Text> percent_text(Runtime& runtime, const Text& format, const Value& value,
                          const Spec& spec) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    TRY_ASSIGN(Text text, spec.type == 's' ? text_of(runtime, value) : repr_of(runtime, value));
    if (format.is_markup()) {
      TRY_ASSIGN(text, escape_html(runtime, text));
    }
    Spec blank = spec;
    blank.fill = ' ';
    return string_text(runtime, std::move(text), blank, spec.align == '<' ? '<' : '>');
  }
  const bool is_float = is_among(spec.type, "eEfFgG"), takes_floats = is_among(spec.type, "diu");
  if (value.is_number() && is_float) return float_format(runtime, *value.as_number(), spec);
  const bool fits = takes_floats && value.is_number() && std::fabs(*value.as_number()) < 9.2e18;
  const bool is_whole = value.as_int() && is_among(spec.type, "diuxXo");
  if (!fits && !is_whole) return wrong("'%{}' takes no {}", spec.type, type_name(value));
  Spec whole = spec;
  if (takes_floats) whole.type = 'd';
  return integer_text(
      runtime, value.as_int() ? *value.as_int() : static_cast<int64_t>(*value.as_number()), whole);
}

// Formatting with str.format().

Result<Spec> brace_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  SpecReader reader(text, at);
  constexpr std::string_view kAligns = "<>^=";
  if (reader.is_one_of(kAligns, 1)) {
    spec.fill = reader.next();
    spec.align = reader.next();
  } else if (reader.is_one_of(kAligns)) {
    spec.align = reader.next();
  }
  if (reader.is_one_of("+- ")) spec.sign = reader.next();
  spec.has_prefix = reader.skip('#');
  if (reader.peek() == '0') {
    reader.next();
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = '0';
    }
  }
  TRY_ASSIGN(spec.width, reader.number());
  spec.has_commas = reader.skip(',');
  TRY_ASSIGN(spec.precision, reader.precision());
  if (at < text.size()) spec.type = reader.next();
  if (at < text.size()) return wrong("'{}' is not a format", text);
  return spec;
}

Result<Text> brace_text(Runtime& runtime, const Value& value, std::string_view format) {
  if (format.empty()) return text_of(runtime, value);
  TRY_ASSIGN(const Spec spec, brace_spec(format));
  if (value.is_number() && !(value.as<bool>() && spec.type == 's')) {
    return number_text(runtime, value, spec);
  }
  if (!value.text() || !(spec.type == '\0' || spec.type == 's') || spec.align == '=') {
    return wrong("'{}' formats no {}", format, type_name(value));
  }
  return string_text(runtime, *value.text(), spec, spec.align == '\0' ? '<' : spec.align);
}

// Returns the value of a field: name, name.attribute or name[index].
Result<Value> field_value(std::string_view path, const Arguments& arguments, size_t& n_automatic) {
  size_t at = std::min(path.find_first_of(".["), path.size());
  const std::string_view name = path.substr(0, at);
  const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
  size_t index = 9999;
  if (name.empty()) index = n_automatic++;
  if (is_number && name.size() < 4) std::from_chars(name.data(), name.data() + name.size(), index);
  const Value* found = arguments.get(index, name);
  if (!found) return wrong("format() has nothing for '{{{}}}'", path);
  Value value = *found;
  while (at < path.size()) {
    const bool is_attribute = path[at] == '.';
    const size_t end =
        is_attribute ? std::min(path.find_first_of(".[", at + 1), path.size()) : path.find(']', at);
    if (end == path.npos) return wrong("format() has a '[' without a ']'");
    const std::string_view key = path.substr(at + 1, end - at - 1);
    TRY_ASSIGN(value, is_attribute ? get_attribute(value, key) : get_item(value, key_of(key)));
    at = is_attribute ? end : end + 1;
  }
  return value;
}

Result<Text> field_text(Runtime& runtime, std::string_view field, const Value& value) {
  const size_t colon = std::min(field.find(':'), field.size());
  const std::string_view conversion =
      field.substr(0, colon).substr(std::min(field.find('!'), colon));
  const std::string_view format = field.substr(std::min(colon + 1, field.size()));
  if (conversion.empty()) return brace_text(runtime, value, format);
  if (conversion != "!r" && conversion != "!s") return wrong("format() converts by !r and !s");
  TRY_ASSIGN(Text text, conversion == "!s" ? text_of(runtime, value) : repr_of(runtime, value));
  return brace_text(runtime, Value(std::move(text)), format);
}

}  // namespace

Result<Text> format_percent(Runtime& runtime, const Text& format, const Value& values) {
  std::vector<Value> items = {values};
  if (values.list() && values.list()->is_tuple()) items = values.list()->items;
  Text out;
  size_t n_used = 0;
  bool names_any = false;
  TRY(runtime.charge(format.size() / 16));
  TRY(runtime.charge_bytes(format.size()));
  for (size_t at = 0; at < format.size();) {
    const size_t next = std::min(format.view().find('%', at), format.size());
    out.append(format, at, next - at);
    at = next + 1;
    if (next == format.size()) break;
    SpecReader reader(format.view(), at);
    std::optional<Value> named;
    if (reader.skip('(')) {
      const size_t end = format.view().find(')', at);
      if (end == std::string_view::npos || !values.dict()) return wrong("'%(' takes a dict");
      const Value* found = values.dict()->find(format.view().substr(at, end - at));
      if (!found) return wrong("'%(' names a key that the dict does not have");
      named = *found;
      names_any = true;
      at = end + 1;
    }
    TRY_ASSIGN(const Spec spec, percent_spec(reader));
    if (spec.type == '%') {
      out.append(format, at - 1, 1);
      continue;
    }
    if (!named && n_used == items.size()) return wrong("'%' has too few values");
    TRY_ASSIGN(const Text part,
               percent_text(runtime, format, named ? *named : items[n_used++], spec));
    TRY(runtime.charge_bytes(cost_of(part)));
    out.append(part);
  }
  const bool may_be_left =
      names_any || values.dict() || (values.list() && !values.list()->is_tuple());
  if (n_used < items.size() && !may_be_left) return wrong("'%' has too many values");
  return format.is_markup() ? out.markup() : out;
}

Result<Text> format_braces(Runtime& runtime, const Text& format, const Arguments& arguments) {
  Text out;
  size_t n_automatic = 0;
  const std::string_view all = format.view();
  TRY(runtime.charge(all.size() / 16));
  TRY(runtime.charge_bytes(all.size()));
  for (size_t at = 0; at < all.size();) {
    const size_t next = std::min(all.find_first_of("{}", at), all.size());
    out.append(format, at, next - at);
    at = next;
    if (at == all.size()) break;
    if (all.substr(at, 2) == "{{" || all.substr(at, 2) == "}}") {
      out.append(format, at, 1);
      at += 2;
      continue;
    }
    const size_t end = all.find('}', at);
    if (all[at] == '}' || end == all.npos) return wrong("format() has an unmatched brace");
    const std::string_view field = all.substr(at + 1, end - at - 1);
    if (field.find('{') != field.npos) return wrong("format() takes no field in a field");
    const std::string_view path = field.substr(0, field.find_first_of("!:"));
    TRY_ASSIGN(const Value value, field_value(path, arguments, n_automatic));
    TRY_ASSIGN(Text part, field_text(runtime, field, value));
    if (format.is_markup()) {
      TRY_ASSIGN(part, escape_html(runtime, part));
    }
    TRY(runtime.charge_bytes(cost_of(part)));
    out.append(part);
    at = end + 1;
  }
  return format.is_markup() ? out.markup() : out;
}

}  // namespace kvik::jinja
