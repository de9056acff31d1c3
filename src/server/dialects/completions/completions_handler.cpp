#include "server/dialects/completions/completions_request.h"
#include "server/dialects/completions/completions_writer.h"
#include "server/dialects/start_completion.h"

namespace kvik {

Reply handle_completions(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body) {
  return start_completion(context, request, parse_completions_call(context.service, body),
                          {.id_prefix = "cmpl-",
                           .renamed = {},
                           .make_writer = make_completions_writer,
                           .can_attest = true});
}

}  // namespace kvik
