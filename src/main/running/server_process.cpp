#include "main/running/server_process.h"

#include <fmt/format.h>
#include <poll.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <csignal>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/process/interrupts.h"
#include "host/progress_bar.h"
#include "main/environment.h"

namespace kvik {
namespace {

constexpr std::chrono::milliseconds kBetween{50};
constexpr Duration kHealthTime = std::chrono::seconds(2);
// The server drains up to 30 s and stores pages up to 10 s.
constexpr Duration kStopTime = std::chrono::seconds(45);

// Waits a moment. Returns false if a signal arrived.
bool pause() {
  pollfd event{.fd = Interrupts::signal_fd(), .events = POLLIN, .revents = 0};
  return ::poll(&event, 1, static_cast<int>(kBetween.count())) <= 0;
}

// Returns the address in the server's line "… http://HOST:PORT is bound, …".
std::optional<ServerUrl> bound_url(const std::string& log_file) {
  std::ifstream log(log_file);
  std::string line;
  while (std::getline(log, line)) {
    const size_t end = line.find(" is bound");
    const size_t begin = line.rfind("http://", end);
    if (end == std::string::npos || begin == std::string::npos) continue;
    const auto url = ServerUrl::parse(std::string_view(line).substr(begin, end - begin));
    if (url) return *url;
  }
  return std::nullopt;
}

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

// Returns the share of the weights that is loaded, from /health of a server that is loading.
double progress_of(const HttpAnswer& health) {
  std::error_code failed;
  const auto parsed = boost::json::parse(health.body, failed);
  const auto* const object = failed ? nullptr : parsed.if_object();
  const auto* const progress = object ? object->if_contains("progress") : nullptr;
  return progress && progress->is_number() ? progress->to_number<double>() : 0;
}

// Waits for something; returns its value, or an error if the server ends or a signal arrives.
template <class Value, class Get>
Result<Value> wait_for(ChildProcess& child, const std::string& log_file, const Get& get) {
  while (true) {
    if (std::optional<Value> value = get()) return *std::move(value);
    if (child.exit_code()) {
      return fail(ErrorCode::kIo, fmt::format("kvik serve has ended: {}", last_words(log_file)));
    }
    if (!pause()) return fail(ErrorCode::kUnavailable, "interrupted while the model was loaded");
  }
}

}  // namespace

Result<ServerProcess> ServerProcess::start(const Options& options) {
  ChildProcess::Options process{
      .program = "/proc/self/exe",
      .arguments = {"serve", options.model, "--host", "127.0.0.1", "--port", "0"},
      .variables = {{"KVIK_LOG", "info"}},
      .log_file = options.log_file,
      .is_background = true};
  process.arguments.insert(process.arguments.end(), options.flags.begin(), options.flags.end());
  if (!options.api_key.empty()) process.variables.emplace_back("KVIK_API_KEY", options.api_key);
  TRY_ASSIGN(ChildProcess child, ChildProcess::start(process));
  TRY_ASSIGN(const ServerUrl url, wait_for<ServerUrl>(child, options.log_file,
                                                      [&] { return bound_url(options.log_file); }));
  HttpClient client(url, options.api_key);
  ProgressBar bar(fmt::format("loading {}", options.model));
  TRY(wait_for<bool>(child, options.log_file, [&]() -> std::optional<bool> {
    const auto health = client.get("/health", kHealthTime);
    if (health && health->status == 200) return true;
    constexpr uint64_t kAll = 1000;
    if (health) bar.show(static_cast<uint64_t>(kAll * progress_of(*health)), kAll, "");
    return std::nullopt;
  }));
  return ServerProcess(std::move(child), std::move(client));
}

void ServerProcess::stop() {
  child_.send(SIGINT);
  child_.wait(kStopTime);
}

}  // namespace kvik
