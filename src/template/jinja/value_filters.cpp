#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text/percent_encoding.h"
#include "base/utf8.h"
#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

Result<Value> abs(Runtime&, const Value& value, const BoundArguments&) {
  if (const auto i = value.as_int()) {
    int64_t negated = 0;
    if (*i >= 0) return Value(*i);
    if (__builtin_sub_overflow(int64_t{0}, *i, &negated))
      return wrong("the number does not fit in 64 bits");
    return Value(negated);
  }
  if (const auto d = value.as_number()) return Value(std::fabs(*d));
  return wrong("abs takes no {}", type_name(value));
}

// Applies a string method to str(value), as a filter.
template <TextFunction kFunction>
Result<Value> of_text(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const Text text, text_of(runtime, value));
  return kFunction(runtime, text, arguments);
}

Result<Value> replace_plain(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  return replace(runtime, text.plain(), arguments);
}

Result<Value> string(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge_bytes(text.size()));
  return Value(text);
}

Result<Value> default_(Runtime&, const Value& value, const BoundArguments& arguments) {
  const bool is_missing = value.is_undefined() || (arguments.get_flag(1) && !value.truthy());
  if (!is_missing) return value;
  const Value* otherwise = arguments.get(0);
  return otherwise ? *otherwise : Value(Text());
}

Result<Value> escape(Runtime& runtime, const Text& text, const BoundArguments&) {
  return escape_html(runtime, text);
}

Result<Value> force_escape(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  return escape(runtime, text.plain(), arguments);
}

Result<Value> safe(Runtime&, const Text& text, const BoundArguments&) {
  return Value(text.markup());
}

// Returns a float truncated to an integer.
Result<Value> whole(double value) {
  if (!(std::fabs(value) < 9.2e18)) return wrong("the number does not fit in 64 bits");
  return Value(static_cast<int64_t>(value));
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlanks)));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Removes single underscores between digits, which Python's literals allow. Returns an empty text
// if underscores are elsewhere.
std::string without_underscores(std::string_view text) {
  const bool is_wrong =
      text.starts_with('_') || text.ends_with('_') || text.find("__") != text.npos;
  std::string digits(is_wrong ? "" : text);
  std::erase(digits, '_');
  return digits;
}

// Implements Python's int(text, base). The prefixes 0x, 0o and 0b are accepted if they match the
// base, and base 0 derives the base from them.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  text = stripped(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.front() == '-') return std::nullopt;
  constexpr std::array<std::pair<std::string_view, int64_t>, 3> kPrefixes = {
      {{"xX", 16}, {"oO", 8}, {"bB", 2}}};
  for (const auto& [letters, prefix_base] : kPrefixes) {
    const bool has_it = text.size() > 2 && text[0] == '0' && letters.find(text[1]) != letters.npos;
    if (!has_it || (base != 0 && base != prefix_base)) continue;
    text.remove_prefix(2);
    base = prefix_base;
    if (text.starts_with('_')) text.remove_prefix(1);
    break;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return std::nullopt;
  std::string digits = without_underscores(text);
  if (is_negative) digits.insert(digits.begin(), '-');
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number, static_cast<int>(base));
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

std::optional<double> parse_float(std::string_view text) {
  text = stripped(text);
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  const std::string digits = without_underscores(text);
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

Result<Value> int_(Runtime&, const Value& value, const BoundArguments& arguments) {
  if (const auto i = value.as_int()) return Value(*i);
  if (const auto d = value.as_number()) return whole(*d);
  const Value* otherwise = arguments.get(0);
  const Value fallback = otherwise ? *otherwise : Value(int64_t{0});
  if (value.is_undefined()) return wrong("int takes no undefined value");
  if (!value.text()) return fallback;
  TRY_ASSIGN(const int64_t base, arguments.get_int(1, 10));
  if (const auto number = parse_integer(value.text()->view(), base)) return Value(*number);
  const auto real = parse_float(value.text()->view());
  if (!real || !std::isfinite(*real)) return fallback;
  return whole(*real);
}

Result<Value> float_(Runtime&, const Value& value, const BoundArguments& arguments) {
  if (const auto number = value.as_number()) return Value(*number);
  const Value* otherwise = arguments.get(0);
  const Value fallback = otherwise ? *otherwise : Value(0.0);
  if (value.is_undefined()) return wrong("float takes no undefined value");
  const auto number = value.text() ? parse_float(value.text()->view()) : std::nullopt;
  return number ? Value(*number) : fallback;
}

Result<Value> round(Runtime&, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t precision, arguments.get_int(0, 0));
  TRY_ASSIGN(const std::string method, arguments.get_string(1, "common"));
  const auto number = value.as_number();
  if (!number) return wrong("round takes no {}", type_name(value));
  if (method != "common" && method != "ceil" && method != "floor") {
    return wrong("round has no method '{}'", method);
  }
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<int64_t>(precision, -20, 20)));
  // Adding 0.0 turns -0 into 0, as Python does by rounding to an integer.
  if (method == "ceil") return Value((std::ceil(*number * scale) + 0.0) / scale);
  if (method == "floor") return Value((std::floor(*number * scale) + 0.0) / scale);
  if (precision >= 0 && value.as_int()) return Value(*value.as_int());
  if (precision < 0) return Value(std::nearbyint(*number * scale) / scale);  // rounds half to even
  const int digits = static_cast<int>(std::min<int64_t>(precision, 20));
  // Rounds the decimal text, exactly as Python does.
  const auto rounded = parse_float(fmt::format("{:.{}f}", *number, digits));
  return Value(rounded.value_or(*number));
}

