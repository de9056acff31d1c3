#include <boost/json/object.hpp>
#include <string_view>
#include <utility>

#include "server/dialects/chat/chat_request.h"
#include "server/dialects/chat/chat_writer.h"
#include "server/dialects/json_body.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/start_completion.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

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
  auto text = render(context.service, request.body);
  if (!text) return error_response(text.error());
  return text_response(context.memory, "prompt", std::move(*text));
}

}  // namespace kvik
