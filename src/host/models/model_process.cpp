#include "host/models/model_process.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/text/whole_number.h"

namespace kvik {
namespace {

constexpr size_t kMessageBytes = 4096;
// Any user of this machine can send messages as fast as they are read.
constexpr size_t kMessagesAtOnce = 64;

std::unexpected<Error> system_failed(const char* what) {
  return fail(ErrorCode::kIo,
              fmt::format("cannot start a process: {}: {}", what, std::strerror(errno)));
}

// A datagram socket with an abstract name, which it reports.
struct NotifySocket {
  FileDescriptor socket;
  std::string name;  // as in NOTIFY_SOCKET: "@…"
};

Result<NotifySocket> open_notify_socket() {
  NotifySocket out;
  out.socket = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = out.socket.get();
  const int on = 1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // With no path, the system chooses an abstract name.
  const auto* const unnamed = reinterpret_cast<const sockaddr*>(&address);
  const bool is_bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
                        bind(fd, unnamed, sizeof(sa_family_t)) == 0;
  socklen_t n_bytes = sizeof address;
  if (!is_bound || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &n_bytes) != 0)
    return system_failed("socket");
  const size_t n_name = n_bytes - offsetof(sockaddr_un, sun_path);
  out.name.assign(address.sun_path, n_name);
  out.name[0] = '@';
  return out;
}

// Returns the process that sent a message; 0 if it is not known.
pid_t sender_of(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
    return credentials.pid;
  }
  return 0;
}

}  // namespace

Result<ModelProcess> ModelProcess::start(ChildProcess::Options process,
                                         const FileDescriptor& listening) {
  TRY_ASSIGN(NotifySocket notify, open_notify_socket());
  if (process.environment.empty())
    process.variables.emplace_back("NOTIFY_SOCKET", notify.name);
  else
    process.environment.push_back("NOTIFY_SOCKET=" + notify.name);
  process.listening = listening.get();
  process.is_background = true;
  TRY_ASSIGN(ChildProcess child, ChildProcess::start(process));
  return ModelProcess(std::move(child), std::move(notify.socket));
}

std::vector<std::pair<std::string, std::string>> ModelProcess::take_messages() {
  std::vector<std::pair<std::string, std::string>> assignments;
  std::array<char, kMessageBytes> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  for (size_t i = 0; i < kMessagesAtOnce; ++i) {
    iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n_bytes = recvmsg(messages_.get(), &message, MSG_DONTWAIT);
    if (n_bytes < 0) return assignments;
    if (sender_of(message) != pid_) continue;
    std::string_view rest(bytes.data(), static_cast<size_t>(n_bytes));
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const size_t equals = line.find('=');
      if (equals != std::string_view::npos)
        assignments.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return assignments;
}

std::optional<double> loaded_share(std::string_view status) {
  constexpr std::string_view kLoading = "loading ";
  if (!status.starts_with(kLoading) || !status.ends_with('%')) return std::nullopt;
  status.remove_prefix(kLoading.size());
  status.remove_suffix(1);
  const auto percent = parse_whole_number(status);
  if (!percent || *percent > 100) return std::nullopt;
  return static_cast<double>(*percent) / 100;
}

std::string_view failure_in(std::string_view status) {
  constexpr std::string_view kFailed = "failed: ";
  return status.starts_with(kFailed) ? status.substr(kFailed.size()) : std::string_view();
}

}  // namespace kvik
