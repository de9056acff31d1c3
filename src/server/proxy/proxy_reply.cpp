#include "server/proxy/proxy_reply.h"

#include <fmt/format.h>

#include <utility>

namespace kvik {
namespace {

using std::chrono::steady_clock;

// A longer answer is sent as it arrives, and a longer error in a stream that has begun is cut.
constexpr size_t kWholeBytes = Upstreams::kBufferBytes;

constexpr std::string_view kEventStream = "text/event-stream";

}  // namespace

void LateWake::set(std::function<void()> wake) {
  bool is_due = false;
  {
    const MutexLock lock(mutex_);
    wake_ = wake;
    is_due = is_due_;
  }
  if (is_due) wake();
}

void LateWake::operator()() const {
  std::function<void()> wake;
  {
    const MutexLock lock(mutex_);
    wake = wake_;
    if (!wake) is_due_ = true;
  }
  if (wake) wake();
}

HttpError model_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return http_error({error.code, error.message, "model"});
    case ErrorCode::kExhausted:
    case ErrorCode::kUnavailable:
      return http_error(HttpFault{503, error.message});
    default:
      return http_error(HttpFault{500, error.message});
  }
}

HttpResponse model_error_response(const Error& error) {
  HttpResponse response = error_response(model_error(error));
  if (response.status == 500) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

ProxyReply::ProxyReply(const ModelRouter& router, ProxiedRequest request)
    : router_(router), request_(std::move(request)) {
  if (request_.port)
    begin_call(*request_.port);
  else
    begin_use();
}

ProxyReply::~ProxyReply() = default;

void ProxyReply::begin_use() {
  use_ = router_.models.use(model(), [wake = wake_] { (*wake)(); });
}

void ProxyReply::begin_call(uint16_t port) {
  call_ = router_.upstreams.call(port, request_.bytes, [wake = wake_] { (*wake)(); });
}

bool ProxyReply::is_decided() {
  if (!kind_ && !call_) wait_for_model();
  if (!kind_ && call_) wait_for_head();
  return kind_.has_value();
}

// Calls the model's server if the model is loaded.
void ProxyReply::wait_for_model() {
  const ModelReadiness readiness = use_->readiness();
  if (readiness.error) return fail_with(*readiness.error);
  // The manager of the models may not have noticed yet that the process has ended.
  const bool is_old = lost_ && readiness.port && readiness.n_loads == lost_->n_loads;
  if (is_old && steady_clock::now() > lost_->at + kEndTime) return fail_with(lost_->error);
  if (readiness.port && !is_old) {
    n_loads_ = readiness.n_loads;
    return begin_call(*readiness.port);
  }
  if (!request_.takes_events || steady_clock::now() < start_ + kQuietTime) return;
  if (!kind_) has_own_head_ = true;
  kind_ = Kind::kStream;
}

void ProxyReply::wait_for_head() {
  if (auto head = call_->head()) return take_head(std::move(*head));
  const auto error = call_->error();
  if (error && !begin_retry(*error)) fail_with(*error);
}

bool ProxyReply::begin_retry(const Error& error) {
  if (!use_ || lost_ || error.code != ErrorCode::kUnavailable) return false;
  lost_ = Lost{.error = error, .at = steady_clock::now(), .n_loads = n_loads_};
  call_ = nullptr;
  return true;
}

void ProxyReply::take_head(UpstreamCall::Head head) {
  const bool has_next = i_model_ + 1 < request_.models.size();
  if (head.status == 404 && has_next) {
    ++i_model_;
    call_ = nullptr;
    begin_use();
    return wait_for_model();
  }
  head_ = std::move(head);
  request_.bytes = nullptr;
  request_.share.release();
  if (kind_) return;
  const bool is_short = head_->n_body_bytes && *head_->n_body_bytes <= kWholeBytes;
  kind_ = is_short ? Kind::kWhole : Kind::kStream;
}

void ProxyReply::fail_with(Error error) {
  error_ = std::move(error);
  if (!kind_) kind_ = Kind::kWhole;
}

PendingReply::State ProxyReply::advance(std::string& out) {
  return kind() == Kind::kWhole ? advance_whole() : advance_stream(out);
}

PendingReply::State ProxyReply::advance_whole() {
  if (error_) return State::kDone;
  if (!call_->take(body_)) return State::kRunning;
  error_ = call_->error();
  return State::kDone;
}

PendingReply::State ProxyReply::advance_stream(std::string& out) {
  if (!call_ && !error_) wait_for_model();
  if (!call_ && !error_) {
    report_progress(out);
    return State::kRunning;
  }
  if (call_ && !head_ && !error_) wait_for_head();
  if (!call_ && !error_) return State::kRunning;  // until the model is loaded again
  if (error_) {
    out += final_error_event(*error_);
    return State::kDone;
  }
  if (!head_) return State::kRunning;
  const bool is_error = has_own_head_ && head_->status != 200;
  std::string& to = is_error ? body_ : out;
  const bool has_ended = call_->take(to);
  if (body_.size() > kWholeBytes) body_.resize(kWholeBytes);
  if (!has_ended) return State::kRunning;
  if (is_error) out += fmt::format("event: error\ndata: {}\n\n", body_);
  if (const auto error = call_->error()) out += final_error_event(*error);
  return State::kDone;
}

void ProxyReply::report_progress(std::string& out) {
  const ModelReadiness readiness = use_->readiness();
  const int percent = static_cast<int>(100 * readiness.progress);
  if (percent == percent_) return;
  percent_ = percent;
  out += readiness.state == ModelState::kLoading
             ? fmt::format(": loading {}: {}%\n\n", model(), percent)
             : fmt::format(": {} waits for memory\n\n", model());
}

HttpResponse ProxyReply::response() {
  if (has_own_head_) return event_stream();
  if (error_) return model_error_response(*error_);
  return {.status = head_->status,
          .body = std::move(body_),
          .content_type = head_->content_type,
          .headers = std::move(head_->headers)};
}

bool ProxyReply::is_event_stream() const {
  return has_own_head_ || (head_ && head_->content_type.starts_with(kEventStream));
}

std::string_view ProxyReply::heartbeat() const {
  return is_event_stream() ? PendingReply::heartbeat() : "";
}

std::string ProxyReply::final_error_event(const Error& error) const {
  const std::string json = error_json(model_error(error), request_.errors, request_.id);
  if (!is_event_stream()) return json + "\n";
  const bool is_named = request_.errors == ErrorShape::kAnthropic;
  return fmt::format("{}data: {}\n\n", is_named ? "event: error\n" : "", json);
}

std::string ProxyReply::summary() const { return fmt::format("model={}", model()); }

}  // namespace kvik
