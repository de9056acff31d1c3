#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A process that serves on an inherited socket and reports its state, by the protocols of
// sd_listen_fds(3) and sd_notify(3). It gets SIGTERM when the thread that started it ends. One
// thread.
class ModelProcess {
 public:
  // How a process ended.
  struct End {
    int exit_code = 0;         // if no signal ended it
    int signal = 0;            // 0: none
    std::string text() const;  // "exit code 1" or "signal 11 (Segmentation fault)"
  };

  // Starts arguments[0], a path. The environment is replaced by `variables` ("NAME=VALUE") and the
  // variables of the two protocols. `listening` is inherited. Errors: kIo.
  static Result<ModelProcess> start(const std::vector<std::string>& arguments,
                                    std::vector<std::string> variables,
                                    const FileDescriptor& listening);

  ModelProcess(ModelProcess&&) = default;
  ModelProcess& operator=(ModelProcess&&) = default;

  // Descriptors for poll(): readable when the process has ended, and when it has sent messages.
  int end_fd() const { return pid_fd_.get(); }
  int message_fd() const { return messages_.get(); }
  pid_t pid() const { return pid_; }

  // Returns the assignments that the process has sent, such as {"STATUS", "loading 42%"}. Messages
  // of other processes are dropped. After many messages the rest is left for the next call.
  std::vector<std::pair<std::string, std::string>> take_messages();

  void send_signal(int signal) const;

  // Returns how the process ended; nothing while it runs. Called until it returns a value, so that
  // the system can forget the process.
  std::optional<End> end();

 private:
  ModelProcess() = default;

  pid_t pid_ = 0;
  FileDescriptor pid_fd_, messages_;
};

}  // namespace kvik
