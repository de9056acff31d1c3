#pragma once

#include <expected>
#include <memory>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/status.h"

namespace kvik {

struct RequestLimits {
  size_t header_bytes;
  uint32_t header_fields;
  size_t body_bytes;
};

// Bytes → one HTTP/1 request, piece by piece. Ambiguous framing is refused: what two readers could
// cut differently ends the connection.
class RequestParser {
 public:
  enum class Stage { kHead, kBody, kDone };

  explicit RequestParser(const RequestLimits& limits);
  ~RequestParser();

  // Takes what it can from the front of `bytes` and says how much; it stops after the head, once.
  // 0 means that a longer piece is needed. After a fault the connection must be closed.
  // Where a head announces too long a body, request() has that head.
  std::expected<size_t, HttpFault> feed(std::string_view bytes);

  Stage stage() const;
  // Complete up to the body from kBody on, with the body at kDone.
  HttpRequest& request();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvik
