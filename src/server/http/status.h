#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_message.h"

namespace kvik {

// The one place that maps what went wrong to an HTTP status.
unsigned http_status(ErrorCode code);

// Trouble that HTTP has a status for and ErrorCode has not: 401, 405, 408, 413, 431…
struct HttpFault {
  unsigned status;
  std::string message;
};

HttpError http_error(const Error& error);

// What a request is told for which the memory does not reach now: 503.
HttpFault no_memory();

// OpenAI's shape: {"error":{"message","type","param","code"}}; Anthropic's:
// {"type":"error","error":{"type","message"},"request_id"}.
std::string error_json(const HttpError& error, ErrorShape shape, std::string_view request_id);

// Answers whose body is written once it is known whom it is for.
HttpResponse error_response(const Error& error);
// A 429 or 503 that says in how many seconds to come back; without, it is one second.
HttpResponse error_response(const Error& error, std::chrono::seconds retry_after);
HttpResponse error_response(const HttpFault& fault);

// Gives an answer that is an error its body.
void write_error_body(HttpResponse& response, const HttpFraming& framing);

}  // namespace kvik
