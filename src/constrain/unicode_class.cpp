#include "constrain/unicode_class.h"

#include <unicode/uniset.h>

#include <string>

namespace kvik::constrain {
namespace {

CodePointSet to_set(const icu::UnicodeSet& set) {
  std::vector<CodePointSet::Range> ranges;
  for (int32_t i = 0; i < set.getRangeCount(); ++i) {
    ranges.push_back(
        {static_cast<char32_t>(set.getRangeStart(i)), static_cast<char32_t>(set.getRangeEnd(i))});
  }
  return CodePointSet(std::move(ranges));
}

}  // namespace

std::optional<CodePointSet> unicode_class(std::string_view name) {
  for (const char c : name) {
    const bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || c == '=';
    if (!known) return {};
  }
  UErrorCode status = U_ZERO_ERROR;
  const std::string set = "[\\p{" + std::string(name) + "}]";
  const icu::UnicodeSet found(icu::UnicodeString::fromUTF8(set), status);
  if (U_FAILURE(status)) return {};
  return to_set(found);
}

CodePointSet close_over_case(const CodePointSet& set) {
  icu::UnicodeSet all;
  for (const auto& [first, last] : set.ranges())
    all.add(static_cast<UChar32>(first), static_cast<UChar32>(last));
  all.closeOver(USET_CASE_INSENSITIVE);
  return to_set(all);
}

}  // namespace kvik::constrain
