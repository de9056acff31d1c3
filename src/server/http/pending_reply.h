#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/http_message.h"
#include "service/service_api.h"

namespace kvik {

// What an answer was, for those who count.
struct ReplyFacts {
  std::string id;              // as the client knows it; empty where it has none
  std::optional<Usage> usage;  // absent where it did not come to its end
  std::optional<TimePoint> first_token_at;
};

// An answer that is still being made. The connection drives it on the network thread; destroying it
// cancels the work behind it, and no wake comes after that.
class PendingReply {
 public:
  enum class Kind { kWhole, kStream };
  enum class State { kRunning, kDone };

  virtual ~PendingReply() = default;
  virtual Kind kind() const = 0;

  // `wake` is called from any thread when there is news; at once where there is some already.
  virtual void set_wake(std::function<void()> wake) = 0;

  // Takes the news. A stream appends the next event to `out`, and wants to be asked again until
  // there is none.
  virtual State advance(std::string& out) = 0;

  // A stream's reader is so slow that its news had to be dropped.
  virtual bool has_overflowed() const { return false; }

  // kWhole, when done: the response. kStream: status and headers, before the first byte.
  virtual HttpResponse response() = 0;

  // kStream: what keeps a silent one open; clients make nothing of it.
  virtual std::string_view heartbeat() const { return ": keep-alive\n\n"; }

  // kStream: what tells the client that the rest will not come.
  virtual std::string last_words(const Error& error) const = 0;

  // For the access log.
  virtual std::string summary() const = 0;
  virtual ReplyFacts facts() const { return {}; }
};

// Status and headers of server-sent events. The last one keeps nginx from holding them back.
inline HttpResponse event_stream() {
  return {.status = 200,
          .body = "",
          .content_type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

class DeferredReply;

using Reply =
    std::variant<HttpResponse, std::unique_ptr<PendingReply>, std::unique_ptr<DeferredReply>>;

// An answer whose beginning takes longer than the network thread has: it is made on another one.
class DeferredReply {
 public:
  virtual ~DeferredReply() = default;
  // kSlow: made on a thread of low priority, one at a time, round-robin among tenants.
  enum class Kind : uint8_t { kQuick, kSlow };
  virtual Kind kind() const { return Kind::kQuick; }
  virtual std::string tenant() const { return {}; }
  // Any thread, once, while the request and what handled it are there. A quick one may
  // return another one that is slow.
  virtual Reply make() = 0;
};

}  // namespace kvik
