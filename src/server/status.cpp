#include "server/status.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>

namespace kvik {
namespace {

namespace json = boost::json;

std::string_view type_of_status(unsigned status) {
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

// What clients branch on; null where the status says it all.
std::optional<std::string_view> code_of_error(const Error& error) {
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
      if (error.param == "model") return "model_not_found";
      return "not_found";
    default:
      return std::nullopt;
  }
}

std::optional<std::string_view> code_of_status(unsigned status) {
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
      return std::nullopt;
  }
}

json::value text_or_null(std::optional<std::string_view> text) {
  return text ? json::value(json::string(text->data(), text->size())) : json::value(nullptr);
}

struct ErrorBody {
  std::string_view message;
  std::string_view type;
  std::optional<std::string_view> param;
  std::optional<std::string_view> code;
};

std::string to_json(const ErrorBody& body) {
  json::object inner;
  inner["message"] = text_or_null(body.message);
  inner["type"] = text_or_null(body.type);
  inner["param"] = text_or_null(body.param);
  inner["code"] = text_or_null(body.code);
  json::object outer;
  outer["error"] = std::move(inner);
  return json::serialize(outer);
}

HttpResponse with_retry_hint(HttpResponse response,
                             std::chrono::seconds after = std::chrono::seconds(1)) {
  if (response.status == 429 || response.status == 503)
    response.headers.emplace_back("Retry-After", std::to_string(after.count()));
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

std::string error_json(const Error& error) {
  std::optional<std::string_view> param;
  if (!error.param.empty()) param = error.param;
  return to_json({.message = error.message,
                  .type = type_of_status(http_status(error.code)),
                  .param = param,
                  .code = code_of_error(error)});
}

HttpResponse error_response(const Error& error) {
  return error_response(error, std::chrono::seconds(1));
}

HttpResponse error_response(const Error& error, std::chrono::seconds retry_after) {
  return with_retry_hint({.status = http_status(error.code), .body = error_json(error)},
                         retry_after);
}

HttpResponse error_response(const HttpFault& fault) {
  std::string body = to_json({.message = fault.message,
                              .type = type_of_status(fault.status),
                              .param = std::nullopt,
                              .code = code_of_status(fault.status)});
  return with_retry_hint({.status = fault.status, .body = std::move(body)});
}

}  // namespace kvik
