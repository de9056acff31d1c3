#include "server/dialects/cache/changing_part.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace kvik {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Matches 2026-11-22, 22.11.2026, 14:05, 2026-11-22T14:05:00Z: digits with separators.
bool is_numeric_date(std::string_view text) {
  size_t n_digits = 0, n_marks = 0;
  bool has_clock = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_digit(text[i])) {
      ++n_digits;
      continue;
    }
    const bool is_between =
        i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (is_between && std::string_view("-/.:T").contains(text[i])) ++n_marks;
    has_clock = has_clock || (is_between && text[i] == ':');
  }
  return has_clock ? n_digits >= 3 : n_digits >= 4 && n_marks >= 2;
}

// Matches "Sun Nov 22", "22 November 2026": a month or weekday next to a number.
bool has_named_date(std::string_view text) {
  constexpr std::array<std::string_view, 19> kNames = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
      "Nov", "Dec", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
  constexpr size_t kBeside = 12;
  return std::ranges::any_of(kNames, [&](std::string_view name) {
    const size_t at = text.find(name);
    if (at == text.npos) return false;
    const size_t begin = at - std::min(at, kBeside);
    return std::ranges::any_of(text.substr(begin, at - begin + name.size() + kBeside), is_digit);
  });
}

bool is_in_date(const TextAround& text) {
  constexpr std::string_view kOfDates = "0123456789-/.:TZ+";
  constexpr size_t kNear = 16;
  const std::string all = text.before + text.after;
  size_t begin = text.before.size();
  while (begin > 0 && kOfDates.contains(all[begin - 1])) --begin;
  size_t end = text.before.size();
  while (end < all.size() && (kOfDates.contains(all[end]) || end == begin)) ++end;
  const std::string_view numbers = std::string_view(all).substr(begin, end - begin);
  if (is_numeric_date(numbers)) return true;
  const size_t from = text.before.size() - std::min(text.before.size(), kNear);
  return has_named_date(std::string_view(all).substr(from, 2 * kNear));
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The characters around the token that belong to one word of these characters.
struct Word {
  std::string_view text;
  std::string_view before;
};
template <typename IsPart>
Word word_around(const std::string& all, size_t at, IsPart is_part) {
  size_t begin = at, end = at;
  while (begin > 0 && is_part(all[begin - 1])) --begin;
  while (end < all.size() && is_part(all[end])) ++end;
  const std::string_view view = all;
  return {view.substr(begin, end - begin), view.substr(0, begin)};
}

// Matches hexadecimal words with digits and letters, words that are named as ids, and long words
// with many digits.
bool is_in_id(const TextAround& text) {
  constexpr size_t kShortestHex = 8, kLongWord = 20, kManyDigits = 4;
  constexpr std::array<std::string_view, 4> kNames = {"cch=", "id=", "_id\": \"", "_id\":\""};
  const std::string all = text.before + text.after;
  const auto [word, before] = word_around(all, text.before.size(), [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '_';
  });
  const auto n_digits = static_cast<size_t>(std::ranges::count_if(word, is_digit));
  const bool has_letters = std::ranges::any_of(word, is_letter);
  const bool is_hex = std::ranges::all_of(
      word, [](char c) { return is_digit(c) || c == '-' || (c >= 'a' && c <= 'f'); });
  if (n_digits > 0 && has_letters && is_hex && word.size() >= kShortestHex) return true;
  if (n_digits >= kManyDigits && has_letters && word.size() >= kLongWord) return true;
  return !word.empty() &&
         std::ranges::any_of(kNames, [&](std::string_view name) { return before.ends_with(name); });
}

// Matches a number with "token" beside it.
bool is_in_token_count(const TextAround& text) {
  constexpr size_t kBeside = 32;
  const std::string all = text.before + text.after;
  const auto [word, before] = word_around(all, text.before.size(), [](char c) {
    return is_digit(c) || c == ',' || c == '.' || c == '/' || c == '_';
  });
  if (!std::ranges::any_of(word, is_digit)) return false;
  const size_t begin = before.size() - std::min(before.size(), kBeside);
  const size_t n_bytes = before.size() - begin + word.size() + kBeside;
  const std::string_view near = std::string_view(all).substr(begin, n_bytes);
  return near.contains("token") || near.contains("Token");
}

// Returns whether the token is between the two marks, or in the first one.
bool is_between(const TextAround& text, std::string_view begin_mark, std::string_view end_mark) {
  const std::string all_before = text.earlier + text.before;
  const std::string_view before = all_before;
  const size_t begin = before.rfind(begin_mark);
  if (begin != before.npos && !before.substr(begin).contains(end_mark)) return true;
  for (size_t n = 0; n < begin_mark.size(); ++n) {
    const bool is_split_here = before.ends_with(begin_mark.substr(0, n)) &&
                               std::string_view(text.after).starts_with(begin_mark.substr(n));
    if (is_split_here) return true;
  }
  return false;
}

// Matches a place in or between the definitions of tools, as JSON objects or as harmony's list.
bool is_in_tool(const TextAround& text) {
  if (is_between(text, "namespace functions {", "} // namespace functions")) return true;
  const std::string all_before = text.earlier + text.before;
  const std::string_view before = all_before;
  const size_t begin =
      std::max(before.rfind("\"function\"") + 1, before.rfind("\"input_schema\"") + 1);
  if (begin == 0) return false;
  constexpr std::array<std::string_view, 7> kEnds = {"}\n\n", "</tools>", "[/",           "<|",
                                                     "<｜",   "</s>",     "<end_of_turn>"};
  return std::ranges::none_of(
      kEnds, [&](std::string_view end) { return before.substr(begin).contains(end); });
}

}  // namespace

std::string_view changing_part(const TextAround& text) {
  if (is_in_date(text)) return "date";
  if (is_in_token_count(text)) return "token_count";
  if (is_in_id(text)) return "id";
  if (is_between(text, "<system-reminder>", "</system-reminder>")) return "reminder";
  if (is_in_tool(text)) return "tool";
  return {};
}

}  // namespace kvik
