#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/chat_call.h"
#include "server/chat_events.h"
#include "server/chat_request.h"
#include "server/json_fields.h"
#include "server/start_completion.h"
#include "server/status.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Chat's own names for what /v1/completions has too: max_completion_tokens, and logprobs as a flag
// beside top_logprobs.
Result<void> rename_fields(json::object& object) {
  const JsonFields fields(object);
  TRY_ASSIGN(const auto max_tokens, fields.count<uint64_t>("max_completion_tokens"));
  TRY_ASSIGN(const auto logprobs, fields.boolean("logprobs"));
  TRY_ASSIGN(const auto n_top, fields.count<uint32_t>("top_logprobs"));
  if (n_top && *n_top > 0 && !logprobs.value_or(false)) {
    return fail(ErrorCode::kInvalidArgument, "top_logprobs needs logprobs to be true",
                "top_logprobs");
  }
  if (n_top && *n_top > RequestBounds::kLogprobs) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("top_logprobs is {}, at most {} are given", *n_top, RequestBounds::kLogprobs),
        "top_logprobs");
  }
  if (max_tokens) object["max_tokens"] = *max_tokens;
  object.erase("logprobs");
  if (logprobs.value_or(false)) object["logprobs"] = n_top.value_or(0);
  object.erase("echo");
  return {};
}

Result<CompletionCall> parse_chat_call(const ServiceApi& service, std::string_view body) {
  TRY_ASSIGN(json::object object, parse_json_object(body));
  TRY(rename_fields(object));
  return make_chat_call(service, object);
}

Result<std::string> render(const ServiceApi& service, std::string_view body) {
  TRY_ASSIGN(const json::object object, parse_json_object(body));
  TRY_ASSIGN(const ChatRequest chat, read_chat_request(object));
  return service.apply_template(chat);
}

}  // namespace

Reply handle_chat(const HandlerContext& context, const HttpRequest& request) {
  return start_completion(context, request, parse_chat_call(context.service, request.body),
                          {"chatcmpl-", {{"prompt", "messages"}}, make_chat_writer});
}

Reply handle_apply_template(const HandlerContext& context, const HttpRequest& request) {
  const auto text = render(context.service, request.body);
  if (!text) return error_response(text.error());
  json::object out;
  out["prompt"] = json::string(text->data(), text->size());
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
