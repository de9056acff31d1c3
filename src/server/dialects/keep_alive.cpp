#include "server/dialects/keep_alive.h"

#include <algorithm>
#include <boost/json/string.hpp>
#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

std::optional<double> seconds_in_unit(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"s", 1},     {"m", 60},         {"h", 3600},
      {"ms", 1e-3}, {"us", 1e-6}, {"\u00b5s", 1e-6}, {"ns", 1e-9}};
  const auto found = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (found == std::end(kUnits)) return std::nullopt;
  return found->second;
}

// Parses a duration in the notation of Go: "300ms", "1h30m", "-1", "0". Returns seconds.
std::optional<double> parse_go_duration(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789.";
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const size_t n_digits = std::min(text.find_first_not_of(kDigits), text.size());
    std::string_view rest = text.substr(n_digits);
    const size_t n_unit = std::min(rest.find_first_of(kDigits), rest.size());
    const auto unit = seconds_in_unit(rest.substr(0, n_unit));
    double count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + n_digits, count);
    if (!unit || error != std::errc{} || end != text.data() + n_digits) return std::nullopt;
    sum += count * *unit;
    text = rest.substr(n_unit);
  }
  return is_negative ? -sum : sum;
}

}  // namespace

std::optional<double> keep_alive_seconds(const json::value& value) {
  const json::string* text = value.if_string();
  return text ? parse_go_duration(view(*text)) : as_finite(value);
}

}  // namespace kvik
