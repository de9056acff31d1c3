#include "server/dialects/utc_time.h"

#include <fmt/format.h>

#include <ctime>

namespace kvik {
namespace {

// Returns the time without the "Z".
std::string to_the_second(std::chrono::sys_seconds time) {
  const auto seconds = static_cast<std::time_t>(time.time_since_epoch().count());
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace

std::string utc_time(std::chrono::sys_seconds time) { return to_the_second(time) + 'Z'; }

std::string utc_time_us(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto us = std::chrono::floor<std::chrono::microseconds>(time - seconds);
  return fmt::format("{}.{:06}Z", to_the_second(seconds), us.count());
}

}  // namespace kvik
