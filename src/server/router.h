#pragma once

#include <atomic>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/handlers.h"
#include "server/http/callers.h"

namespace kvik {

// Knows the routes: who may call what, and which handler answers. Any thread.
class Router {
 public:
  // All are borrowed.
  Router(HandlerContext context, const std::atomic<bool>& is_draining)
      : context_(context),
        is_draining_(is_draining),
        callers_({.host = context.options.host,
                  .hosts = context.options.allowed_hosts,
                  .origins = context.options.cors_origins}) {}

  // What can be answered when only the head is known: a browser's question whether a page may call
  // (204), 401, 403, 404, 405, 503. nullopt: read on.
  std::optional<HttpResponse> answer_head(const HttpRequest& head) const;

  // The page of elsewhere that may read the answer; empty: none.
  std::string allowed_origin(const HttpRequest& head) const {
    return callers_.allowed_origin(head);
  }

  // Answers a request that was not refused.
  Reply handle(const HttpRequest& request) const;
  // The same where there is time for all of it, from where handle() put it off, or from the start.
  Reply make(const HttpRequest& request, DeferredReply* deferred) const;

  // How the clients of a path read errors.
  static ErrorShape error_shape(std::string_view path);

  // Returns whether a short request to this path can take long, because it can refer to a long
  // stored conversation.
  static bool is_heavy(std::string_view path);

  // Probes come every few seconds and are not worth a line in the log.
  static bool is_probe(std::string_view path);

 private:
  HandlerContext context_;
  const std::atomic<bool>& is_draining_;
  const Callers callers_;
};

}  // namespace kvik
