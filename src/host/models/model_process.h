#pragma once

#include <string>
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
  // Starts a program in the background. Its environment is `environment` ("NAME=VALUE") and the
  // variables of the two protocols. `listening` is inherited. Errors: those of
  // ChildProcess::start(), and kIo.
  static Result<ModelProcess> start(std::vector<std::string> arguments,
                                    std::vector<std::string> environment,
                                    const FileDescriptor& listening);

  ChildProcess& child() { return child_; }
  const ChildProcess& child() const { return child_; }
  // Readable when the process has sent messages.
  int message_fd() const { return messages_.get(); }

  // Returns the assignments that the process has sent, such as {"STATUS", "loading 42%"}. Messages
  // of other processes are dropped. After many messages the rest is left for the next call.
  std::vector<std::pair<std::string, std::string>> take_messages();

 private:
  ModelProcess(ChildProcess child, FileDescriptor messages)
      : child_(std::move(child)), messages_(std::move(messages)) {}

  ChildProcess child_;
  FileDescriptor messages_;
};

}  // namespace kvik
