#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "server/http/byte_ledger.h"
#include "server/http/pending_reply.h"
#include "server/http/status.h"
#include "server/proxy/upstream.h"
#include "service/model_servers.h"

namespace kvik {

class CounterSums;

// A router's parts: its models, the calls to their servers, and what these have counted. All
// outlive the server.
struct ModelRouter {
  ModelServers& models;
  Upstreams& upstreams;
  CounterSums& counters;
};

// A request that one of several models answers.
struct ProxiedRequest {
  // Names of the models to ask, in this order: the next one if the answer is 404. More than one
  // only for requests without a body, such as GET /v1/responses/{id}, which name no model.
  std::vector<std::string> models;
  // Head and body, for Upstreams::call(); held until the answer begins.
  std::shared_ptr<const std::string> bytes;
  ByteShare share;         // memory of `bytes`, while it is held
  ByteShare answer_share;  // memory of the answer's bytes that wait: Upstreams::kBufferBytes
  std::string id;          // of the request, for errors
  ErrorShape errors = ErrorShape::kOpenAi;
  bool takes_events = false;  // it asks for server-sent events
  // Present: the server of a loaded model, which may be unloaded while this request is answered.
  std::optional<uint16_t> port = std::nullopt;
};

// Returns the answer to a request for a model that cannot be loaded, or whose server has ended: 404
// if its file does not exist, 500 if its file cannot be used, and otherwise 503, upon which clients
// try again.
HttpError model_error(const Error& error);
// The clients of OpenAI and Anthropic, which try a request with 500 again, are told not to.
HttpResponse model_error_response(const Error& error);

// A wake function that is set later than it is first needed. Any thread.
class LateWake {
 public:
  void set(std::function<void()> wake);
  void operator()() const;

 private:
  mutable Mutex mutex_;
  mutable bool is_due_ GUARDED_BY(mutex_) = false;  // called before set()
  std::function<void()> wake_ GUARDED_BY(mutex_);
};

// The answer of a model's server. Waits until the model is loaded; a stream of events that waits
// for longer than kQuietTime begins with comments about the progress. If the model's process ends
// before it has answered, the request is sent once more when the model is loaded again. Network
// thread.
class ProxyReply final : public PendingReply {
 public:
  static constexpr std::chrono::seconds kQuietTime{2};
  // A process that has closed a connection without an answer ends within this time, or the request
  // fails.
  static constexpr std::chrono::seconds kEndTime{2};

  ProxyReply(const ModelRouter& router, ProxiedRequest request);
  ~ProxyReply() override;

  bool is_decided() override;
  Kind kind() const override { return kind_.value_or(Kind::kWhole); }  // if is_decided()
  void set_wake(std::function<void()> wake) override { wake_->set(std::move(wake)); }
  State advance(std::string& out) override;
  HttpResponse response() override;
  std::string_view heartbeat() const override;
  std::string final_error_event(const Error& error) const override;
  std::string summary() const override;

 private:
  void begin_use();
  void begin_call(uint16_t port);
  void wait_for_model();
  void wait_for_head();
  void take_head(UpstreamCall::Head head);
  void fail_with(Error error);
  // Waits for the next load of the model, if the call that failed may be repeated.
  bool begin_retry(const Error& error);
  State advance_whole();
  State advance_stream(std::string& out);
  void report_progress(std::string& out);
  bool is_event_stream() const;
  const std::string& model() const { return request_.models[i_model_]; }

  const ModelRouter router_;
  ProxiedRequest request_;
  const TimePoint start_ = std::chrono::steady_clock::now();
  const std::shared_ptr<LateWake> wake_ = std::make_shared<LateWake>();
  size_t i_model_ = 0;
  std::unique_ptr<ModelUse> use_;       // null if the request has a port
  std::unique_ptr<UpstreamCall> call_;  // null until the model is loaded
  // A call that failed before an answer, and is repeated with the next load of the model.
  struct Lost {
    Error error;
    TimePoint at;
    uint64_t n_loads;
  };
  std::optional<Lost> lost_;
  uint64_t n_loads_ = 0;                    // of the model, when it was called
  std::optional<UpstreamCall::Head> head_;  // present once the model's server has answered
  std::optional<Error> error_;              // present if there is no answer
  std::optional<Kind> kind_;
  bool has_own_head_ = false;  // the stream began before the model's server answered
  std::string body_;           // kWhole, or an error in a stream that began
  int percent_ = -1;           // of the last comment about progress
};

}  // namespace kvik
