#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/http_message.h"
#include "service/service_api.h"

namespace kvik {

// Properties of an answer for statistics.
struct ReplyFacts {
  std::string id;              // id that the client sees; empty: none
  std::optional<Usage> usage;  // absent if the answer did not end normally
  std::optional<TimePoint> first_token_at;
};

// An answer in progress. The connection drives it on the network thread; destroying it cancels its
// work, and no wake follows.
class PendingReply {
 public:
  enum class Kind { kWhole, kStream };
  enum class State { kRunning, kDone };

  virtual ~PendingReply() = default;

  // Returns whether kind() and response() are final: a proxied reply does not know them before the
  // other server has answered. If not, it is called again when there are new
  // results, and now and then.
  virtual bool is_decided() { return true; }
  virtual Kind kind() const = 0;

  // Sets the function that is called, from any thread, when there are new results; it is called at
  // once if there are some already.
  virtual void set_wake(std::function<void()> wake) = 0;

  // Processes new results. A stream appends the next event to `out`, and is called again until
  // there is none.
  virtual State advance(std::string& out) = 0;

  // Returns whether advance() may submit more work to the engine, which is therefore not drained
  // yet.
  virtual bool will_submit() const { return false; }

  // Returns true if results were dropped because the stream's reader is too slow.
  virtual bool has_overflowed() const { return false; }

  // kWhole: returns the response, when done. kStream: returns status and headers, before the first
  // event.
  virtual HttpResponse response() = 0;

  // kStream: returns a comment that keeps a silent stream open; clients ignore it.
  virtual std::string_view heartbeat() const { return ": keep-alive\n\n"; }

  // kStream: returns the event of an answer that ends early because of an error.
  virtual std::string final_error_event(const Error& error) const = 0;

  // Returns a short description for the log.
  virtual std::string summary() const = 0;
  virtual ReplyFacts facts() const { return {}; }
};

// Status and headers of a stream. The last header prevents nginx from buffering it.
inline HttpResponse stream_of(std::string content_type) {
  return {.status = 200,
          .body = "",
          .content_type = std::move(content_type),
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}
// Server-sent events.
inline HttpResponse event_stream() { return stream_of("text/event-stream; charset=utf-8"); }
// One JSON value per line.
inline HttpResponse json_lines_stream() { return stream_of("application/x-ndjson"); }

class DeferredReply;

using Reply =
    std::variant<HttpResponse, std::unique_ptr<PendingReply>, std::unique_ptr<DeferredReply>>;

// An answer whose preparation takes too long for the network thread: it is made on another thread.
class DeferredReply {
 public:
  virtual ~DeferredReply() = default;
  // kSlow: made on a low-priority thread, one at a time, round-robin among tenants.
  enum class Kind : uint8_t { kQuick, kSlow };
  virtual Kind kind() const { return Kind::kQuick; }
  virtual std::string tenant() const { return {}; }
  // Called once, on any thread, while the request and its handler exist. A quick one may return
  // another one that is slow.
  virtual Reply make() = 0;
};

}  // namespace kvik
