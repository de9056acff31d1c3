#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/utf8.h"
#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

bool is_space(char32_t c) {
  return u_isUWhiteSpace(static_cast<UChar32>(c)) || (c >= 0x1C && c <= 0x1F);
}

// The characters that strip() removes: whitespace, or those of its argument.
class Stripped {
 public:
  static Result<Stripped> read(const BoundArguments& arguments) {
    Stripped stripped;
    const Value* chars = arguments.get(0);
    if (!chars || chars->is_none()) return stripped;
    if (!chars->text()) return wrong("strip() takes a string");
    stripped.chars_.emplace();
    all_characters(chars->text()->view(), [&](UChar32 c) {
      *stripped.chars_ += static_cast<char32_t>(c);
      return true;
    });
    return stripped;
  }

  bool goes(const Utf8Step& step) const {
    const char32_t c = step.code_point;
    if (step.kind != Utf8Step::Kind::kValid) return false;
    return chars_ ? chars_->find(c) != chars_->npos : is_space(c);
  }

 private:
  std::optional<std::u32string> chars_;
};

size_t left_end(std::string_view bytes, const Stripped& stripped) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = next_utf8(bytes, at);
    if (!stripped.goes(step)) break;
    at += step.n_bytes;
  }
  return at;
}

size_t right_begin(std::string_view bytes, const Stripped& stripped) {
  size_t end = bytes.size();
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80) --at;
    if (!stripped.goes(next_utf8(bytes, at))) break;
    end = at;
  }
  return end;
}

enum class Ends { kLeft, kRight, kBoth };

template <Ends kEnds>
Result<Value> strip_ends(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const Stripped stripped, Stripped::read(arguments));
  TRY(runtime.charge_bytes(text.size()));
  const size_t begin = kEnds == Ends::kRight ? 0 : left_end(text.view(), stripped);
  const size_t end = kEnds == Ends::kLeft ? text.size() : right_begin(text.view(), stripped);
  return Value(text.substr(begin, end > begin ? end - begin : 0));
}

// Splits a text at whitespace, at most `n_splits` times. The last part is the rest of the text.
std::vector<Text> split_at_blanks(const Text& text, size_t n_splits) {
  std::vector<Text> parts;
  const std::string_view bytes = text.view();
  const Stripped blanks;
  size_t at = left_end(bytes, blanks);
  while (at < bytes.size()) {
    if (parts.size() == n_splits) {
      parts.push_back(text.substr(at, right_begin(bytes, blanks) - at));
      break;
    }
    size_t end = at;
    while (end < bytes.size()) {
      const Utf8Step step = next_utf8(bytes, end);
      if (blanks.goes(step)) break;
      end += step.n_bytes;
    }
    parts.push_back(text.substr(at, end - at));
    at = end + left_end(bytes.substr(end), blanks);
  }
  return parts;
}

std::vector<Text> split_at(const Text& text, std::string_view separator, size_t n_splits) {
  std::vector<Text> parts;
  size_t begin = 0;
  while (parts.size() < n_splits) {
    const size_t end = text.view().find(separator, begin);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin, text.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator, size_t n_splits) {
  std::vector<Text> parts;
  size_t end = text.size();
  while (parts.size() < n_splits && end >= separator.size()) {
    const size_t at = text.view().substr(0, end).rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size(), end - at - separator.size()));
    end = at;
  }
  parts.push_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value list_of(std::vector<Text> parts) {
  std::vector<Value> items;
  for (Text& part : parts) items.emplace_back(std::move(part));
  return make_list(std::move(items));
}

enum class From { kLeft, kRight };

template <From kFrom>
Result<Value> split(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t most, arguments.get_int(1, -1));
  const size_t n_splits = most < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(most);
  TRY(runtime.charge(1 + text.size() / 4));
  TRY(runtime.charge_bytes(text.size()));
  const Value* separator = arguments.get(0);
  if (!separator || separator->is_none()) return list_of(split_at_blanks(text, n_splits));
  if (!separator->text() || separator->text()->empty()) {
    return wrong("split() takes a string that is not empty");
  }
  const std::string_view bytes = separator->text()->view();
  return list_of(kFrom == From::kLeft ? split_at(text, bytes, n_splits)
                                      : split_from_right(text, bytes, n_splits));
}

