#include "base/process/service_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/log.h"
#include "base/printable.h"
#include "base/rare_warning.h"
#include "base/text/whole_number.h"

namespace kvik {
namespace {

constexpr timeval kSendTime{.tv_sec = 1, .tv_usec = 0};

bool is_this_process(std::string_view pid) {
  return parse_whole_number(pid) == static_cast<uint64_t>(::getpid());
}

bool has_option(int socket, int option, int expected) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 && value == expected;
}

}  // namespace

Result<std::optional<int>> inherited_socket(const TakeVariable& take) {
  const std::string pid = take("LISTEN_PID");
  const std::string n_sockets = take("LISTEN_FDS");
  take("LISTEN_FDNAMES");
  if (n_sockets.empty() || !is_this_process(pid)) return std::nullopt;
  if (n_sockets != "1") {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("LISTEN_FDS is {}, expected 1: one listening socket", printable(n_sockets)));
  }
  if (!has_option(kFirstPassed, SO_TYPE, SOCK_STREAM) ||
      !has_option(kFirstPassed, SO_ACCEPTCONN, 1)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("descriptor {} of LISTEN_FDS is not a listening stream socket: the "
                            "socket unit needs ListenStream= and Accept=no",
                            kFirstPassed));
  }
  ::fcntl(kFirstPassed, F_SETFD, FD_CLOEXEC);
  return kFirstPassed;
}

ServiceManager::ServiceManager(const TakeVariable& take) : address_(take("NOTIFY_SOCKET")) {
  const std::string interval_us = take("WATCHDOG_USEC");
  const std::string watched_pid = take("WATCHDOG_PID");
  if (address_.empty()) return;
  if ((address_[0] != '/' && address_[0] != '@') || address_.size() < 2 ||
      address_.size() >= sizeof(sockaddr_un::sun_path)) {
    log::warn("NOTIFY_SOCKET is {}, expected a path or an abstract socket of up to {} bytes",
              printable(address_), sizeof(sockaddr_un::sun_path) - 1);
    return;
  }
  if (address_[0] == '@') address_[0] = '\0';
  socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) {
    log::warn("the service manager cannot be notified: {}", std::strerror(errno));
    return;
  }
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTime, sizeof kSendTime);
  if (interval_us.empty() || (!watched_pid.empty() && !is_this_process(watched_pid))) return;
  const auto interval = parse_whole_number(interval_us);
  if (interval.value_or(0) > 0) {
    watchdog_interval_ = std::chrono::microseconds(*interval);
  } else {
    log::warn("WATCHDOG_USEC is {}, expected a number of microseconds", printable(interval_us));
  }
}

void ServiceManager::notify(std::string_view assignments) const {
  if (!socket_.is_open()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  if (::sendto(socket_.get(), assignments.data(), assignments.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size) >= 0)
    return;
  static log::RareWarning warn;
  warn("the service manager cannot be notified: {}", std::strerror(errno));
}

}  // namespace kvik
