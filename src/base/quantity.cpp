#include "base/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace kvik {
namespace {

struct Unit {
  std::string_view suffix;
  uint64_t factor;
};

constexpr std::array<Unit, 5> kByteUnits = {
    {{"", 1}, {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}, {"TiB", 1ULL << 40}}};
constexpr std::array<Unit, 5> kDecimalUnits = {{{"kB", 1'000},
                                                {"KB", 1'000},
                                                {"MB", 1'000'000},
                                                {"GB", 1'000'000'000},
                                                {"TB", 1'000'000'000'000}}};
constexpr std::array<Unit, 5> kTimeUnits = {  // in ns
    {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"min", 60'000'000'000}}};
constexpr std::array<Unit, 4> kCountUnits = {
    {{"", 1}, {"k", 1ULL << 10}, {"K", 1ULL << 10}, {"M", 1ULL << 20}}};

Result<uint64_t> parse(std::string_view text, std::span<const Unit> units, std::string_view forms) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : units) {
    if (error != std::errc() || suffix != unit.suffix || !(number >= 0)) continue;
    const double value = number * static_cast<double>(unit.factor);
    const double whole = std::round(value);
    // The tolerance is needed because 0.07 s, for example, is not exactly 7e7 ns in floating point.
    if (value > 0x1p62 || std::abs(value - whole) > 1e-12 * value) break;
    return static_cast<uint64_t>(whole);
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a {}", text, forms));
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  if (text.ends_with("B") && !text.ends_with("iB")) {
    return parse(text, kDecimalUnits, "size; expected a number with KB, MB, GB, TB or KiB to TiB");
  }
  return parse(text, kByteUnits,
               "size; expected a number of bytes, or one with KiB, MiB, GiB, TiB or KB to TB");
}

Result<uint64_t> parse_count(std::string_view text) {
  return parse(text, kCountUnits, "count; expected an integer, or one with k (1024) or M");
}

Result<std::vector<uint64_t>> parse_counts(std::string_view text) {
  std::vector<uint64_t> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    TRY_ASSIGN(const uint64_t count, parse_count(text.substr(begin, end - begin)));
    counts.push_back(count);
    begin = end + 1;
  }
  return counts;
}

Result<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration::zero();
  TRY_ASSIGN(const uint64_t ns,
             parse(text, kTimeUnits, "time; expected a number with ns, us, ms, s or min"));
  return std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(ns));
}

std::string counted(uint64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string format_bytes(uint64_t bytes) {
  for (size_t u = kByteUnits.size() - 1; u > 0; --u) {
    if (bytes >= kByteUnits[u].factor) {
      return fmt::format("{:.2f} {}",
                         static_cast<double>(bytes) / static_cast<double>(kByteUnits[u].factor),
                         kByteUnits[u].suffix);
    }
  }
  return fmt::format("{} B", bytes);
}

}  // namespace kvik
