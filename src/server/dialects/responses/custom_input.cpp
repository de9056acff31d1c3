#include "server/dialects/responses/custom_input.h"

#include <utility>

#include "base/blanks.h"
#include "service/tools/value_reader.h"

namespace kvik {
namespace {

constexpr std::string_view kOpening = "{\"input\":\"";
constexpr size_t kEscape = 2;      // size of \n
constexpr size_t kCodePoint = 6;   // size of \u00e9
constexpr size_t kTwoHalves = 12;  // size of a surrogate pair

// Returns the length in bytes of a JSON string's first character, 0 if it is incomplete.
size_t n_bytes_of_character(std::string_view json) {
  if (json.front() != '\\') return 1;
  if (json.size() < kEscape) return 0;
  if (json[1] != 'u') return kEscape;
  if (json.size() < kCodePoint) return 0;
  const bool is_half = json[2] == 'd' || json[2] == 'D';
  const bool is_first = is_half && (json[3] == '8' || json[3] == '9' || json[3] == 'a' ||
                                    json[3] == 'A' || json[3] == 'b' || json[3] == 'B');
  const size_t n = is_first ? kTwoHalves : kCodePoint;
  return json.size() < n ? 0 : n;
}

// Returns the length in bytes of the opening including whitespace, 0 if it is incomplete, npos if
// the text begins differently.
size_t n_bytes_of_opening(std::string_view text) {
  // positions in the opening where whitespace is allowed
  constexpr size_t kKey = 1, kColon = 8, kValue = 9;
  size_t n_matched = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool may_be_blank = n_matched == kKey || n_matched == kColon || n_matched == kValue;
    if (is_blank(text[i]) && may_be_blank) continue;
    if (text[i] != kOpening[n_matched]) return text.npos;
    if (++n_matched == kOpening.size()) return i + 1;
  }
  return 0;
}

}  // namespace

std::string CustomInput::push(std::string_view arguments) {
  held_ += arguments;
  if (place_ == Place::kBefore) {
    const size_t n = n_bytes_of_opening(held_);
    if (n == held_.npos) place_ = Place::kOther;
    if (n == 0 || n == held_.npos) return "";
    held_.erase(0, n);
    place_ = Place::kInput;
  }
  return place_ == Place::kInput ? decoded() : "";
}

std::string CustomInput::decoded() {
  const std::string_view json = held_;
  size_t n = 0;
  while (n < json.size() && json[n] != '"') {
    const size_t n_character = n_bytes_of_character(json.substr(n));
    if (n_character == 0) break;
    n += n_character;
  }
  const std::string input = unquoted("\"" + held_.substr(0, n) + "\"");
  if (n < json.size() && json[n] == '"') place_ = Place::kAfter;
  held_.erase(0, n);
  return input;
}

std::string CustomInput::finish() {
  const bool is_other = place_ == Place::kOther || place_ == Place::kBefore;
  return is_other ? std::exchange(held_, {}) : "";
}

}  // namespace kvik
