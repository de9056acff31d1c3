#include <memory>
#include <utility>

#include "server/dialects/embeddings/embeddings_reply.h"
#include "server/dialects/embeddings/embeddings_request.h"
#include "server/dialects/start_completion.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/status.h"

namespace kvik {

Reply handle_embeddings(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body) {
  auto call = parse_embeddings_call(context.service, body);
  if (!call) return error_response(call.error());
  const ApiKey* key = find_key(request, context.options);
  if (key) {
    for (EmbeddingRequest& one : call->requests) {
      one.engine.tenant = key->name;
      one.engine.cache_salt = salt_of(*key, one.engine.cache_salt);
      one.engine.ranks = ranks_of(*key);
    }
  }
  ByteShare share(context.memory.answers);
  if (!share.grow(numbers_bytes(*call, context.service.card()))) return error_response(no_memory());
  auto reply =
      std::make_unique<EmbeddingsReply>(context.service, std::move(*call), context.accounts.of(key),
                                        context.options.prices, std::move(share));
  if (const auto started = reply->start(); !started) {
    Error error = started.error();
    if (error.param == "prompt") error.param = "input";
    return error_response(error, wait_of(context.service));
  }
  return reply;
}

}  // namespace kvik
