#include "server/dialects/rerank/rerank_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxTexts = 2048;

using Texts = std::vector<std::string_view>;

// Returns the text of an element: a string, or an object with "text".
Result<std::string_view> text_of(std::string_view name, const json::value& value) {
  const json::value* text = &value;
  if (const json::object* object = value.if_object()) text = &at(*object, "text");
  if (text->is_string()) return view(text->get_string());
  return wrong_type(name, "made of strings or of objects with \"text\"", value);
}

// Returns the texts of a field: one, or those of an array.
Result<Texts> read_texts(std::string_view name, const json::value& value) {
  Texts texts;
  const json::array* array = value.if_array();
  if (!array) {
    TRY_ASSIGN(const std::string_view text, text_of(name, value));
    return Texts{text};
  }
  if (array->empty() || array->size() > kMaxTexts) {
    return refuse(
        name, fmt::format("{} holds {} texts, expected 1 to {}", name, array->size(), kMaxTexts));
  }
  for (const json::value& element : *array) {
    TRY_ASSIGN(const std::string_view text, text_of(name, element));
    texts.push_back(text);
  }
  return texts;
}

// Returns the name of the first of two fields that is there; the first name if neither is.
std::string_view either(const JsonFields& fields, std::string_view name, std::string_view other) {
  return !fields.find(name) && fields.find(other) ? other : name;
}

Result<Texts> read_needed_texts(const JsonFields& fields, std::string_view name) {
  if (const json::value* value = fields.find(name)) return read_texts(name, *value);
  return refuse(name, fmt::format("{} is missing", name));
}

// Reads what all requests of a call have in common.
Result<EmbeddingRequest> read_common(const JsonFields& fields, ScoreCall& call) {
  EmbeddingRequest common;
  common.pooling = Pooling::kRank;
  TRY_ASSIGN(common.model, fields.string("model"));
  TRY_ASSIGN(common.truncate_to, read_truncation(fields));
  TRY_ASSIGN(const auto is_raw, fields.flag("raw_scores"));
  call.is_raw = is_raw.value_or(false);
  CompletionRequest owner;
  TRY(read_cache_fields(fields, owner));
  TRY(read_user(fields, "user", owner));
  common.engine = std::move(owner.engine);
  return common;
}

// Adds one request per pair. `first` has one text for all of `second`, or one for each.
Result<void> add_pairs(const ServiceApi& service, const EmbeddingRequest& common,
                       const Texts& first, const Texts& second, ScoreCall& call) {
  if (service.card().n_labels > 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the model '{}' is a classifier with {} labels, expected a reranker, "
                            "which has one score",
                            service.card().id, service.card().n_labels),
                "model");
  }
  const size_t n_each = first.size() == 1 ? second.size() : 1;  // texts compared with one
  for (size_t i = 0; i < second.size(); i += n_each) {
    TRY_ASSIGN(auto pairs, service.pair_prompts(first.size() == 1 ? first.front() : first[i],
                                                std::span(second).subspan(i, n_each)));
    for (PairPrompt& pair : pairs) {
      call.call.requests.push_back(common);
      Request& request = call.call.requests.back().engine;
      request.prompt = std::move(pair.ids);
      request.second_segment = pair.second_segment;
      call.call.requests.back().n_end_tokens = pair.n_end_tokens;
    }
  }
  return {};
}

}  // namespace

Result<RerankCall> parse_rerank_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  RerankCall out;
  TRY_ASSIGN(EmbeddingRequest common, read_common(fields, out.scores));
  const json::value* query = fields.find("query");
  if (!query) return refuse("query", "query is missing");
  if (!query->is_string()) return wrong_type("query", "a string", *query);
  common.first_field = "query";
  out.is_list = !fields.find("documents") && fields.find("texts");
  TRY_ASSIGN(const Texts documents,
             read_needed_texts(fields, either(fields, "documents", "texts")));
  TRY_ASSIGN(out.top_n, read_positive(fields, "top_n"));
  TRY_ASSIGN(const auto returns_documents, fields.flag("return_documents"));
  TRY_ASSIGN(const auto returns_text, fields.flag("return_text"));
  if (returns_documents.value_or(returns_text.value_or(false))) {
    out.documents.assign(documents.begin(), documents.end());
  }
  TRY(add_pairs(service, common, {view(query->get_string())}, documents, out.scores));
  return out;
}

Result<ScoreCall> parse_score_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  ScoreCall out;
  TRY_ASSIGN(EmbeddingRequest common, read_common(fields, out));
  common.first_field = either(fields, "text_1", "queries");
  TRY_ASSIGN(const Texts first, read_needed_texts(fields, common.first_field));
  TRY_ASSIGN(const Texts second, read_needed_texts(fields, either(fields, "text_2", "documents")));
  if (first.size() != 1 && first.size() != second.size()) {
    return refuse("text_1", fmt::format("text_1 holds {} texts and text_2 holds {}, expected as "
                                        "many, or one text_1",
                                        first.size(), second.size()));
  }
  TRY(add_pairs(service, common, first, second, out));
  return out;
}

}  // namespace kvik
