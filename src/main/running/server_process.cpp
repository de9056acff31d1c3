#include "main/running/server_process.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <csignal>
#include <fstream>
#include <string_view>

#include "base/file/file_descriptor.h"
#include "base/process/interrupts.h"
#include "host/progress_bar.h"
#include "server/http/listen_socket.h"

namespace kvik {
namespace {

// The server drains up to 30 s and stores pages up to 10 s.
constexpr Duration kStopTime = std::chrono::seconds(45);

// Returns why the server ended: its last line, without "kvik: ".
std::string last_words(const std::string& log_file) {
  std::ifstream log(log_file);
  std::string line, last;
  while (std::getline(log, line)) {
    if (!line.empty()) last = line;
  }
  constexpr std::string_view kPrefix = "kvik: ";
  return last.starts_with(kPrefix) ? last.substr(kPrefix.size()) : last;
}

// Waits until the server has sent messages or has ended. Returns false if a signal arrived.
bool wait_for_news(const ModelProcess& process) {
  constexpr int kMaxMs = 1000;
  std::array<pollfd, 3> events = {{
      {.fd = Interrupts::signal_fd(), .events = POLLIN, .revents = 0},
      {.fd = process.message_fd(), .events = POLLIN, .revents = 0},
      {.fd = process.child().end_fd(), .events = POLLIN, .revents = 0},
  }};
  ::poll(events.data(), events.size(), kMaxMs);
  return events[0].revents == 0;
}

// Waits until the server is ready, and shows its progress.
Result<void> wait_until_ready(ModelProcess& process, const ServerProcess::Options& options) {
  ProgressBar bar(fmt::format("loading {}", options.model));
  std::string status;
  while (true) {
    const bool has_ended = process.child().exit_code().has_value();  // before its last messages
    for (const auto& [name, value] : process.take_messages()) {
      if (name == "READY" && value == "1") return {};
      if (name == "STATUS") status = value;
    }
    constexpr uint64_t kAll = 100;
    if (const auto share = loaded_share(status))
      bar.show(static_cast<uint64_t>(kAll * *share), kAll, "");
    const std::string_view reason = failure_in(status);
    if (has_ended) {
      return fail(ErrorCode::kIo,
                  fmt::format("kvik serve has ended: {}",
                              reason.empty() ? last_words(options.log_file) : reason));
    }
    if (!wait_for_news(process))
      return fail(ErrorCode::kUnavailable, "interrupted while the model was loaded");
  }
}

}  // namespace

Result<ServerProcess> ServerProcess::start(const Options& options) {
  TRY_ASSIGN(const ListenSocket socket, ListenSocket::open("127.0.0.1", 0));
  TRY_ASSIGN(const ServerUrl url, ServerUrl::parse(socket.url("http")));
  TRY_ASSIGN(const int descriptor, socket.duplicate());
  const FileDescriptor listening(descriptor);
  ChildProcess::Options process{.program = "/proc/self/exe",
                                .arguments = {"serve", options.model},
                                .variables = {{"KVIK_LOG", "info"}},
                                .log_file = options.log_file};
  process.arguments.insert(process.arguments.end(), options.flags.begin(), options.flags.end());
  if (!options.api_key.empty()) process.variables.emplace_back("KVIK_API_KEY", options.api_key);
  TRY_ASSIGN(ModelProcess server, ModelProcess::start(std::move(process), listening));
  TRY(wait_until_ready(server, options));
  return ServerProcess(std::move(server), HttpClient(url, options.api_key));
}

void ServerProcess::stop() {
  process_.child().send(SIGINT);
  process_.child().wait(kStopTime);
}

}  // namespace kvik
