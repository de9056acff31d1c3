#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_message.h"

namespace kvik {

// A request to another server on loopback, and its answer as it arrives. Destroying it closes the
// connection, which cancels the work of that server. Any thread, one at a time.
class UpstreamCall {
 public:
  // Status and headers of an answer.
  struct Head {
    unsigned status = 0;
    std::string content_type;
    std::optional<uint64_t> n_body_bytes;  // absent: not known in advance
    HttpHeaders headers;                   // those for the client
  };

  ~UpstreamCall();
  UpstreamCall(const UpstreamCall&) = delete;
  UpstreamCall& operator=(const UpstreamCall&) = delete;

  // Returns the head once it has arrived.
  std::optional<Head> head() const;

  // Appends the bytes of the body that have arrived. Returns whether the answer has ended, with
  // error() if it is not complete.
  bool take(std::string& out);

  // Returns the reason why the call failed, if it did: kUnavailable if the connection was refused
  // or closed, kCorrupt if the answer is not HTTP.
  std::optional<Error> error() const;

 private:
  friend class Upstreams;
  class State;
  explicit UpstreamCall(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

// Calls servers on loopback, on a thread of its own. At most kBufferBytes of an answer wait for
// their reader; the rest waits in the other server.
class Upstreams {
 public:
  static constexpr size_t kBufferBytes = size_t{64} << 10;

  // Errors: kIo if the system refuses a thread.
  static Result<std::unique_ptr<Upstreams>> start();
  ~Upstreams();  // after all calls were destroyed
  Upstreams(const Upstreams&) = delete;
  Upstreams& operator=(const Upstreams&) = delete;

  // Sends `request` (a head with "Connection: close", and a body) to 127.0.0.1. `on_progress` is
  // called on the thread of this class when head, body or end have arrived; also shortly after the
  // call was destroyed.
  std::unique_ptr<UpstreamCall> call(uint16_t port, std::shared_ptr<const std::string> request,
                                     std::function<void()> on_progress);

 private:
  class Impl;
  explicit Upstreams(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kvik
