#pragma once

#include <chrono>
#include <string>

namespace kvik {

// Returns the time as in RFC 3339, in UTC: "2026-11-28T04:38:04Z".
std::string utc_time(std::chrono::sys_seconds time);
// The same with microseconds: "2026-11-28T04:38:04.123456Z".
std::string utc_time_us(std::chrono::system_clock::time_point time);

}  // namespace kvik
