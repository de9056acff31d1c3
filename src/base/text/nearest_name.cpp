#include "base/text/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kvik {
namespace {

constexpr size_t kMaxBytes = 128;  // the time grows with the product of both lengths

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Returns the edit distance of two names (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (is_swap) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  if (name.size() > kMaxBytes) return {};
  const std::string* nearest = nullptr;
  size_t fewest = std::max<size_t>(name.size() / 3, 1) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > kMaxBytes) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance >= fewest || distance >= candidate.size()) continue;
    fewest = distance;
    nearest = &candidate;
  }
  return nearest ? *nearest : std::string();
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

}  // namespace kvik
