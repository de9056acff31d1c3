#include "server/dialects/cache_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

namespace kvik {
namespace {

namespace json = boost::json;

CacheReport revealed(CacheReport report, CacheReach reach) {
  if (reach == CacheReach::kOtherTenants) report.expected.reset();
  return report;
}

json::value miss_json(const Usage& usage, const CacheReport& report,
                      const std::optional<TextAround>& text) {
  if (report.miss == MissReason::kNone) return nullptr;
  const std::string_view reason = name_of(report.miss);
  json::object out;
  out["reason"] = json::value(reason);
  if (report.position) out["position"] = *report.position;
  if (report.expected) out["expected_token"] = *report.expected;
  if (report.got) out["got_token"] = *report.got;
  if (report.miss == MissReason::kNoSnapshot) {
    out["says"] =
        fmt::format("resumed at {} of {}: the nearest snapshot",
                    fmt::group_digits(usage.cached_tokens), fmt::group_digits(usage.prompt_tokens));
  }
  if (!text) return out;
  out["text"] = {{"before", text->before}, {"behind", text->after}};
  if (is_in_date(*text)) out["looks_like"] = "date";
  return out;
}

json::object usage_explained(const Usage& usage, CacheReach reach,
                             const std::optional<TextAround>& text) {
  const CacheReport report = revealed(usage.cache, reach);
  return {{"prompt_tokens", usage.prompt_tokens},
          {"cached_tokens", {{"ram", report.ram_tokens}, {"tiers", report.tier_tokens}}},
          {"computed_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"miss", miss_json(usage, report, text)}};
}

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
  return n_digits >= 3 && (n_marks >= 2 || (n_marks == 1 && has_clock));
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

}  // namespace

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

json::array explanation_json(std::span<const Usage> usages, CacheReach reach,
                             const FindText& find_text) {
  json::array out;
  for (size_t i = 0; i < usages.size(); ++i) {
    const CacheReport& report = usages[i].cache;
    const bool has_text = find_text && report.position && report.miss == MissReason::kDiverged;
    out.emplace_back(usage_explained(usages[i], reach,
                                     has_text ? find_text(i, *report.position) : std::nullopt));
  }
  return out;
}

}  // namespace kvik
