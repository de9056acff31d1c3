#include "server/dialects/llama_cpp/native_request.h"
#include "server/dialects/llama_cpp/native_writer.h"
#include "server/dialects/start_completion.h"

namespace kvik {
namespace {

AnswerDialect native_dialect() {
  return {"cmpl-", {{"max_tokens", "n_predict"}}, make_native_writer};
}

}  // namespace

Reply handle_native_completion(const HandlerContext& context, const HttpRequest& request,
                               const RequestBody& body) {
  return start_completion(context, request, parse_native_call(body), native_dialect());
}

Reply handle_infill(const HandlerContext& context, const HttpRequest& request,
                    const RequestBody& body) {
  return start_completion(context, request, parse_infill_call(context.service, body),
                          native_dialect());
}

}  // namespace kvik
