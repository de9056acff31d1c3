#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "server/handlers.h"

namespace kvik {

// Knows the routes: who may call what, and which handler answers. Any thread.
class Router {
 public:
  // All are borrowed.
  Router(HandlerContext context, const std::atomic<bool>& is_draining)
      : context_(context), is_draining_(is_draining) {}

  // What can be refused when only the head is known: 401, 404, 405, 503. nullopt: read on.
  std::optional<HttpResponse> refuse(const HttpRequest& head) const;

  // Answers a request that was not refused.
  Reply handle(const HttpRequest& request) const;

  // How the clients of a path read errors.
  static ErrorShape error_shape(std::string_view path);

  // Probes come every few seconds and are not worth a line in the log.
  static bool is_probe(std::string_view path);

 private:
  HandlerContext context_;
  const std::atomic<bool>& is_draining_;
};

}  // namespace kvik
