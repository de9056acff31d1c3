#include "base/log.h"

#include <poll.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <new>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/printable.h"

namespace kvik::log {
namespace {

// Maximum size of a message. A pipe that is ready for writing accepts a line of PIPE_BUF bytes at
// once.
constexpr size_t kMaxBytes = PIPE_BUF - 128;  // the rest is for time and level

std::atomic<uint64_t> n_lost = 0;  // since the last line that was written

// Returns whether stderr accepts a line: a reader that stopped reading must not block the caller.
bool takes_a_line() {
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) != 0;  // a broken pipe fails at once
}

std::string line_of(fmt::string_view format, fmt::format_args values) {
  std::string line = printable(fmt::vformat(format, values), Breaks::kShown);
  if (line.size() > kMaxBytes) {
    size_t n = kMaxBytes - 4;
    while ((line[n] & 0xC0) == 0x80) --n;  // do not cut inside a character
    line.replace(n, line.npos, " ...");
  }
  return line;
}

void write_line(spdlog::level::level_enum level, fmt::string_view format, fmt::format_args values) {
  if (!takes_a_line()) {
    ++n_lost;
    return;
  }
  if (const uint64_t n = n_lost.exchange(0); n > 0) {
    spdlog::log(level, "{} log lines were dropped because stderr was not read in time", n);
  }
  spdlog::log(level, spdlog::string_view_t(line_of(format, values)));
}

// The receiver that replaces stderr, if there is one.
class Receivers {
 public:
  void set(Level least, Receiver receiver) {
    const MutexLock lock(mutex_);
    least_ = least;
    receiver_ = std::move(receiver);
    is_used_ = true;
  }
  bool is_used() const { return is_used_; }
  void pass_on(Level level, fmt::string_view format, fmt::format_args values) {
    const MutexLock lock(mutex_);
    if (receiver_ && level >= least_) receiver_(level, line_of(format, values));
  }

 private:
  Mutex mutex_;
  std::atomic<bool> is_used_ = false;
  Level least_ GUARDED_BY(mutex_) = Level::kInfo;
  Receiver receiver_ GUARDED_BY(mutex_);
};

// Never destroyed: threads may log until the process ends.
Receivers& receivers() {
  static auto* const all = new Receivers;
  return *all;
}

}  // namespace

void send_to(Level least, Receiver receiver) { receivers().set(least, std::move(receiver)); }

void init(std::string_view level) {
  static const auto logger = spdlog::stderr_color_mt("kvik");
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(std::string(level)));
}

// Counts the line as lost if there is no memory for it, because handlers of std::bad_alloc log too.
void write(Level level, fmt::string_view format, fmt::format_args values) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  const auto spdlog_level = kLevels[static_cast<size_t>(level)];
  const bool has_receiver = receivers().is_used();
  if (!has_receiver && !spdlog::should_log(spdlog_level)) return;
  try {
    if (has_receiver) return receivers().pass_on(level, format, values);
    write_line(spdlog_level, format, values);
  } catch (const std::bad_alloc&) {
    ++n_lost;
  }
}

}  // namespace kvik::log
