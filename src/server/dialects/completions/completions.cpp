#include "server/dialects/completions/completion_events.h"
#include "server/dialects/start_completion.h"

namespace kvik {

Reply handle_completions(const HandlerContext& context, const HttpRequest& request) {
  return start_completion(context, request, parse_completion_call(request.body),
                          {"cmpl-", {}, make_completion_writer});
}

}  // namespace kvik
