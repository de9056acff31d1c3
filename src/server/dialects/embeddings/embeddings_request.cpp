#include "server/dialects/embeddings/embeddings_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
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

Result<std::optional<Pooling>> read_pooling(const JsonFields& fields) {
  TRY_ASSIGN(const auto name, fields.string("pooling"));
  if (!name) return std::nullopt;
  if (*name == "mean") return Pooling::kMean;
  if (*name == "cls") return Pooling::kCls;
  if (*name == "last") return Pooling::kLast;
  if (*name == "rank") return Pooling::kRank;
  return refuse("pooling", "pooling must be \"mean\", \"cls\", \"last\" or \"rank\"");
}

// Reads llama.cpp's "embd_normalize": -1 (none), 0 (largest absolute value), or the p of a p-norm;
// and TEI's "normalize".
Result<EmbeddingRequest::Norm> read_norm(const JsonFields& fields) {
  using Norm = EmbeddingRequest::Norm;
  constexpr int32_t kMaxP = 64;
  TRY_ASSIGN(const auto normalizes, fields.flag("normalize"));
  TRY_ASSIGN(const auto p, fields.integer("embd_normalize"));
  if (!p) return Norm{.kind = normalizes.value_or(true) ? Norm::Kind::kP : Norm::Kind::kNone};
  if (*p < -1 || *p > kMaxP) {
    return refuse("embd_normalize",
                  fmt::format("embd_normalize is {}, expected -1 (none), 0 (largest absolute "
                              "value) or the p of a p-norm, 1 to {}",
                              *p, kMaxP));
  }
  if (*p == -1) return Norm{.kind = Norm::Kind::kNone};
  if (*p == 0) return Norm{.kind = Norm::Kind::kMaxInt16};
  return Norm{.kind = Norm::Kind::kP, .p = static_cast<double>(*p)};
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

Result<std::optional<uint32_t>> read_positive(const JsonFields& fields, std::string_view name) {
  const auto number = fields.count<uint32_t>(name);
  if (number && number->value_or(1) >= 1) return number;
  return refuse(name, fmt::format("{} is {}, expected an integer from 1 to {}", name,
                                  json::serialize(*fields.find(name)), UINT32_MAX));
}

Result<std::optional<uint32_t>> read_truncation(const JsonFields& fields) {
  TRY_ASSIGN(const auto truncates, fields.flag("truncate"));
  TRY_ASSIGN(const auto n_tokens, fields.integer("truncate_prompt_tokens"));
  if (!n_tokens) return truncates.value_or(false) ? std::optional<uint32_t>(0) : std::nullopt;
  if (*n_tokens == -1) return 0;
  if (*n_tokens >= 1) return static_cast<uint32_t>(*n_tokens);
  return refuse("truncate_prompt_tokens",
                fmt::format("truncate_prompt_tokens is {}, expected -1 (the context) or at least 1",
                            *n_tokens));
}

Result<EmbeddingsCall> parse_embeddings_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  EmbeddingsCall call;
  EmbeddingRequest common;
  TRY_ASSIGN(common.model, fields.string("model"));
  TRY_ASSIGN(common.pooling, read_pooling(fields));
  TRY_ASSIGN(common.n_dims, read_positive(fields, "dimensions"));
  TRY_ASSIGN(common.norm, read_norm(fields));
  TRY_ASSIGN(common.truncate_to, read_truncation(fields));
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
