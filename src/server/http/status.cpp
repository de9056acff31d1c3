#include "server/http/status.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace kvik {
namespace {

namespace json = boost::json;

std::string_view openai_type(unsigned status) {
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view anthropic_type(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string_view code_of_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kContextLength:
      return "context_length_exceeded";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kExhausted:
      return "overloaded";
    case ErrorCode::kUnavailable:
      return "shutting_down";
    case ErrorCode::kNotFound:
      return error.param == "model" ? "model_not_found" : "not_found";
    default:
      return {};
  }
}

std::string_view code_of_status(unsigned status) {
  switch (status) {
    case 401:
      return "invalid_api_key";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 408:
      return "request_timeout";
    case 413:
      return "request_too_large";
    case 431:
      return "header_too_large";
    case 503:
      return "overloaded";
    default:
      return {};
  }
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(json::string(text.data(), text.size()));
}

json::object openai_json(const HttpError& error) {
  json::object inner;
  inner["message"] = text_or_null(error.message);
  inner["type"] = text_or_null(openai_type(error.status));
  inner["param"] = text_or_null(error.param);
  inner["code"] = text_or_null(error.code);
  json::object outer;
  outer["error"] = std::move(inner);
  return outer;
}

json::object anthropic_json(const HttpError& error, std::string_view request_id) {
  json::object inner;
  inner["type"] = text_or_null(anthropic_type(error.status));
  inner["message"] = text_or_null(error.message);
  json::object outer;
  outer["type"] = "error";
  outer["error"] = std::move(inner);
  outer["request_id"] = text_or_null(request_id);
  return outer;
}

HttpResponse response_of(HttpError error, std::chrono::seconds retry_after) {
  HttpResponse response{.status = error.status, .body = {}};
  if (error.status == 429 || error.status == 503)
    response.headers.emplace_back("Retry-After", std::to_string(retry_after.count()));
  response.error = std::move(error);
  return response;
}

}  // namespace

unsigned http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kContextLength:
      return 400;
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kCorrupt:
      return 500;
    case ErrorCode::kIo:
      return 500;
  }
  return 500;
}

HttpError http_error(const Error& error) {
  return {.status = http_status(error.code),
          .message = error.message,
          .param = error.param,
          .code = code_of_error(error)};
}

std::string error_json(const HttpError& error, ErrorShape shape, std::string_view request_id) {
  return json::serialize(shape == ErrorShape::kAnthropic ? anthropic_json(error, request_id)
                                                         : openai_json(error));
}

HttpResponse error_response(const Error& error) {
  return error_response(error, std::chrono::seconds(1));
}

HttpResponse error_response(const Error& error, std::chrono::seconds retry_after) {
  return response_of(http_error(error), retry_after);
}

HttpResponse error_response(const HttpFault& fault) {
  return response_of(
      {.status = fault.status, .message = fault.message, .code = code_of_status(fault.status)},
      std::chrono::seconds(1));
}

void write_error_body(HttpResponse& response, const HttpFraming& framing) {
  if (!response.error) return;
  response.body = error_json(*response.error, framing.error_shape, framing.request_id);
}

}  // namespace kvik
