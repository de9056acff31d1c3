#include <memory>
#include <utility>

#include "server/dialects/chat/chat_call.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/responses/responses_events.h"
#include "server/dialects/responses/responses_request.h"
#include "server/dialects/start_completion.h"
#include "server/http/status.h"

namespace kvik {
namespace {

Result<ResponsesBody> parse(std::string_view body) {
  TRY_ASSIGN(boost::json::object object, parse_json_object(body));
  return read_responses_body(std::move(object));
}

}  // namespace

Reply handle_responses(const HandlerContext& context, const HttpRequest& request) {
  auto body = parse(request.body);
  if (!body) return error_response(body.error());
  auto call = make_chat_call(context.service, body->chat);
  return start_completion(
      context, request, std::move(call),
      {"resp_",
       {{"prompt", "input"}, {"messages", "input"}, {"max_tokens", "max_output_tokens"}},
       [&](AnswerEnvelope envelope) {
         return make_responses_writer(std::move(envelope), std::move(body->echo));
       }});
}

}  // namespace kvik