// Implements Jinja's indent(width=4, first=False, blank=False).
Result<Value> indent(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  const Value* width = arguments.get(0);
  std::string pad(4, ' ');
  if (width && width->text()) {
    pad = width->text()->bytes();
  } else if (width && width->as_int()) {
    const auto n = static_cast<uint64_t>(std::max<int64_t>(*width->as_int(), 0));
    TRY(runtime.charge_bytes(n));
    pad.assign(n, ' ');
  }
  const bool pads_blank = arguments.get_flag(2);
  Text terminated = text;
  terminated.append("\n", Origin::kTemplate);
  const std::vector<Text> lines = split_lines(terminated, LineEnds::kDropped);
  TRY(runtime.charge_bytes(text.size() + lines.size() * (pad.size() + 1)));
  Text out;
  if (arguments.get_flag(1)) out.append(pad, Origin::kTemplate);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", Origin::kTemplate);
    if (i > 0 && (pads_blank || !lines[i].empty())) out.append(pad, Origin::kTemplate);
    out.append(lines[i]);
  }
  return Value(std::move(out));
}

Result<Value> tojson(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  // The signature is Hugging Face's: tojson(x, ensure_ascii, indent, separators, sort_keys).
  JsonOptions options;
  const Value* indent = arguments.get(1);
  if (indent && indent->as_int()) {
    const int64_t width = std::max<int64_t>(*indent->as_int(), 0);
    TRY(runtime.charge_bytes(static_cast<uint64_t>(width)));
    options.indent = static_cast<size_t>(width);
    options.item_separator.resize(1);  // drops the space after the comma
  }
  const Value* separators = arguments.get(2);
  if (separators && separators->list() && separators->list()->items.size() == 2) {
    TRY_ASSIGN(const Text item_separator, text_of(runtime, separators->list()->items[0]));
    TRY_ASSIGN(const Text key_separator, text_of(runtime, separators->list()->items[1]));
    options.item_separator = item_separator.bytes();
    options.key_separator = key_separator.bytes();
  }
  options.ascii_only = arguments.get_flag(0);
  options.sort_keys = arguments.get_flag(3);
  return to_json(runtime, value, options);
}

Result<Value> attr(Runtime&, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::string name, arguments.get_string(0, ""));
  if (value.dict()) return Value(Undefined{name});  // Jinja's attr looks up attributes only
  return get_attribute(value, name);
}

Result<Value> format_pattern(Runtime& runtime, const Text& pattern,
                             const BoundArguments& arguments) {
  return format_percent(runtime, pattern, make_tuple(arguments.given().positional));
}

// Counts runs of letters, digits and underscores.
Result<Value> wordcount(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge(1 + text.size() / 16));
  int64_t n = 0;
  bool is_inside = false;
  all_characters(text.view(), [&](UChar32 c) {
    const bool is_word = c == '_' || (U_GET_GC_MASK(c) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
    n += is_word && !is_inside ? 1 : 0;
    is_inside = is_word;
    return true;
  });
  return Value(n);
}

Result<Value> truncate(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  if (!value.text()) return wrong("truncate takes no {}", type_name(value));
  const Text& text = *value.text();
  TRY_ASSIGN(const int64_t length, arguments.get_int(0, 255));
  TRY_ASSIGN(const std::string end, arguments.get_string(2, "..."));
  TRY_ASSIGN(const int64_t leeway, arguments.get_int(3, 5));
  const auto n = static_cast<int64_t>(n_characters(text.view()));
  const auto n_end = static_cast<int64_t>(n_characters(end));
  if (length < n_end) return wrong("truncate: the length is less than that of `end`");
  if (n <= length + leeway) return Value(text);
  TRY(runtime.charge_bytes(text.size()));
  Text cut = text.substr(0, byte_of_character(text.view(), static_cast<size_t>(length - n_end)));
  if (!arguments.get_flag(1)) {
    const size_t blank = cut.view().rfind(' ');
    if (blank != std::string_view::npos) cut = cut.substr(0, blank);
  }
  cut.append(end, Origin::kTemplate);
  return Value(std::move(cut));
}

Result<Value> urlencode(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge_bytes(text.size() * 3));
  return make_text(percent_encoded(text.view(), "-._~/"), Origin::kGiven);
}

constexpr auto kFilters = std::to_array<Filter>({
    {"abs", abs},
    {"attr", attr, "name"},
    {"capitalize", of_text<change_case<Case::kCapital>>},
    {"center", of_text<center>, "width?"},
    {"d", default_, "default_value? boolean?"},
    {"default", default_, "default_value? boolean?"},
    {"e", of_text<escape>},
    {"escape", of_text<escape>},
    {"float", float_, "default?"},
    {"forceescape", of_text<force_escape>},
    {"format", of_text<format_pattern>, "*"},
    {"indent", of_text<indent>, "width? first? blank?"},
    {"int", int_, "default? base?"},
    {"lower", of_text<change_case<Case::kLower>>},
    {"replace", of_text<replace_plain>, "old new count?"},
    {"round", round, "precision? method?"},
    {"safe", of_text<safe>},
    {"string", of_text<string>},
    {"title", of_text<change_case<Case::kWords>>},
    {"tojson", tojson, "ensure_ascii? indent? separators? sort_keys?"},
    {"trim", of_text<strip>, "chars?"},
    {"truncate", truncate, "length? killwords? end? leeway?"},
    {"upper", of_text<change_case<Case::kUpper>>},
    {"urlencode", of_text<urlencode>},
    {"wordcount", of_text<wordcount>},
});

}  // namespace

std::span<const Filter> value_filters() { return kFilters; }

}  // namespace kvik::jinja
