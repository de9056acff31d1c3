#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace kvik {

// Parses "512", "64KiB", "4GiB", "1.5GiB", "80GB" (powers of 1000) to bytes. Errors name the text
// and the expected forms.
Result<uint64_t> parse_bytes(std::string_view text);

// Parses "512", "128k", "1M" to a count; k = 1024, M = 1024².
Result<uint64_t> parse_count(std::string_view text);

// Parses "0,1k,8k" to one or more counts.
Result<std::vector<uint64_t>> parse_counts(std::string_view text);

// Parses "50ms", "0.5s", "200us", "2min" to a duration. A number other than 0 needs a unit.
Result<Duration> parse_duration(std::string_view text);

// Returns a number with its noun: 1, "token" → "1 token"; 2 → "2 tokens".
std::string counted(uint64_t n, std::string_view what);

// Returns a size with two decimals: 1610612736 → "1.50 GiB".
std::string format_bytes(uint64_t bytes);

}  // namespace kvik
