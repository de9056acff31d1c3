#include "base/process/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/file/file_descriptor.h"
#include "base/printable.h"
#include "base/process/service_manager.h"

namespace kvik {
namespace {

// Returns the environment of this process with these variables.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (const char* const* entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced =
        std::ranges::any_of(variables, [&](const auto& v) { return v.first == name; });
    if (!is_replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : variables) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

int code_of_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The variables of sd_listen_fds(3). The child knows its process id only after fork(), and writes
// it over these digits.
constexpr std::string_view kPidVariable = "LISTEN_PID=";
constexpr std::string_view kPidDigits = "0000000000";

// Writes the number without leading zeros, and a final zero byte. Only async-signal-safe.
void write_decimal(unsigned number, char* text) {
  unsigned power = 1;
  while (number / power >= 10) power *= 10;
  for (; power > 0; power /= 10) *text++ = static_cast<char>('0' + number / power % 10);
  *text = '\0';
}

// The steps of the child before the program runs, which call only async-signal-safe functions.
struct Beginning {
  const char* program;
  char* const* arguments;
  char* const* variables;
  const char* log_file;  // null: none
  int listening;         // -1: none
  char* pid_text;        // of LISTEN_PID, if there is a socket
  bool is_background;
  pid_t parent;
  int failure;  // pipe that receives the errno of a failed exec

  // Signals that this process ignores have their default action in the program, as a shell leaves
  // them; handlers end with exec.
  static void restore_signals() {
    for (const int signal : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGIO}) {
      std::signal(signal, SIG_DFL);
    }
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) std::signal(signal, SIG_DFL);
  }

  bool redirect() const {
    const int in = ::open("/dev/null", O_RDONLY);
    const int out = ::open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return in >= 0 && out >= 0 && ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0;
  }

  // If the descriptor is already in place, dup2() would leave its close-on-exec flag.
  bool pass_socket() const {
    write_decimal(static_cast<unsigned>(::getpid()), pid_text);
    return listening == kFirstPassed ? ::fcntl(listening, F_SETFD, 0) == 0
                                     : ::dup2(listening, kFirstPassed) >= 0;
  }

  [[noreturn]] void run() const {
    restore_signals();
    if (is_background) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(1);  // it died before prctl()
    }
    // The socket takes the place of the first descriptor that may be in use: the pipe moves away.
    const int pipe = listening < 0 ? failure : ::fcntl(failure, F_DUPFD_CLOEXEC, kFirstPassed + 1);
    const bool is_ready = (!log_file || redirect()) && (listening < 0 || pass_socket());
    if (is_ready) ::execve(program, arguments, variables);
    const int error = errno;
    [[maybe_unused]] const auto n = ::write(pipe, &error, sizeof(error));
    ::_exit(127);
  }
};

bool is_executable(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const Options& options) {
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> variables =
      options.environment.empty() ? environment_with(options.variables) : options.environment;
  if (options.listening >= 0) {
    variables.emplace_back("LISTEN_FDS=1");
    variables.push_back(fmt::format("{}{}", kPidVariable, kPidDigits));
  }
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> variable_pointers = pointers_to(variables);
  const auto cannot = [&](int error) {
    return fail(
        error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        fmt::format("cannot start {}: {}", printable(options.program), std::strerror(error)));
  };
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot(errno);
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  const Beginning beginning{
      .program = options.program.c_str(),
      .arguments = argument_pointers.data(),
      .variables = variable_pointers.data(),
      .log_file = options.log_file.empty() ? nullptr : options.log_file.c_str(),
      .listening = options.listening,
      .pid_text = options.listening < 0 ? nullptr : variables.back().data() + kPidVariable.size(),
      .is_background = options.is_background,
      .parent = ::getpid(),
      .failure = out.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return cannot(errno);
  if (pid == 0) beginning.run();
  out = FileDescriptor();
  ChildProcess child(pid);
  int error = 0;
  ssize_t n = 0;
  do {
    n = ::read(in.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n != sizeof(error)) return child;
  child.wait();
  return cannot(error);
}

ChildProcess::ChildProcess(pid_t pid)
    : pid_(pid), end_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

ChildProcess::~ChildProcess() {
  if (exit_code()) return;
  send(SIGKILL);
  if (pid_ > 0) wait();
}

std::optional<int> ChildProcess::exit_code() {
  if (pid_ < 0) return exit_code_;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == pid_) {
    pid_ = -1;
    exit_code_ = code_of_status(status);
  }
  return exit_code_;
}

int ChildProcess::wait() {
  while (pid_ > 0) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    pid_ = -1;
    exit_code_ = code_of_status(status);
  }
  return exit_code_.value_or(0);
}

std::optional<int> ChildProcess::wait(Duration at_most) {
  constexpr Duration kBetween = std::chrono::milliseconds(10);
  const TimePoint deadline = std::chrono::steady_clock::now() + at_most;
  while (!exit_code() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kBetween);
  }
  return exit_code();
}

bool ChildProcess::wait_or(int fd) {
  // Systems without pidfd_open() are asked every few milliseconds.
  constexpr int kBetweenMs = 20;
  while (!exit_code()) {
    std::array<pollfd, 2> events = {pollfd{fd, POLLIN, 0}, pollfd{end_fd(), POLLIN, 0}};
    if (::poll(events.data(), 2, end_.is_open() ? -1 : kBetweenMs) <= 0) continue;
    if ((events[0].revents & POLLIN) != 0) return exit_code().has_value();
  }
  return true;
}

void ChildProcess::send(int signal) {
  if (pid_ > 0) ::kill(pid_, signal);
}

std::string exit_text(int exit_code) {
  constexpr int kFirstSignal = 128;
  if (exit_code <= kFirstSignal) return fmt::format("exit code {}", exit_code);
  const int signal = exit_code - kFirstSignal;
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

std::optional<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return is_executable(name) ? std::optional(name) : std::nullopt;
  }
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    std::string file = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    if (is_executable(file)) return file;
  }
  return std::nullopt;
}

}  // namespace kvik