template <From kFrom>
Result<Value> partition(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::string separator, arguments.get_required_string(0));
  if (separator.empty()) return wrong("partition() takes a string that is not empty");
  TRY(runtime.charge_bytes(text.size()));
  const size_t at =
      kFrom == From::kLeft ? text.view().find(separator) : text.view().rfind(separator);
  if (at == std::string_view::npos) {
    return kFrom == From::kLeft ? make_tuple({Value(text), Value(Text()), Value(Text())})
                                : make_tuple({Value(Text()), Value(Text()), Value(text)});
  }
  return make_tuple({Value(text.substr(0, at)), Value(text.substr(at, separator.size())),
                     Value(text.substr(at + separator.size(), text.size()))});
}

Result<Value> splitlines(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY(runtime.charge(1 + text.size() / 4));
  const bool keeps_ends = arguments.get_flag(0);
  return list_of(split_lines(text, keeps_ends ? LineEnds::kKept : LineEnds::kDropped));
}

// Returns the part of the text between the arguments `start` and `end`, which follow the first
// argument; std::nullopt if `start` is beyond the end.
Result<std::optional<std::string_view>> window_of(Runtime& runtime, const Text& text,
                                                  const BoundArguments& arguments) {
  const Value* start = arguments.get(1);
  const Value* end = arguments.get(2);
  TRY(runtime.charge(1 + text.size() / 16));
  if (!start && !end) return std::optional(text.view());
  const auto n = static_cast<int64_t>(n_characters(text.view()));
  TRY_ASSIGN(int64_t first, arguments.get_int(1, 0));
  TRY_ASSIGN(int64_t last, arguments.get_int(2, n));
  if (first > n) return std::optional<std::string_view>();
  first = first < 0 ? std::max<int64_t>(first + n, 0) : first;
  last = std::clamp<int64_t>(last < 0 ? last + n : last, 0, n);
  if (last < first) return std::optional<std::string_view>();
  const size_t begin = byte_of_character(text.view(), static_cast<size_t>(first));
  const size_t stop = byte_of_character(text.view(), static_cast<size_t>(last));
  return std::optional(text.view().substr(begin, stop - begin));
}

template <bool (*kHolds)(std::string_view, std::string_view)>
Result<Value> any_affix(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const auto window, window_of(runtime, text, arguments));
  const Value* affix = arguments.get(0);
  const bool is_tuple = affix->list() && affix->list()->is_tuple();
  if (!is_tuple && !affix->text()) {
    return wrong("startswith() and endswith() take a string or a tuple of strings");
  }
  const std::vector<Value> one = {*affix};
  for (const Value& item : is_tuple ? affix->list()->items : one) {
    if (!item.text()) return wrong("startswith() and endswith() take strings");
    if (window && kHolds(*window, item.text()->view())) return Value(true);
  }
  return Value(false);
}

bool starts(std::string_view text, std::string_view with) { return text.starts_with(with); }
bool ends(std::string_view text, std::string_view with) { return text.ends_with(with); }

template <From kFrom>
Result<Value> find(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::string part, arguments.get_required_string(0));
  TRY_ASSIGN(const auto window, window_of(runtime, text, arguments));
  if (!window) return Value(int64_t{-1});
  const size_t at = kFrom == From::kLeft ? window->find(part) : window->rfind(part);
  if (at == std::string_view::npos) return Value(int64_t{-1});
  const auto n_before = static_cast<size_t>(window->data() - text.view().data()) + at;
  return Value(static_cast<int64_t>(n_characters(text.view().substr(0, n_before))));
}

Result<Value> index(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(Value at, find<From::kLeft>(runtime, text, arguments));
  if (at.as_int() == -1) return wrong("index() finds nothing");
  return at;
}

