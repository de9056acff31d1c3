#pragma once

#include <atomic>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/handlers.h"
#include "server/http/callers.h"

namespace kvik {

// Dispatches requests: checks access and selects the handler. Any thread.
class Router {
 public:
  // Borrows everything.
  Router(HandlerContext context, const std::atomic<bool>& is_draining)
      : context_(context),
        is_draining_(is_draining),
        callers_({.host = context.options.host,
                  .hosts = context.options.allowed_hosts,
                  .origins = context.options.cors_origins}) {}

  // Returns a response that needs only the head: a CORS preflight (204), 401, 403, 404, 405, 503.
  // Returns std::nullopt if the body must be read.
  std::optional<HttpResponse> answer_head(const HttpRequest& head) const;

  // Returns the origin that may read the answer; empty: none.
  std::string allowed_origin(const HttpRequest& head) const {
    return callers_.allowed_origin(head);
  }

  // Answers a request that answer_head() did not reject.
  Reply handle(const HttpRequest& request) const;
  // Makes a reply on another thread than the network thread. `deferred` is a reply of handle();
  // null if the request has not been handled yet. The reply may be a slow DeferredReply.
  Reply make(const HttpRequest& request, DeferredReply* deferred) const;

  // Returns the error format of a path.
  static ErrorShape error_shape(std::string_view path);

  // Returns whether a short request to this path can take long, because it can refer to a long
  // stored conversation.
  static bool is_heavy(std::string_view path);

  // Returns whether the path needs no API key: health probes and the page. Their requests are
  // logged at debug level only.
  static bool is_probe(std::string_view path);

 private:
  HandlerContext context_;
  const std::atomic<bool>& is_draining_;
  const Callers callers_;
};

}  // namespace kvik
