#pragma once

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/result.h"

namespace kvik {

// Reads the values of bench_simulate --agents-each: seconds between the beginnings of two agents.
inline Result<std::vector<double>> read_agent_gaps(std::span<const std::string> values) {
  constexpr double kShortestS = 0.001, kLongestS = 86'400;
  std::vector<double> gaps_s;
  for (const std::string& text : values) {
    double gap_s = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gap_s);
    const bool is_number = error == std::errc{} && end == text.data() + text.size();
    if (!is_number || !(gap_s >= kShortestS && gap_s <= kLongestS)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--agents-each is '{}', expected seconds from {} to {}", text,
                              kShortestS, kLongestS));
    }
    gaps_s.push_back(gap_s);
  }
  if (gaps_s.empty())
    return fail(ErrorCode::kInvalidArgument, "--agents-each has no value, expected seconds");
  return gaps_s;
}

}  // namespace kvik
