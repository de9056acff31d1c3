#include "server/operate/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/dialects/event_json.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxWaiting = 8192;

// A full disk fails at each line, and one warning a minute says so as well. Writer thread.
class Complaints {
 public:
  void operator()(const std::string& why) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (last_ && now - *last_ < std::chrono::minutes(1)) return;
    last_ = now;
    log::warn("the access log: {}", why);
  }

 private:
  std::optional<TimePoint> last_;
};

// All of it, in as many calls as it takes. 0, or an errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const auto since = std::chrono::floor<milliseconds>(time.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)), since.count() % 1000);
}

double to_microsecond(double ms) { return std::round(ms * 1000) / 1000; }

void add_if_any(json::object& out, std::string_view name, const std::string& text) {
  if (!text.empty()) out[json::string_view(name.data(), name.size())] = to_json_string(text);
}

void add_facts(const ReplyFacts& facts, json::object& out) {
  add_if_any(out, "id", facts.id);
  if (facts.usage) {
    out["prompt_tokens"] = facts.usage->prompt_tokens;
    out["cached_tokens"] = facts.usage->cached_tokens;
    out["output_tokens"] = facts.usage->completion_tokens;
  }
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  int fd = STDOUT_FILENO;
  if (path != "-") {
    std::error_code ignored;  // where there is no folder, open() says so
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }
  if (fd < 0) {
    return fail(ErrorCode::kIo,
                fmt::format("cannot write the access log '{}': {}", path, std::strerror(errno)));
  }
  return std::unique_ptr<AccessLog>(new AccessLog(fd));
}

AccessLog::AccessLog(int fd) : fd_(fd), writer_([this] { write_lines(); }) {}

AccessLog::~AccessLog() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  writer_.join();
  if (fd_ != STDOUT_FILENO) ::close(fd_);
}

void AccessLog::write(const AccessRecord& record) {
  std::string line = access_line(record) + '\n';
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() == kMaxWaiting) {
      waiting_.pop_front();
      ++n_left_out_;
    }
    waiting_.push_back(std::move(line));
  }
  wake_.notify_one();
}

uint64_t AccessLog::lines_left_out() const {
  const MutexLock lock(mutex_);
  return n_left_out_;
}

void AccessLog::write_lines() {
  Complaints complain;
  while (true) {
    std::string line;
    {
      const MutexLock lock(mutex_);
      wake_.wait(mutex_, [this]() REQUIRES(mutex_) { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      line = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (const int error = write_all(fd_, line); error != 0) complain(std::strerror(error));
  }
}

std::string access_line(const AccessRecord& record) {
  json::object line;
  line["time"] = rfc3339(record.time);
  line["request_id"] = to_json_string(record.request_id);
  add_if_any(line, "remote", record.remote);
  line["method"] = to_json_string(record.method);
  line["path"] = to_json_string(record.path);
  line["status"] = record.status;
  line["ms"] = to_microsecond(record.ms);
  add_if_any(line, "key", record.key);
  if (record.trace) {
    line["trace_id"] = to_json_string(record.trace->trace_id);
    line["parent_span_id"] = to_json_string(record.trace->span_id);
  }
  if (record.ttft_ms) line["ttft_ms"] = to_microsecond(*record.ttft_ms);
  add_facts(record.facts, line);
  return json::serialize(line);
}

}  // namespace kvik
