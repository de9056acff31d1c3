#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

// Everything is logged to stderr: stdout belongs to the model's text. A message is one line, and
// what it quotes from outside is made printable. A line is at most a page long, and where stderr is
// a pipe that takes no more it is left out and counted.
namespace kvik::log {

// `level` is one of trace, debug, info, warn, error, off.
void init(std::string_view level);

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

// The library that writes stays out of here: it is slow to read.
void write(Level level, fmt::string_view format, fmt::format_args values);

template <class... Values>
void at(Level level, fmt::format_string<const Values&...> format, const Values&... values) {
  write(level, format, fmt::make_format_args(values...));
}
template <class... Values>
void debug(fmt::format_string<const Values&...> format, const Values&... values) {
  at<Values...>(Level::kDebug, format, values...);
}
template <class... Values>
void info(fmt::format_string<const Values&...> format, const Values&... values) {
  at<Values...>(Level::kInfo, format, values...);
}
template <class... Values>
void warn(fmt::format_string<const Values&...> format, const Values&... values) {
  at<Values...>(Level::kWarn, format, values...);
}
template <class... Values>
void error(fmt::format_string<const Values&...> format, const Values&... values) {
  at<Values...>(Level::kError, format, values...);
}

}  // namespace kvik::log
