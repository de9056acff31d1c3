#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string_view>

// Logs to stderr; stdout is for the model's text. A message is one line of limited length, and
// quoted input is made printable. If stderr is a full pipe, the message is dropped and counted.
// The shared library passes its messages to a receiver instead.
namespace kvik::log {

// Sets up logging. `level` is one of trace, debug, info, warn, error, off.
void init(std::string_view level);

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

// Receives a message, on any thread, one at a time. Must not log.
using Receiver = std::function<void(Level, std::string_view)>;
// From now on, passes messages from `least` on to the receiver instead of stderr; an empty receiver
// drops all of them. Any thread; may be called again, but a message that is being passed on may
// still reach the receiver set before.
void send_to(Level least, Receiver receiver);

// The logging library is used in log.cpp only: its header is slow to compile.
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
