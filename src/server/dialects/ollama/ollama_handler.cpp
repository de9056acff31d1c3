#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "server/dialects/embeddings/embeddings_reply.h"
#include "server/dialects/event_json.h"
#include "server/dialects/ollama/ollama_request.h"
#include "server/dialects/ollama/ollama_writer.h"
#include "server/dialects/start_completion.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;
using Route = OllamaAnswer::Route;

// The version of Ollama whose API these routes have. Some clients refuse to work with older ones.
constexpr std::string_view kOllamaVersion = "0.13.0";

HttpResponse json_answer(const json::object& object) {
  return {.status = 200, .body = json::serialize(object)};
}

Reply answer_call(const HandlerContext& context, const HttpRequest& request,
                  Result<OllamaCall> parsed, OllamaAnswer answer) {
  const bool is_chat = answer.route == Route::kChat;
  if (!parsed) return error_response(parsed.error());
  answer.model = std::move(parsed->model);
  answer.context = std::move(parsed->context);
  if (parsed->kind != OllamaCall::Kind::kAnswer) {
    const bool loads =
        parsed->kind == OllamaCall::Kind::kLoad || !is_operator(request, context.options);
    return HttpResponse{.status = 200,
                        .body = empty_answer_json(answer, loads ? "load" : "unload")};
  }
  answer.has_parts = parsed->call.requests.front().output.answer_begin.has_value();
  return start_completion(context, request, std::move(parsed->call),
                          {is_chat ? "chat-" : "gen-",
                           {{"prompt", is_chat ? "messages" : "prompt"}},
                           [answer = std::move(answer)](AnswerEnvelope envelope) {
                             return make_ollama_writer(std::move(envelope), answer);
                           }});
}

// Returns the writer of the answer of /api/embed.
WriteEmbeddings embed_writer(std::string model, TimePoint began, std::optional<Prices> prices) {
  return [model = std::move(model), began, prices](const EmbeddingResults& results,
                                                   const Usage& usage, JsonBody& body) {
    body.text(opened({{"model", model}}) + ",\"embeddings\":[");
    body.each(results->size(), [results](size_t i, std::string& out) {
      write_numbers(*(*results)[i].embedding, out);
    });
    const Duration total = std::chrono::steady_clock::now() - began;
    json::object rest{{"total_duration", to_ns(total)},
                      {"load_duration", to_ns(usage.queue_time)},
                      {"prompt_eval_count", usage.prompt_tokens}};
    add_kvik(prices, usage, rest);
    body.text("]" + closed(rest));
  };
}

// Writes the answer of /api/embeddings.
void write_one_embedding(const EmbeddingResults& results, const Usage&, JsonBody& body) {
  body.text("{\"embedding\":");
  body.once([results](std::string& out) { write_numbers(*results->front().embedding, out); });
  body.text("}");
}

}  // namespace

Reply handle_ollama_generate(const HandlerContext& context, const HttpRequest& request,
                             const RequestBody& body) {
  const OllamaAnswer answer{.route = Route::kGenerate, .began = std::chrono::steady_clock::now()};
  return answer_call(context, request, parse_generate_call(context.service, body), answer);
}

Reply handle_ollama_chat(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body) {
  const OllamaAnswer answer{.route = Route::kChat, .began = std::chrono::steady_clock::now()};
  return answer_call(context, request, parse_ollama_chat_call(context.service, body), answer);
}

Reply handle_ollama_embed(const HandlerContext& context, const HttpRequest& request,
                          const RequestBody& body) {
  const TimePoint began = std::chrono::steady_clock::now();
  auto parsed = parse_embed_call(context.service, body, "input");
  if (!parsed) return error_response(parsed.error());
  if (parsed->call.requests.empty()) {
    return json_answer({{"model", parsed->model}, {"embeddings", json::array()}});
  }
  return start_embeddings(context, request, std::move(parsed->call), "input",
                          embed_writer(std::move(parsed->model), began, context.options.prices));
}

Reply handle_ollama_embeddings(const HandlerContext& context, const HttpRequest& request,
                               const RequestBody& body) {
  auto parsed = parse_embed_call(context.service, body, "prompt");
  if (!parsed) return error_response(parsed.error());
  if (parsed->call.requests.empty()) return json_answer({{"embedding", json::array()}});
  return start_embeddings(context, request, std::move(parsed->call), "prompt", write_one_embedding);
}

Reply handle_ollama_version(const HandlerContext& context, const HttpRequest&) {
  return json_answer(
      {{"version", kOllamaVersion}, {"kvik", {{"version", context.options.version}}}});
}

}  // namespace kvik
