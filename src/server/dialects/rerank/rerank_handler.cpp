#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "server/dialects/embeddings/embeddings_reply.h"
#include "server/dialects/event_json.h"
#include "server/dialects/rerank/rerank_request.h"
#include "server/handlers.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

double score_of(const EmbeddingsMailbox::Result& result, bool is_raw) {
  const double score = result.embedding->front();
  return is_raw ? score : 1 / (1 + std::exp(-score));
}

json::object usage_json(const Usage& usage, const std::optional<Prices>& prices) {
  json::object out{{"prompt_tokens", usage.prompt_tokens}, {"total_tokens", usage.prompt_tokens}};
  add_kvik(prices, usage, out);
  return out;
}

// Returns the documents by descending score; equal ones in their order.
std::vector<size_t> ranking_of(const EmbeddingResults& results, std::optional<uint32_t> top_n) {
  std::vector<size_t> order(results->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return (*results)[i].embedding->front(); });
  order.resize(std::min<size_t>(order.size(), top_n.value_or(UINT32_MAX)));
  return order;
}

// Returns the writer of the answer of /v1/rerank (Jina, Cohere), or of TEI's list.
WriteEmbeddings rerank_writer(std::string model, RerankCall call, std::optional<Prices> prices) {
  call.scores.call.requests.clear();
  const auto parsed = std::make_shared<const RerankCall>(std::move(call));
  return [model = std::move(model), parsed, prices](const EmbeddingResults& results,
                                                    const Usage& usage, JsonBody& body) {
    const auto order =
        std::make_shared<const std::vector<size_t>>(ranking_of(results, parsed->top_n));
    body.text(parsed->is_list ? "[" : R"({"object":"list","results":[)");
    body.each(order->size(), [results, order, parsed](size_t place, std::string& out) {
      const size_t i = (*order)[place];
      json::object entry{{"index", i}};
      const double score = score_of((*results)[i], parsed->scores.is_raw);
      entry[parsed->is_list ? "score" : "relevance_score"] = score;
      if (!parsed->documents.empty() && parsed->is_list) {
        entry["text"] = to_json_string(parsed->documents[i]);
      } else if (!parsed->documents.empty()) {
        entry["document"] = {{"text", to_json_string(parsed->documents[i])}};
      }
      out += json::serialize(entry);
    });
    if (parsed->is_list) return body.text("]");
    body.text(fmt::format(R"(],"model":{},"usage":{}}})", json::serialize(to_json_string(model)),
                          json::serialize(usage_json(usage, prices))));
  };
}

// Returns the writer of the answer of /v1/score (vLLM).
WriteEmbeddings score_writer(std::string model, bool is_raw, std::optional<Prices> prices) {
  return [model = std::move(model), is_raw, prices](const EmbeddingResults& results,
                                                    const Usage& usage, JsonBody& body) {
    body.text(R"({"object":"list","data":[)");
    body.each(results->size(), [results, is_raw](size_t i, std::string& out) {
      out += json::serialize(json::object{
          {"index", i}, {"object", "score"}, {"score", score_of((*results)[i], is_raw)}});
    });
    body.text(fmt::format(R"(],"model":{},"usage":{}}})", json::serialize(to_json_string(model)),
                          json::serialize(usage_json(usage, prices))));
  };
}

}  // namespace

Reply handle_rerank(const HandlerContext& context, const HttpRequest& request,
                    const RequestBody& body) {
  auto parsed = parse_rerank_call(context.service, body);
  if (!parsed) return error_response(parsed.error());
  EmbeddingsCall call = std::move(parsed->scores.call);
  return start_embeddings(
      context, request, std::move(call), "documents",
      rerank_writer(context.service.card().id.text(), std::move(*parsed), context.options.prices));
}

Reply handle_score(const HandlerContext& context, const HttpRequest& request,
                   const RequestBody& body) {
  auto parsed = parse_score_call(context.service, body);
  if (!parsed) return error_response(parsed.error());
  return start_embeddings(
      context, request, std::move(parsed->call), "text_2",
      score_writer(context.service.card().id.text(), parsed->is_raw, context.options.prices));
}

}  // namespace kvik
