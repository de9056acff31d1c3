#include "server/dialects/completion_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/form_fields.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/sampler_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

Result<std::string> read_stop(const json::value& value) {
  if (!value.is_string()) return wrong_type("stop", "a string or an array of strings", value);
  const json::string& text = value.get_string();
  if (text.empty()) return refuse("stop", "a stop string is empty");
  if (text.size() > RequestBounds::kStopBytes)
    return refuse("stop", fmt::format("a stop string has {} bytes, at most {} are allowed",
                                      text.size(), RequestBounds::kStopBytes));
  return std::string(view(text));
}

Result<std::vector<TokenId>> read_stop_tokens(const JsonFields& fields) {
  TRY_ASSIGN(const json::array* array, fields.list("stop_token_ids"));
  if (!array) return std::vector<TokenId>();
  if (array->size() > RequestBounds::kStopTokens)
    return refuse("stop_token_ids", fmt::format("stop_token_ids holds {} ids, at most {} are "
                                                "allowed",
                                                array->size(), RequestBounds::kStopTokens));
  return read_token_ids("stop_token_ids", *array);
}

// Reads any 64-bit integer. Only equal seeds must have equal values.
Result<std::optional<uint64_t>> read_seed(const JsonFields& fields) {
  const json::value* value = fields.find("seed");
  if (value && value->is_int64())
    return std::optional<uint64_t>(static_cast<uint64_t>(value->get_int64()));
  return fields.count<uint64_t>("seed");
}

Result<void> read_flag(const JsonFields& fields, std::string_view name, bool& out) {
  TRY_ASSIGN(const auto flag, fields.flag(name));
  if (flag) out = *flag;
  return {};
}

Result<uint32_t> read_n(const JsonFields& fields) {
  TRY_ASSIGN(const auto n, fields.count<uint32_t>("n"));
  TRY_ASSIGN(const auto best_of, fields.count<uint32_t>("best_of"));
  if (best_of && *best_of != n.value_or(1))
    return refuse("best_of",
                  fmt::format("best_of is {}, only n ({}) is supported", *best_of, n.value_or(1)));
  return n.value_or(1);
}

}  // namespace

Result<std::optional<uint64_t>> read_max_tokens(const JsonFields& fields, std::string_view name) {
  const json::value* value = fields.find(name);
  if (value && value->is_int64() && value->get_int64() == -1) return std::optional<uint64_t>();
  return fields.count<uint64_t>(name);
}

Result<std::vector<std::string>> read_stops(const json::value& value) {
  std::vector<std::string> stops;
  if (!value.is_array()) {
    TRY_ASSIGN(auto stop, read_stop(value));
    stops.push_back(std::move(stop));
    return stops;
  }
  const json::array& array = value.get_array();
  if (array.size() > RequestBounds::kStops)
    return refuse("stop", fmt::format("stop holds {} strings, at most {} are allowed", array.size(),
                                      RequestBounds::kStops));
  for (const json::value& element : array) {
    TRY_ASSIGN(auto stop, read_stop(element));
    stops.push_back(std::move(stop));
  }
  return stops;
}

Result<std::optional<uint32_t>> read_logprobs(const JsonFields& fields, std::string_view name) {
  TRY_ASSIGN(const auto logprobs, fields.count<uint32_t>(name));
  if (logprobs && *logprobs > RequestBounds::kLogprobs)
    return refuse(name, fmt::format("{} is {}, at most {} are given", name, *logprobs,
                                    RequestBounds::kLogprobs));
  return logprobs;
}

Result<CompletionCall> read_call(const JsonFields& fields) {
  CompletionCall call;
  TRY(read_flag(fields, "stream", call.is_stream));
  TRY_ASSIGN(call.explain_cache, wants_cache_explained(fields));
  TRY_ASSIGN(call.restores_answers, restores_answers(fields));
  TRY_ASSIGN(auto session, fields.string("prompt_cache_key"));
  call.session.id = std::move(session).value_or("");
  CompletionRequest& request = call.requests.emplace_back();
  TRY(read_samplers(fields, request));
  TRY(read_logit_bias(fields, request));
  TRY_ASSIGN(request.seed, read_seed(fields));
  TRY_ASSIGN(const auto min_tokens, fields.count<uint64_t>("min_tokens"));
  request.min_tokens = min_tokens.value_or(0);
  TRY_ASSIGN(request.engine.stop_tokens, read_stop_tokens(fields));
  TRY_ASSIGN(request.model, fields.string("model"));
  TRY(read_cache_fields(fields, request));
  TRY(read_flag(fields, "ignore_eos", request.ignore_eos));
  TRY_ASSIGN(const auto speculate, fields.flag("speculate"));
  if (speculate == false) request.engine.speculate = Request::Speculate::kOff;
  TRY(read_flag(fields, "return_token_ids", request.output.return_token_ids));
  TRY_ASSIGN(request.output.attests, wants_attestation(fields));
  if (request.output.attests) {
    if (call.is_stream) return refuse("kvik.attest", "kvik.attest is not supported in a stream");
    request.output.return_token_ids = true;
  }
  return call;
}

Result<void> read_answer_format(const JsonFields& fields, std::string_view body,
                                CompletionCall& call) {
  TRY_ASSIGN(const auto stream_options, fields.object("stream_options"));
  if (stream_options) TRY(read_flag(*stream_options, "include_usage", call.include_usage));
  TRY_ASSIGN(call.requests.front().form, read_answer_form(fields, body));
  return {};
}

Result<void> read_choices(const JsonFields& fields, CompletionCall& call) {
  CompletionRequest& request = call.requests.front();
  if (const json::value* stop = fields.find("stop")) {
    TRY_ASSIGN(request.output.stop, read_stops(*stop));
  }
  TRY_ASSIGN(request.n, read_n(fields));
  TRY_ASSIGN(request.output.n_prompt_logprobs, read_logprobs(fields, "prompt_logprobs"));
  if (call.is_stream && request.output.n_prompt_logprobs)
    return refuse("prompt_logprobs", "prompt_logprobs is not supported in a stream");
  return read_user(fields, "user", request);
}

}  // namespace kvik
