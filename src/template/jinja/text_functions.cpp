#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

bool begins_word_after(UChar32 c) {
  return u_isUWhiteSpace(c) || (c >= 0x1C && c <= 0x1F) || c == '-' || c == '(' || c == '{' ||
         c == '[' || c == '<';
}

// Changes the case of a text letter by letter, depending on the previous character.
class Recaser {
 public:
  explicit Recaser(Case letters) : letters_(letters) {}

  std::string recase(const icu::UnicodeString& text) {
    icu::UnicodeString out;
    for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
      const UChar32 c = text.char32At(i);
      out.append(is_inside_ ? icu::UnicodeString(c).toLower(icu::Locale::getRoot()) : first(c));
      is_inside_ = letters_ == Case::kCapital || (letters_ == Case::kTitle && u_isalpha(c)) ||
                   (letters_ == Case::kWords && !begins_word_after(c));
    }
    std::string bytes;
    out.toUTF8String(bytes);
    return bytes;
  }

 private:
  icu::UnicodeString first(UChar32 c) const {
    if (letters_ == Case::kWords) return icu::UnicodeString(c).toUpper(icu::Locale::getRoot());
    return icu::UnicodeString(u_totitle(c));
  }

  Case letters_;
  bool is_inside_ = false;
};

}  // namespace

Result<Value> with_case(Runtime& runtime, const Text& text, Case letters) {
  TRY(runtime.charge_bytes(text.size() * 3));
  Text out;
  Recaser recaser(letters);
  text.each_run([&](std::string_view part, Origin origin) {
    icu::UnicodeString wide = icu::UnicodeString::fromUTF8(
        icu::StringPiece(part.data(), static_cast<int32_t>(part.size())));
    std::string bytes;
    if (letters == Case::kUpper) {
      wide.toUpper(icu::Locale::getRoot()).toUTF8String(bytes);
    } else if (letters == Case::kLower) {
      wide.toLower(icu::Locale::getRoot()).toUTF8String(bytes);
    } else {
      bytes = recaser.recase(wide);
    }
    out.append(bytes, origin);
  });
  return Value(out.like(text));
}

Result<Value> replace(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t most, arguments.get_int(2, -1));
  TRY_ASSIGN(const Text old_text, text_of(runtime, *arguments.get(0)));
  TRY_ASSIGN(const Text with, text_of(runtime, *arguments.get(1)));
  const std::string& old = old_text.bytes();
  Text out;
  size_t begin = 0;
  int64_t n = 0;
  TRY(runtime.charge_bytes(text.size()));
  while (most < 0 || n < most) {
    size_t at = old.empty() ? begin : text.view().find(old, begin);
    if (at == std::string_view::npos) break;
    TRY(runtime.charge_bytes(with.size()));
    TRY(runtime.charge(1));
    out.append(text, begin, at - begin);
    out.append(with);
    ++n;
    begin = at + old.size();
    if (!old.empty()) continue;
    if (at == text.size()) return Value(std::move(out));
    const size_t n_bytes = byte_of_character(text.view().substr(at, 4), 1);
    out.append(text, at, n_bytes);
    begin = at + n_bytes;
  }
  out.append(text, begin, text.size());
  return Value(std::move(out));
}

Result<Value> center(Runtime& runtime, const Text& text, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t width, arguments.get_int(0, 80));
  TRY_ASSIGN(const std::string fill, arguments.get_string(1, " "));
  if (n_characters(fill) != 1) return wrong("center() fills with one character");
  const auto missing = width - static_cast<int64_t>(n_characters(text.view()));
  if (missing <= 0) return Value(text);
  const int64_t left = missing / 2 + (missing & width & 1);
  TRY(runtime.charge_bytes(static_cast<uint64_t>(missing)));
  Text out;
  for (int64_t i = 0; i < left; ++i) out.append(fill, Origin::kTemplate);
  out.append(text);
  for (int64_t i = left; i < missing; ++i) out.append(fill, Origin::kTemplate);
  return Value(out.like(text));
}

std::vector<Text> split_lines(const Text& text, LineEnds ends) {
  constexpr std::u32string_view kEnds = U"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029";
  std::vector<Text> lines;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = next_utf8(bytes, at);
    const bool is_end =
        step.kind == Utf8Step::Kind::kValid && kEnds.find(step.code_point) != kEnds.npos;
    const size_t next = at + step.n_bytes;
    if (is_end) {
      const bool has_two = step.code_point == '\r' && bytes.substr(next).starts_with('\n');
      const size_t line_begin = std::exchange(begin, next + (has_two ? 1 : 0));
      lines.push_back(text.substr(line_begin, (ends == LineEnds::kKept ? begin : at) - line_begin));
      at = begin;
    } else {
      at = next;
    }
  }
  if (begin < bytes.size()) lines.push_back(text.substr(begin, bytes.size()));
  return lines;
}

}  // namespace kvik::jinja
