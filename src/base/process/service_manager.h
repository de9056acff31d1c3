#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// Number of the descriptor of a passed socket: SD_LISTEN_FDS_START of sd_listen_fds(3).
inline constexpr int kFirstPassed = 3;

// Returns the value of an environment variable, empty if it is not set, and removes it.
using TakeVariable = std::function<std::string(const std::string& name)>;

// Returns the listening stream socket that a service manager passed to this process by LISTEN_PID
// and LISTEN_FDS, the protocol of sd_listen_fds(3); nothing if it passed none. The caller owns the
// descriptor, which child processes do not inherit. Errors: kInvalidArgument (more than one socket,
// or a descriptor that is not a listening stream socket).
Result<std::optional<int>> inherited_socket(const TakeVariable& take);

// Reports the state of the process to the service manager that started it, by the protocol of
// sd_notify(3). Without a service manager it does nothing.
class ServiceManager {
 public:
  // Takes NOTIFY_SOCKET (a path, or an abstract socket that begins with '@'), WATCHDOG_USEC and
  // WATCHDOG_PID. A value that is not understood is logged.
  explicit ServiceManager(const TakeVariable& take);

  // Returns whether notify() reaches a service manager.
  bool is_present() const { return socket_.is_open(); }

  // Sends assignments, one per line: "READY=1", "STATUS=loading 42%", "STOPPING=1". A message that
  // is not accepted within a second is logged and dropped. Any thread.
  void notify(std::string_view assignments) const;

  // Returns the time after which the service manager restarts a process that has not sent
  // "WATCHDOG=1"; nothing if it does not expect that of this process.
  std::optional<Duration> watchdog_interval() const { return watchdog_interval_; }

 private:
  std::string address_;  // of the socket; an abstract one begins with a zero byte
  FileDescriptor socket_;
  std::optional<Duration> watchdog_interval_;
};

}  // namespace kvik
