#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_message.h"

namespace kvik {

// Returns the HTTP status of an error. There is no other mapping.
unsigned http_status(ErrorCode code);

// Errors that exist in HTTP but not in ErrorCode: 401, 405, 408, 413, 431…
struct HttpFault {
  unsigned status;
  std::string message;
};

HttpError http_error(const Error& error);
HttpError http_error(const HttpFault& fault);

// Returns 503 for a request for which there is no memory now.
HttpFault no_memory();

// Returns the error in OpenAI's format: {"error":{"message","type","param","code"}}; Anthropic's:
// {"type":"error","error":{"type","message"},"request_id"}; or Ollama's: {"error": message}.
std::string error_json(const HttpError& error, ErrorShape shape, std::string_view request_id);

// Return a response whose body is written when the dialect is known.
HttpResponse error_response(const Error& error);
// With a Retry-After header for 429 and 503; the default is one second.
HttpResponse error_response(const Error& error, std::chrono::seconds retry_after);
HttpResponse error_response(const HttpFault& fault);
HttpResponse error_response(const HttpError& error);

// Writes the body of an error response.
void write_error_body(HttpResponse& response, const HttpFraming& framing);

}  // namespace kvik
