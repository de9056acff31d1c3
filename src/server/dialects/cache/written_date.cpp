#include "server/dialects/cache/written_date.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/dialects/cache/ascii.h"

namespace kvik {
namespace {

// Matches a time of day, as 9:05 or 23:59:30. kMinutes: without seconds, which may be a ratio.
enum class ClockForm : uint8_t { kNone, kMinutes, kSeconds };
ClockForm find_clock(std::string_view text) {
  ClockForm found = ClockForm::kNone;
  for (size_t at = text.find(':', 1); at != text.npos; at = text.find(':', at + 1)) {
    size_t begin = at, end = at + 1;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    while (end < text.size() && is_digit(text[end])) ++end;
    const size_t n_hours = at - begin, n_minutes = end - at - 1;
    const bool follows_name = begin > 0 && (text[begin - 1] == ':' || text[begin - 1] == '.');
    if (n_hours < 1 || n_hours > 2 || n_minutes != 2 || follows_name) continue;
    const std::string_view rest = text.substr(end);
    const bool has_seconds = rest.size() >= 3 && rest[0] == ':' && is_digit(rest[1]) &&
                             is_digit(rest[2]) && !(rest.size() > 3 && is_digit(rest[3]));
    found = has_seconds || found == ClockForm::kSeconds ? ClockForm::kSeconds : ClockForm::kMinutes;
  }
  return found;
}

// Matches 2026-11-22 and 22.11.2026, but not 2.1.330 and 2026.4.1 (versions) or 127.0.0.1.
bool has_calendar_date(std::string_view text) {
  constexpr size_t kYear = 4, kParts = 3;
  std::array<std::string_view, kParts> last{};  // the last three numbers
  std::array<char, kParts> marks{};             // and the characters before them
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    last = {last[1], last[2], text.substr(at, end - at)};
    marks = {marks[1], marks[2], at > 0 ? text[at - 1] : ' '};
    at = end;
    const char mark = marks[2];
    if (mark != marks[1] || (mark != '-' && mark != '/' && mark != '.')) continue;
    const auto is_year = [](std::string_view n) {
      return n.size() == kYear && (n.starts_with("19") || n.starts_with("20"));
    };
    const auto is_short = [](std::string_view n) { return n.size() == 1 || n.size() == 2; };
    const bool begins_with_year = is_year(last[0]) && is_short(last[2]) && mark != '.';
    const bool ends_with_year = is_short(last[0]) && is_year(last[2]);
    if (is_short(last[1]) && (begins_with_year || ends_with_year)) return true;
  }
  return false;
}

bool is_name_of_day_or_month(std::string_view word) {
  constexpr std::array<std::string_view, 19> kNames = {
      "January",   "February",  "March",   "April",    "May",      "June",   "July",
      "August",    "September", "October", "November", "December", "Monday", "Tuesday",
      "Wednesday", "Thursday",  "Friday",  "Saturday", "Sunday"};
  constexpr size_t kShortest = 3;
  return word.size() >= kShortest &&
         std::ranges::any_of(kNames, [&](std::string_view name) { return name.starts_with(word); });
}

// Matches the words of "Sunday, 22nd of November 2026 at 9 PM".
bool is_date_word(std::string_view word) {
  constexpr std::array<std::string_view, 6> kSmall = {"of", "at", "AM", "PM", "UTC", "GMT"};
  constexpr std::array<std::string_view, 4> kOrdinals = {"st", "nd", "rd", "th"};
  constexpr size_t kMostDigits = 4;
  if (std::ranges::find(kSmall, word) != kSmall.end() || is_name_of_day_or_month(word)) return true;
  const size_t n_digits = std::min(word.size(), word.find_first_not_of("0123456789"));
  const std::string_view end = word.substr(n_digits);
  return n_digits > 0 && n_digits <= kMostDigits &&
         (end.empty() || std::ranges::find(kOrdinals, end) != kOrdinals.end());
}

// Matches "Sun Nov 22", "22 November 2026": a month or weekday and a number, with only words of a
// date between them and the place.
bool is_in_named_date(std::string_view all, size_t at) {
  constexpr std::string_view kBetween = " ,.-/:";
  constexpr size_t kMostBetween = 2;
  const auto is_of_word = [&](size_t i) {
    return i < all.size() && (is_digit(all[i]) || is_letter(all[i]));
  };
  for (size_t n = 0; n < kMostBetween && at < all.size() && kBetween.contains(all[at]); ++n) ++at;
  bool has_number = false, has_name = false;
  const auto reads_word = [&](size_t begin, size_t end) {
    const std::string_view word = all.substr(begin, end - begin);
    if (!is_date_word(word)) return false;
    has_number = has_number || is_digit(word.front());
    has_name = has_name || is_name_of_day_or_month(word);
    return true;
  };
  size_t begin = at, end = at;
  while (begin > 0 && is_of_word(begin - 1)) --begin;
  while (is_of_word(end)) ++end;
  if (begin == end || !reads_word(begin, end)) return false;
  while (end < all.size()) {
    size_t next = end;
    while (next < all.size() && next - end < kMostBetween && kBetween.contains(all[next])) ++next;
    size_t next_end = next;
    while (is_of_word(next_end)) ++next_end;
    if (next == end || next_end == next || !reads_word(next, next_end)) break;
    end = next_end;
  }
  while (begin > 0) {
    size_t last = begin;
    while (last > 0 && begin - last < kMostBetween && kBetween.contains(all[last - 1])) --last;
    size_t last_begin = last;
    while (last_begin > 0 && is_of_word(last_begin - 1)) --last_begin;
    if (last == begin || last_begin == last || !reads_word(last_begin, last)) break;
    begin = last_begin;
  }
  return has_number && has_name;
}

// Returns whether a word beside [begin, end) says that it is a time of day.
bool is_told_as_time(std::string_view all, size_t begin, size_t end) {
  constexpr std::array<std::string_view, 12> kBefore = {
      "at", "is", "time", "Time", "now", "Now", "clock", "since", "until", "from", "by", "to"};
  constexpr std::array<std::string_view, 10> kAfter = {"AM",  "PM",  "am",  "pm",   "UTC",
                                                       "GMT", "now", "CET", "CEST", "today"};
  constexpr std::string_view kBlanks = " \t\n", kPunctuation = ":,;=(";
  std::string_view before = all.substr(0, begin);
  before = before.substr(0, before.find_last_not_of(kBlanks) + 1);
  before = before.substr(0, before.find_last_not_of(kPunctuation) + 1);
  before = before.substr(before.find_last_of(kBlanks) + 1);
  std::string_view after = all.substr(end);
  after.remove_prefix(std::min(after.size(), after.find_first_not_of(kBlanks)));
  after = after.substr(0, after.find_first_of(" \t\n.,;)"));
  return std::ranges::count(kBefore, before) > 0 || std::ranges::count(kAfter, after) > 0 ||
         has_calendar_date(before);
}

}  // namespace

bool is_in_date(std::string_view before, std::string_view after) {
  constexpr std::string_view kOfDates = "0123456789-/.:TZ+";
  const std::string all = std::string(before) + std::string(after);
  size_t begin = before.size();
  while (begin > 0 && kOfDates.contains(all[begin - 1])) --begin;
  size_t end = before.size();
  while (end < all.size() && (kOfDates.contains(all[end]) || end == begin)) ++end;
  const std::string_view numbers = std::string_view(all).substr(begin, end - begin);
  const ClockForm clock = find_clock(numbers);
  if (clock == ClockForm::kSeconds) return true;
  if (clock == ClockForm::kMinutes && is_told_as_time(all, begin, end)) return true;
  return has_calendar_date(numbers) || is_in_named_date(all, before.size());
}

}  // namespace kvik
