#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A program that this process starts, waits for and ends. Destroying it kills a program that still
// runs. One thread at a time.
class ChildProcess {
 public:
  struct Options {
    std::string program;                                              // path of the executable file
    std::vector<std::string> arguments;                               // without the program's name
    std::vector<std::pair<std::string, std::string>> variables = {};  // added to the environment
    // "NAME=VALUE": replaces the environment of this process; empty: it is inherited.
    std::vector<std::string> environment = {};
    // A listening socket that the program inherits by the protocol of sd_listen_fds(3); -1: none.
    int listening = -1;
    // File that receives stdout and stderr; stdin is then empty. Empty: the streams of this
    // process.
    std::string log_file = {};
    // True: in a process group of its own, which Ctrl-C in the terminal does not reach, and ended
    // by the system if this process dies.
    bool is_background = false;
  };

  // Errors: kNotFound if there is no such program; kIo.
  static Result<ChildProcess> start(const Options& options);

  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        end_(std::move(other.end_)),
        exit_code_(other.exit_code_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Returns the exit code if the program has ended, as a shell reports it: 128 and the number of
  // the signal that ended it.
  std::optional<int> exit_code();
  // Waits for its end.
  int wait();
  // Waits for its end, at most this long.
  std::optional<int> wait(Duration at_most);
  // Waits until it ends, and returns true, or until the descriptor is readable.
  bool wait_or(int fd);
  // Sends a signal if it runs.
  void send(int signal);

  pid_t pid() const { return pid_; }
  // Returns a descriptor that is readable when the program has ended; -1 on systems without
  // pidfd_open(2).
  int end_fd() const { return end_.get(); }

 private:
  explicit ChildProcess(pid_t pid);

  pid_t pid_ = -1;  // -1: none, or its end was seen
  FileDescriptor end_;
  std::optional<int> exit_code_;
};

// Returns "exit code 1", or "signal 11 (Segmentation fault)" for the code 139.
std::string exit_text(int exit_code);

// Returns the path of a program: `name` itself if it has a slash, otherwise the first executable
// file of that name in the folders of `path`, which has the form of PATH; std::nullopt if there is
// none.
std::optional<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace kvik
