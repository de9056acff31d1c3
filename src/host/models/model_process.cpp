#include "host/models/model_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace kvik {
namespace {

constexpr int kFirstPassed = 3;  // SD_LISTEN_FDS_START
constexpr size_t kMessageBytes = 4096;
// Any user of this machine can send messages as fast as they are read.
constexpr size_t kMessagesAtOnce = 64;
// Exit code of a child in which exec failed, as of a shell.
constexpr int kNotExecuted = 127;

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

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Writes the number without leading zeros, and a final zero byte. Only async-signal-safe.
void write_decimal(unsigned number, char* text) {
  unsigned power = 1;
  while (number / power >= 10) power *= 10;
  for (; power > 0; power /= 10) *text++ = static_cast<char>('0' + number / power % 10);
  *text = '\0';
}

// Runs in the child between fork() and exec(): only async-signal-safe calls.
[[noreturn]] void execute(int listening, char* pid_text, char* const* arguments,
                          char* const* variables) {
  write_decimal(static_cast<unsigned>(getpid()), pid_text);
  setpgid(0, 0);  // Ctrl-C in a terminal reaches the parent only, which ends its children in order
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // If the descriptor is already in place, dup2() would leave its close-on-exec flag.
  const bool is_passed = listening == kFirstPassed ? fcntl(listening, F_SETFD, 0) == 0
                                                   : dup2(listening, kFirstPassed) >= 0;
  if (is_passed) execve(arguments[0], arguments, variables);
  _exit(kNotExecuted);
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

std::string ModelProcess::End::text() const {
  if (signal == 0) return fmt::format("exit code {}", exit_code);
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

Result<ModelProcess> ModelProcess::start(const std::vector<std::string>& arguments,
                                         std::vector<std::string> variables,
                                         const FileDescriptor& listening) {
  TRY_ASSIGN(NotifySocket notify, open_notify_socket());
  constexpr std::string_view kPidVariable = "LISTEN_PID=";
  variables.push_back("NOTIFY_SOCKET=" + notify.name);
  variables.emplace_back("LISTEN_FDS=1");
  variables.push_back(std::string(kPidVariable) + "0000000000");
  std::vector<std::string> words = arguments;
  const std::vector<char*> argument_list = pointers_to(words);
  const std::vector<char*> variable_list = pointers_to(variables);
  char* const pid_text = variables.back().data() + kPidVariable.size();
  ModelProcess child;
  child.messages_ = std::move(notify.socket);
  child.pid_ = fork();
  if (child.pid_ == 0)
    execute(listening.get(), pid_text, argument_list.data(), variable_list.data());
  if (child.pid_ < 0) return system_failed("fork");
  child.pid_fd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  if (child.pid_fd_.is_open()) return child;
  const auto failure = system_failed("pidfd_open");
  kill(child.pid_, SIGKILL);
  waitpid(child.pid_, nullptr, 0);
  return failure;
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

void ModelProcess::send_signal(int signal) const {
  syscall(SYS_pidfd_send_signal, pid_fd_.get(), signal, nullptr, 0);
}

std::optional<ModelProcess::End> ModelProcess::end() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  if (WIFSIGNALED(status)) return End{.exit_code = 0, .signal = WTERMSIG(status)};
  return End{.exit_code = WEXITSTATUS(status), .signal = 0};
}

}  // namespace kvik
