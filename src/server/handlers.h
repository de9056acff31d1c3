#pragma once

#include "server/dialects/key_accounts.h"
#include "server/dialects/ollama/model_pulls.h"
#include "server/dialects/request_body.h"
#include "server/dialects/responses/background_responses.h"
#include "server/dialects/responses/responses_store.h"
#include "server/http/byte_ledger.h"
#include "server/http/http_counts.h"
#include "server/http/http_message.h"
#include "server/http/pending_reply.h"
#include "server/server_options.h"
#include "service/service_api.h"

namespace kvik {

// The parts of the server that handlers use. Borrows everything; any thread.
struct HandlerContext {
  ServiceApi& service;
  const ServerOptions& options;
  const HttpCounts& counts;
  HttpMemory& memory;
  const KeyAccounts& accounts;
  ResponseStore& responses;
  ModelPulls& pulls;
  BackgroundResponses& background;
};

// Returns all metrics of a server that is no router, as a page. Defined in metrics.cpp.
std::string all_metrics(const HandlerContext& context);

// Handlers, one per route. A handler of a route with a body receives the parsed body. Any thread. A
// handler never waits for the engine: it returns a PendingReply or a DeferredReply instead.
Reply handle_completions(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body);
Reply handle_native_completion(const HandlerContext& context, const HttpRequest& request,
                               const RequestBody& body);
Reply handle_infill(const HandlerContext& context, const HttpRequest& request,
                    const RequestBody& body);
Reply handle_chat(const HandlerContext& context, const HttpRequest& request,
                  const RequestBody& body);
Reply handle_embeddings(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body);
// Score pairs of texts with the model's classifier: documents by relevance, or each pair.
Reply handle_rerank(const HandlerContext& context, const HttpRequest& request,
                    const RequestBody& body);
Reply handle_score(const HandlerContext& context, const HttpRequest& request,
                   const RequestBody& body);
Reply handle_responses(const HandlerContext& context, const HttpRequest& request,
                       const RequestBody& body);
Reply handle_count_input(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body);
// Returns, cancels or deletes a stored response, or lists its input items.
Reply handle_response(const HandlerContext& context, const HttpRequest& request);
Reply handle_messages(const HandlerContext& context, const HttpRequest& request,
                      const RequestBody& body);
Reply handle_count_tokens(const HandlerContext& context, const HttpRequest& request,
                          const RequestBody& body);
// Ollama's API.
Reply handle_ollama_generate(const HandlerContext& context, const HttpRequest& request,
                             const RequestBody& body);
Reply handle_ollama_chat(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body);
Reply handle_ollama_embed(const HandlerContext& context, const HttpRequest& request,
                          const RequestBody& body);
Reply handle_ollama_embeddings(const HandlerContext& context, const HttpRequest& request,
                               const RequestBody& body);
Reply handle_ollama_tags(const HandlerContext& context, const HttpRequest& request);
Reply handle_ollama_show(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body);
Reply handle_ollama_ps(const HandlerContext& context, const HttpRequest& request);
Reply handle_ollama_pull(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body);
Reply handle_ollama_delete(const HandlerContext& context, const HttpRequest& request,
                           const RequestBody& body);
Reply handle_ollama_copy(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body);
Reply handle_ollama_version(const HandlerContext& context, const HttpRequest& request);
Reply handle_apply_template(const HandlerContext& context, const HttpRequest& request,
                            const RequestBody& body);
Reply handle_models(const HandlerContext& context, const HttpRequest& request);
Reply handle_model(const HandlerContext& context, const HttpRequest& request);
Reply handle_load_model(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body);
Reply handle_unload_model(const HandlerContext& context, const HttpRequest& request,
                          const RequestBody& body);
Reply handle_adapters(const HandlerContext& context, const HttpRequest& request,
                      const RequestBody& body);
Reply handle_adapter(const HandlerContext& context,
                     const HttpRequest& request);  // returns or unloads one adapter
Reply handle_load_lora_adapter(const HandlerContext& context, const HttpRequest& request,
                               const RequestBody& body);
Reply handle_unload_lora_adapter(const HandlerContext& context, const HttpRequest& request,
                                 const RequestBody& body);
Reply handle_tokenize(const HandlerContext& context, const HttpRequest& request,
                      const RequestBody& body);
Reply handle_detokenize(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body);
Reply handle_health(const HandlerContext& context, const HttpRequest& request);
Reply handle_metrics(const HandlerContext& context, const HttpRequest& request);
Reply handle_explain(const HandlerContext& context, const HttpRequest& request,
                     const RequestBody& body);
Reply handle_route(const HandlerContext& context, const HttpRequest& request,
                   const RequestBody& body);
Reply handle_sessions(const HandlerContext& context, const HttpRequest& request);
Reply handle_session_tokens(const HandlerContext& context, const HttpRequest& request);
Reply handle_live(const HandlerContext& context, const HttpRequest& request);
Reply handle_page(const HandlerContext& context, const HttpRequest& request);
Reply handle_props(const HandlerContext& context, const HttpRequest& request);
Reply handle_openapi(const HandlerContext& context, const HttpRequest& request);
Reply handle_version(const HandlerContext& context, const HttpRequest& request);

}  // namespace kvik
