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

Result<std::string> render(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(const ChatRequest chat, read_chat_request(fields));
  return service.apply_template(chat);
}

}  // namespace

Reply handle_chat(const HandlerContext& context, const HttpRequest& request,
                  const RequestBody& body) {
  return start_completion(context, request, parse_chat_call(context.service, body),
                          {.id_prefix = "chatcmpl-",
                           .renamed = {{"prompt", "messages"}},
                           .make_writer = make_chat_writer,
                           .can_attest = true});
}

Reply handle_apply_template(const HandlerContext& context, const HttpRequest&,
                            const RequestBody& body) {
  auto text = render(context.service, body);
  if (!text) return error_response(text.error());
  return text_response(context.memory, "prompt", std::move(*text));
}

}  // namespace kvik
