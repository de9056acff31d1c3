#include <utility>

#include "server/dialects/responses/responses_request.h"
#include "server/dialects/responses/responses_writer.h"
#include "server/dialects/start_completion.h"
#include "server/http/status.h"

namespace kvik {

Reply handle_responses(const HandlerContext& context, const HttpRequest& request) {
  auto parsed = parse_responses_call(context.service, request.body);
  if (!parsed) {
    Error error = parsed.error();
    if (error.param == "messages") error.param = "input";
    return error_response(error);
  }
  return start_completion(context, request, std::move(parsed->call),
                          {"resp_",
                           {{"prompt", "input"}, {"max_tokens", "max_output_tokens"}},
                           [&](AnswerEnvelope envelope) {
                             return make_responses_writer(std::move(envelope),
                                                          std::move(parsed->echo));
                           }});
}

}  // namespace kvik
