#pragma once

#include <expected>
#include <memory>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/status.h"

namespace kvik {

// Maximum sizes of a request.
struct RequestLimits {
  size_t header_bytes;
  uint32_t header_fields;
  size_t body_bytes;
};

// Incremental parser of one HTTP/1 request. Ambiguous framing is rejected: requests that two
// parsers could split differently end the connection.
class RequestParser {
 public:
  enum class Stage { kHead, kBody, kDone };

  explicit RequestParser(const RequestLimits& limits);
  ~RequestParser();

  // Consumes bytes from the front of `bytes` and returns how many; stops once after the head. 0: a
  // longer piece is needed. After a fault the connection must be closed. If a head announces a body
  // that is too long, request() has that head.
  std::expected<size_t, HttpFault> feed(std::string_view bytes);

  Stage stage() const;
  // Returns the request: without its body from kBody on, complete at kDone.
  HttpRequest& request();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvik
