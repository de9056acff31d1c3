#include "server/operate/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/process/thread.h"
#include "server/dialects/event_json.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxWaiting = 8192;
constexpr std::chrono::milliseconds kLastWait{
    2000};  // time for the reader of a pipe when the log ends

// Limits warnings to one per minute, because a full disk fails at each line. Writer thread.
class RateLimitedWarning {
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

std::string rfc3339(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const auto since = std::chrono::floor<milliseconds>(time.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)), since.count() % 1000);
}

// Returns the object as JSON with times to the microsecond and without exponents, which Boost.JSON
// would write ("1.2345E1") and which are hard to read for people and awk.
std::string in_plain_numbers(const json::object& line) {
  std::string out;
  for (const auto& [name, value] : line) {
    out += fmt::format("{}{}:", out.empty() ? "{" : ",", json::serialize(name));
    out += value.is_double() ? fmt::format("{:.3f}", value.get_double()) : json::serialize(value);
  }
  return out + "}";
}

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
    // Do not wait for the reader of a pipe.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    fd = ::open(path.c_str(), kFlags, 0666);
  }
  if (fd < 0) {
    const char* const why = errno == ENXIO ? "the pipe has no reader" : std::strerror(errno);
    return fail(ErrorCode::kIo, fmt::format("cannot write the access log '{}': {}", path, why));
  }
  std::unique_ptr<AccessLog> log(new AccessLog(fd));
  TRY_ASSIGN(log->writer_, start_thread("kvik-log", [raw = log.get()] { raw->write_lines(); }));
  return log;
}

AccessLog::~AccessLog() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  join_if_started(writer_);
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

// Waits until the file accepts PIPE_BUF bytes at once. Returns false if the log ends while a pipe
// is not read.
bool AccessLog::wait_for_room() {
  constexpr std::chrono::milliseconds kLook{100};
  std::optional<TimePoint> end;  // set when the log ends
  for (;;) {
    pollfd event{fd_, POLLOUT, 0};
    const int n = ::poll(&event, 1, static_cast<int>(kLook.count()));
    if (n > 0 || (n < 0 && errno != EINTR)) return true;  // write() reports the error
    const TimePoint now = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    if (is_ending_ && !end) end = now + kLastWait;
    if (end && now >= *end) return false;
  }
}

// Writes everything in non-blocking calls. Returns 0 or an errno; EAGAIN: the log ends before there
// is room.
int AccessLog::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait_for_room()) return EAGAIN;
    const ssize_t n = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

void AccessLog::write_lines() {
  RateLimitedWarning report;
  while (true) {
    std::string line;
    {
      const MutexLock lock(mutex_);
      wake_.wait(mutex_, [this]() REQUIRES(mutex_) { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      line = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const int error = write_all(line);
    if (error == EAGAIN) return;  // the log ends, and the pipe is not read
    if (error != 0) report(std::strerror(error));
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
  line["ms"] = record.ms;
  add_if_any(line, "key", record.key);
  if (record.trace) {
    line["trace_id"] = to_json_string(record.trace->trace_id);
    line["parent_span_id"] = to_json_string(record.trace->span_id);
  }
  if (record.ttft_ms) line["ttft_ms"] = *record.ttft_ms;
  add_facts(record.facts, line);
  return in_plain_numbers(line);
}

}  // namespace kvik
