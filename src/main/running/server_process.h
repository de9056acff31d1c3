#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/remote/http_client.h"
#include "host/models/model_process.h"

namespace kvik {

// A `kvik serve` that another command starts for itself, on a free port of this machine. It ends
// with that command.
class ServerProcess {
 public:
  struct Options {
    std::string model;
    std::vector<std::string> flags;
    std::string api_key;  // required of clients; empty: none
    std::string log_file;
  };
  // Starts the server and waits until it accepts requests, with a progress bar. Errors: kIo with
  // the server's own sentence if it ends; kUnavailable if a signal arrives.
  static Result<ServerProcess> start(const Options& options);

  const HttpClient& client() const { return client_; }
  // Ends the server as Ctrl-C does: it finishes its requests and stores its pages.
  void stop();

 private:
  ServerProcess(ModelProcess process, HttpClient client)
      : process_(std::move(process)), client_(std::move(client)) {}

  ModelProcess process_;
  HttpClient client_;
};

}  // namespace kvik
