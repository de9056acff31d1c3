#include "server/http/status.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace kvik {
namespace {

namespace json = boost::json;

// Names of a status in both dialects, if they differ from others of its class.
struct StatusWords {
  unsigned status;
  std::string_view code;
  std::string_view openai_type;
  std::string_view anthropic_type;
};

constexpr std::string_view kInvalid = "invalid_request_error";

constexpr StatusWords kStatuses[] = {
    {401, "invalid_api_key", kInvalid, "authentication_error"},
    {403, "forbidden", kInvalid, "permission_error"},
    {404, "not_found", kInvalid, "not_found_error"},
    {405, "method_not_allowed", kInvalid, kInvalid},
    {408, "request_timeout", kInvalid, kInvalid},
    {413, "request_too_large", kInvalid, "request_too_large"},
    {429, "", "rate_limit_error", "rate_limit_error"},
    {431, "header_too_large", kInvalid, kInvalid},
    {503, "overloaded", "service_unavailable_error", "overloaded_error"},
};

StatusWords words_of(unsigned status) {
  for (const StatusWords& words : kStatuses) {
    if (words.status == status) return words;
  }
  if (status >= 500) return {status, "", "server_error", "api_error"};
  return {status, "", kInvalid, kInvalid};
}

std::string_view code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kContextLength:
      return "context_length_exceeded";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kExhausted:
      return "overloaded";
    case ErrorCode::kUnavailable:
      return error.param == "model" ? "model_not_loaded" : "shutting_down";
    case ErrorCode::kNotFound:
      if (error.param == "thread") return "thread_not_found";
      return error.param == "model" ? "model_not_found" : "not_found";
    default:
      return {};
  }
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(valid_utf8(text));
}

json::object openai_json(const HttpError& error) {
  return {{"error",
           {{"message", text_or_null(error.message)},
            {"type", text_or_null(words_of(error.status).openai_type)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

json::object anthropic_json(const HttpError& error, std::string_view request_id) {
  json::object inner{{"type", text_or_null(words_of(error.status).anthropic_type)},
                     {"message", text_or_null(error.message)}};
  // Clients react to this by sending the whole conversation again.
  if (error.code == "thread_not_found") inner["details"] = {{"error_code", error.code}};
  return {{"type", "error"}, {"error", std::move(inner)}, {"request_id", text_or_null(request_id)}};
}

json::object ollama_json(const HttpError& error) { return {{"error", valid_utf8(error.message)}}; }

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
    case ErrorCode::kContextLength:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
      break;
  }
  return 500;
}

HttpFault no_memory() { return {503, "there is no memory for this request now"}; }

HttpError http_error(const Error& error) {
  return {.status = http_status(error.code),
          .message = error.message,
          .param = error.param,
          .code = code_of(error)};
}

HttpError http_error(const HttpFault& fault) {
  return {.status = fault.status, .message = fault.message, .code = words_of(fault.status).code};
}

std::string error_json(const HttpError& error, ErrorShape shape, std::string_view request_id) {
  switch (shape) {
    case ErrorShape::kAnthropic:
      return json::serialize(anthropic_json(error, request_id));
    case ErrorShape::kOllama:
      return json::serialize(ollama_json(error));
    case ErrorShape::kOpenAi:
      break;
  }
  return json::serialize(openai_json(error));
}

HttpResponse error_response(const Error& error) {
  return error_response(error, std::chrono::seconds(1));
}

HttpResponse error_response(const Error& error, std::chrono::seconds retry_after) {
  return response_of(http_error(error), retry_after);
}

HttpResponse error_response(const HttpFault& fault) { return error_response(http_error(fault)); }

HttpResponse error_response(const HttpError& error) {
  return response_of(error, std::chrono::seconds(1));
}

void write_error_body(HttpResponse& response, const HttpFraming& framing) {
  if (!response.error) return;
  response.body = error_json(*response.error, framing.error_shape, framing.request_id);
}

}  // namespace kvik