Result<Value> count(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::string part, arguments.get_required_string(0));
  TRY_ASSIGN(const auto window, window_of(runtime, text, arguments));
  if (!window) return Value(int64_t{0});
  if (part.empty()) return Value(static_cast<int64_t>(n_characters(*window) + 1));
  int64_t n = 0;
  for (size_t at = window->find(part); at != std::string_view::npos;
       at = window->find(part, at + part.size())) {
    ++n;
  }
  return Value(n);
}

// Returns true if the text is not empty and kHolds is true for all characters.
template <auto kHolds>
Result<Value> all_are(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge(1 + text.size() / 16));
  return Value(!text.empty() && all_characters(text.view(), kHolds));
}

bool is_alpha(UChar32 c) { return (U_GET_GC_MASK(c) & U_GC_L_MASK) != 0; }
bool is_digit(UChar32 c) { return u_charDigitValue(c) >= 0; }
bool is_alnum(UChar32 c) { return is_alpha(c) || (U_GET_GC_MASK(c) & U_GC_N_MASK) != 0; }
bool is_blank(UChar32 c) { return is_space(static_cast<char32_t>(c)); }

// Returns true if the text has a cased letter and all cased letters have this case.
template <auto kHolds, auto kBreaks>
Result<Value> cased_are(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge(1 + text.size() / 16));
  bool has_any = false;
  const bool is_unbroken = all_characters(text.view(), [&](UChar32 c) {
    has_any |= kHolds(c);
    return !kBreaks(c);
  });
  return Value(is_unbroken && has_any);
}

bool is_upper(UChar32 c) { return u_isUUppercase(c) != 0; }
bool is_lower(UChar32 c) { return u_isULowercase(c) != 0; }

Result<Text> padding(Runtime& runtime, const Text& text, int64_t width, const std::string& fill) {
  if (n_characters(fill) != 1) return wrong("ljust() and rjust() fill with one character");
  const auto missing = width - static_cast<int64_t>(n_characters(text.view()));
  if (missing <= 0) return Text();
  TRY_ASSIGN(const Value pad, binary(runtime, "*", make_text(fill), Value(missing)));
  return *pad.text();
}

Value joined(Text begin, const Text& end) {
  begin.append(end);
  return Value(std::move(begin));
}

template <From kFrom>
Result<Value> justify(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t width, arguments.get_int(0, 0));
  TRY_ASSIGN(const std::string fill, arguments.get_string(1, " "));
  TRY_ASSIGN(const Text pad, padding(runtime, text, width, fill));
  return kFrom == From::kLeft ? joined(text, pad) : joined(pad, text);
}

// Implements zfill(). A sign stays before the zeros.
Result<Value> zfill(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t width, arguments.get_int(0, 0));
  const bool has_sign = text.view().starts_with('-') || text.view().starts_with('+');
  const size_t n_sign = has_sign ? 1 : 0;
  TRY_ASSIGN(const Text zeros, padding(runtime, text, width, "0"));
  Text out = text.substr(0, n_sign);
  out.append(zeros);
  return joined(std::move(out), text.substr(n_sign, text.size()));
}

Result<Value> swap_case(Runtime& runtime, const Text& text, const BoundArguments&) {
  Text out;
  TRY(runtime.charge(1 + text.size()));
  TRY(runtime.charge_bytes(text.size() * 3));
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.view(), at);
    const bool is_large = u_isUUppercase(static_cast<UChar32>(step.code_point)) != 0;
    TRY_ASSIGN(const Value swapped, with_case(runtime, text.substr(at, step.n_bytes),
                                              is_large ? Case::kLower : Case::kUpper));
    out.append(*swapped.text());
    at += step.n_bytes;
  }
  return Value(out.like(text));
}

Result<Value> is_ascii(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge(1 + text.size() / 16));
  return Value(std::ranges::none_of(text.view(), [](char c) { return c & 0x80; }));
}

Result<Value> is_title(Runtime& runtime, const Text& text, const BoundArguments&) {
  TRY(runtime.charge(1 + text.size() / 16));
  bool has_any = false;
  bool is_inside = false;
  const bool is_unbroken = all_characters(text.view(), [&](UChar32 c) {
    const bool begins = u_isUUppercase(c) || u_istitle(c);
    const bool goes_on = u_isULowercase(c) != 0;
    const bool fits = !(begins && is_inside) && !(goes_on && !is_inside);
    has_any |= begins;
    is_inside = begins || goes_on;
    return fits;
  });
  return Value(is_unbroken && has_any);
}

