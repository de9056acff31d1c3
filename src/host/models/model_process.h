#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/file_descriptor.h"
#include "base/process/child_process.h"
#include "base/result.h"

namespace kvik {

// A process that serves on an inherited socket and reports its state, by the protocols of
// sd_listen_fds(3) and sd_notify(3). One thread.
class ModelProcess {
 public:
  // Starts a program in the background, which inherits `listening`. Its environment has the
  // variables of the two protocols besides those of `process`. Errors: those of
  // ChildProcess::start(), and kIo.
  static Result<ModelProcess> start(ChildProcess::Options process, const FileDescriptor& listening);

  ChildProcess& child() { return child_; }
  const ChildProcess& child() const { return child_; }
  // Readable when the process has sent messages.
  int message_fd() const { return messages_.get(); }

  // Returns the assignments that the process has sent, also before its end, such as {"STATUS",
  // "loading 42%"}. Messages of other processes are dropped. After many messages the rest is left
  // for the next call.
  std::vector<std::pair<std::string, std::string>> take_messages();

 private:
  ModelProcess(ChildProcess child, FileDescriptor messages)
      : child_(std::move(child)), pid_(child_.pid()), messages_(std::move(messages)) {}

  ChildProcess child_;
  pid_t pid_;  // also after its end, when its last messages are taken
  FileDescriptor messages_;
};

// Returns the share of the weights that a server has loaded, from its status "loading 42%".
std::optional<double> loaded_share(std::string_view status);

// Returns the reason in a server's status "failed: REASON"; empty: it is another status.
std::string_view failure_in(std::string_view status);

}  // namespace kvik
