#include "server/dialects/embeddings/embeddings_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxInputs = 2048;  // OpenAI's limit

using Ids = std::vector<TokenId>;

Result<Ids> read_one(const ServiceApi& service, const json::value& value) {
  if (value.is_array()) {
    TRY_ASSIGN(Ids ids, read_token_ids("input", value.get_array()));
    if (ids.empty()) return refuse("input", "a list of token ids in input is empty");
    return ids;
  }
  if (!value.is_string()) return wrong_type("input", "made of strings or arrays of ids", value);
  const std::string_view text = view(value.get_string());
  if (text.empty()) return refuse("input", "a text of input is empty");
  return service.tokenize(text, {.add_bos = true});
}

Result<std::vector<Ids>> read_input(const ServiceApi& service, const JsonFields& fields) {
  const json::value* value = fields.find("input");
  if (!value) return refuse("input", "input is missing");
  std::vector<Ids> inputs;
  const json::array* array = value->if_array();
  if (!array || (!array->empty() && array->front().is_number())) {
    TRY_ASSIGN(Ids ids, read_one(service, *value));
    inputs.push_back(std::move(ids));
    return inputs;
  }
  if (array->empty() || array->size() > kMaxInputs)
    return refuse("input",
                  fmt::format("input holds {} texts, expected 1 to {}", array->size(), kMaxInputs));
  for (const json::value& element : *array) {
    TRY_ASSIGN(Ids ids, read_one(service, element));
    inputs.push_back(std::move(ids));
  }
  return inputs;
}

Result<EmbeddingRequest::Pooling> read_pooling(const JsonFields& fields) {
  using Pooling = EmbeddingRequest::Pooling;
  TRY_ASSIGN(const auto given, fields.string("pooling"));
  const std::string name = given.value_or("mean");
  if (name == "mean") return Pooling::kMean;
  if (name == "last") return Pooling::kLast;
  return refuse("pooling", "pooling must be \"mean\" or \"last\"");
}

Result<EmbeddingsCall::Encoding> read_encoding(const JsonFields& fields) {
  using Encoding = EmbeddingsCall::Encoding;
  TRY_ASSIGN(const auto given, fields.string("encoding_format"));
  const std::string name = given.value_or("float");
  if (name == "float") return Encoding::kFloat;
  if (name == "base64") return Encoding::kBase64;
  return refuse("encoding_format", "encoding_format must be \"float\" or \"base64\"");
}

}  // namespace

Result<EmbeddingsCall> parse_embeddings_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  EmbeddingsCall call;
  EmbeddingRequest common;
  TRY_ASSIGN(common.model, fields.string("model"));
  TRY_ASSIGN(common.pooling, read_pooling(fields));
  TRY_ASSIGN(common.n_dims, fields.count<uint32_t>("dimensions"));
  TRY_ASSIGN(call.encoding, read_encoding(fields));
  CompletionRequest who;
  TRY(read_cache_fields(fields, who));
  TRY(read_user(fields, "user", who));
  common.engine = std::move(who.engine);
  TRY_ASSIGN(std::vector<Ids> inputs, read_input(service, fields));
  for (Ids& ids : inputs) {
    call.requests.push_back(common);
    call.requests.back().engine.prompt = std::move(ids);
  }
  return call;
}

}  // namespace kvik