Result<Value> expand_tabs(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t width, arguments.get_int(0, 8));
  TRY(runtime.charge(1 + text.size()));
  Text out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t n_bytes = byte_of_character(text.view().substr(at, 4), 1);
    const char c = text.view()[at];
    if (c == '\t') {
      const int64_t missing = width > 0 ? width - column % width : 0;
      TRY(runtime.charge_bytes(static_cast<uint64_t>(missing)));
      out.append(std::string(static_cast<size_t>(missing), ' '), Origin::kTemplate);
      column += missing;
    } else {
      out.append(text, at, n_bytes);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at += n_bytes;
  }
  return Value(out.like(text));
}

template <From kFrom>
Result<Value> remove_affix(Runtime&, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::string affix, arguments.get_required_string(0));
  const bool is_prefix = kFrom == From::kLeft;
  const bool has_it = is_prefix ? text.view().starts_with(affix) : text.view().ends_with(affix);
  if (!has_it) return Value(text);
  return Value(text.substr(is_prefix ? affix.size() : 0, text.size() - affix.size()));
}

Result<Value> join(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(std::vector<Value> items, iterate(runtime, *arguments.get(0)));
  for (const Value& item : items) {
    if (!item.text()) return wrong("join() takes strings, not a {}", type_name(item));
  }
  return apply_filter(runtime, "join", make_list(std::move(items)), {{Value(text)}, {}});
}

Result<Value> format(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  return format_braces(runtime, text, arguments.given());
}

constexpr auto kStringMethods = std::to_array<StringMethod>({
    {"strip", strip, "chars?"},
    {"lstrip", strip_ends<Ends::kLeft>, "chars?"},
    {"rstrip", strip_ends<Ends::kRight>, "chars?"},
    {"split", split<From::kLeft>, "sep? maxsplit?"},
    {"rsplit", split<From::kRight>, "sep? maxsplit?"},
    {"partition", partition<From::kLeft>, "sep"},
    {"rpartition", partition<From::kRight>, "sep"},
    {"splitlines", splitlines, "keepends?"},
    {"startswith", any_affix<starts>, "prefix start? end?"},
    {"endswith", any_affix<ends>, "prefix start? end?"},
    {"find", find<From::kLeft>, "sub start? end?"},
    {"rfind", find<From::kRight>, "sub start? end?"},
    {"index", index, "sub start? end?"},
    {"count", count, "sub start? end?"},
    {"replace", replace, "old new count?"},
    {"upper", change_case<Case::kUpper>},
    {"lower", change_case<Case::kLower>},
    {"casefold", change_case<Case::kLower>},
    {"swapcase", swap_case},
    {"isascii", is_ascii},
    {"istitle", is_title},
    {"expandtabs", expand_tabs, "tabsize?"},
    {"title", change_case<Case::kTitle>},
    {"capitalize", change_case<Case::kCapital>},
    {"isalpha", all_are<is_alpha>},
    {"isdigit", all_are<is_digit>},
    {"isnumeric", all_are<is_digit>},
    {"isdecimal", all_are<is_digit>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_blank>},
    {"isupper", cased_are<is_upper, is_lower>},
    {"islower", cased_are<is_lower, is_upper>},
    {"center", center, "width fillchar?"},
    {"ljust", justify<From::kLeft>, "width fillchar?"},
    {"rjust", justify<From::kRight>, "width fillchar?"},
    {"zfill", zfill, "width"},
    {"removeprefix", remove_affix<From::kLeft>, "prefix"},
    {"removesuffix", remove_affix<From::kRight>, "suffix"},
    {"join", join, "iterable"},
    {"format", format, "*"},
});

}  // namespace

const StringMethod* find_string_method(std::string_view name) {
  return find_callable(kStringMethods, name);
}

Result<Value> strip(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  return strip_ends<Ends::kBoth>(runtime, text, arguments);
}

}  // namespace kvik::jinja
