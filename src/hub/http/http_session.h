#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "hub/hub_options.h"

namespace kvik {

// A GET request.
struct HubRequest {
  std::string url;
  // Token of the Authorization header, sent to the scheme, host and port of `url` only; a redirect
  // to another origin does not get it. Empty: none.
  std::string bearer = {};
  std::string accept = {};
  // First and last byte to request.
  std::optional<std::pair<uint64_t, uint64_t>> range = std::nullopt;
};

// Status and headers of an answer; names of headers are lowercase.
struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;
  // Headers that begin with "x-" of all answers of the first origin, including redirects.
  std::map<std::string, std::string> hub_headers;
  std::string url;  // after redirects

  // Returns an empty text if there is no such header.
  std::string header(const std::string& name) const;
  std::string hub_header(const std::string& name) const;
  // Returns the first byte and the size of the whole file by Content-Range; std::nullopt if the
  // header is absent or malformed.
  std::optional<std::pair<uint64_t, uint64_t>> content_range() const;
  // Returns the time of Retry-After in seconds, at most ten minutes; std::nullopt if there is none.
  std::optional<Duration> retry_after() const;
};

// Receives the body of an answer that is not a redirect, in pieces. Returns false to end the
// transfer.
using HttpSink = std::function<bool(const HttpReply&, std::span<const std::byte>)>;

class HttpTransfer;

// Runs HTTP transfers in parallel on the calling thread, reusing connections. Follows at most eight
// redirects, none from https to http. Honors libcurl's proxy variables. One thread.
class HttpSession {
 public:
  // Uses options.stall_timeout and options.ca_file. Errors: kUnsupported if libcurl cannot be
  // loaded.
  static Result<std::unique_ptr<HttpSession>> open(const HubOptions& options);
  virtual ~HttpSession() = default;

  // Starts a transfer. Destroying it cancels it; it must not outlive the session.
  virtual std::unique_ptr<HttpTransfer> start(HubRequest request, HttpSink sink) = 0;
  // Lets the transfers advance for at most `wait`, or until something happened.
  virtual void run(Duration wait) = 0;
};

// Number of attempts without any new byte before a download fails.
inline constexpr int kMaxAttempts = 6;

class HttpTransfer {
 public:
  virtual ~HttpTransfer() = default;
  virtual bool is_done() const = 0;
  // Reason for which the transfer failed before its end; empty: none. An answer with an error
  // status is no failure.
  virtual const std::string& failure() const = 0;
  // Number of attempts without a new byte after which it is not tried again: one for a redirect
  // that is not followed, few if no connection could be made, and kMaxAttempts otherwise.
  virtual int max_attempts() const = 0;
  virtual bool was_ended_by_sink() const = 0;
  virtual const HttpReply& reply() const = 0;
};

// Returns whether a request with this status may succeed later.
bool is_temporary(int status);

// Asks whether to continue, during waits; false ends the work.
using KeepGoing = std::function<bool()>;

// Returns the time to wait before attempt number `n_failed` + 1.
Duration retry_delay(int n_failed, const HttpReply& reply);

// Waits, and returns false at once if the work shall end.
bool wait_for_retry(Duration time, const KeepGoing& keep_going);

struct HttpBody {
  HttpReply reply;
  std::string bytes;
};

// Requests a body of at most max_bytes; answers that may change (429, 5xx) and broken connections
// are tried again. Returns any other status. Errors: kIo for a failed connection, a longer body, or
// if keep_going returned false.
Result<HttpBody> http_get(HttpSession& session, const HubRequest& request, size_t max_bytes,
                          const KeepGoing& keep_going);

}  // namespace kvik
