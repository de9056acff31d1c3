#include "server/operate/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "base/log.h"
#include "server/dialects/event_json.h"

namespace kvik {
namespace {

namespace json = boost::json;
using spdlog::details::thread_pool;

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

std::shared_ptr<spdlog::sinks::sink> sink_for(const std::string& path) {
  if (path == "-") return std::make_shared<spdlog::sinks::stdout_sink_mt>();
  return std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
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
  try {
    return std::unique_ptr<AccessLog>(new AccessLog(path));
  } catch (const spdlog::spdlog_ex& exception) {
    return fail(ErrorCode::kIo,
                fmt::format("cannot write the access log '{}': {}", path, exception.what()));
  }
}

AccessLog::AccessLog(const std::string& path)
    : writer_(std::make_shared<thread_pool>(kMaxWaiting, 1)),
      logger_(std::make_shared<spdlog::async_logger>(
          "access", sink_for(path), writer_, spdlog::async_overflow_policy::overrun_oldest)) {
  logger_->set_pattern("%v");
  logger_->set_level(spdlog::level::info);
  logger_->flush_on(spdlog::level::info);
  logger_->set_error_handler(Complaints());
}

AccessLog::~AccessLog() = default;

void AccessLog::write(const AccessRecord& record) {
  logger_->log(spdlog::level::info, spdlog::string_view_t(access_line(record)));
}

uint64_t AccessLog::lines_left_out() const { return writer_->overrun_counter(); }

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
