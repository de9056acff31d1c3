#include "server/dialects/completion_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <charconv>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/json_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxPrompts = 64;
constexpr uint64_t kDefaultMaxTokens = 16;  // OpenAI's, of this route

using Prompt = std::variant<std::string, std::vector<TokenId>>;

std::unexpected<Error> refuse(std::string_view param, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::string(param));
}

std::string to_string(const json::string& text) { return {text.data(), text.size()}; }

Result<Prompt> read_prompt_element(const json::value& value) {
  if (value.is_string()) return Prompt(to_string(value.get_string()));
  if (!value.is_array()) return wrong_type("prompt", "made of strings or arrays of ids", value);
  TRY_ASSIGN(auto ids, read_token_ids("prompt", value.get_array()));
  return Prompt(std::move(ids));
}

// A string, ids, strings, or arrays of ids.
Result<std::vector<Prompt>> read_prompts(const JsonFields& fields) {
  std::vector<Prompt> prompts;
  const json::value* value = fields.find("prompt");
  if (!value) return refuse("prompt", "prompt is missing");
  if (value->is_string()) {
    prompts.emplace_back(to_string(value->get_string()));
    return prompts;
  }
  if (!value->is_array()) return wrong_type("prompt", "a string or an array", *value);
  const json::array& array = value->get_array();
  if (array.empty()) return refuse("prompt", "prompt is an empty array");
  if (array.front().is_number()) {
    TRY_ASSIGN(auto ids, read_token_ids("prompt", array));
    prompts.emplace_back(std::move(ids));
    return prompts;
  }
  if (array.size() > kMaxPrompts)
    return refuse("prompt", fmt::format("prompt holds {} prompts, one request may hold {}",
                                        array.size(), kMaxPrompts));
  for (const json::value& element : array) {
    TRY_ASSIGN(auto prompt, read_prompt_element(element));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<std::string> read_stop(const json::value& value) {
  if (!value.is_string()) return wrong_type("stop", "a string or an array of strings", value);
  const json::string& text = value.get_string();
  if (text.empty()) return refuse("stop", "a stop string is empty");
  if (text.size() > RequestBounds::kStopBytes)
    return refuse("stop", fmt::format("a stop string has {} bytes, at most {} are allowed",
                                      text.size(), RequestBounds::kStopBytes));
  return to_string(text);
}

Result<std::vector<std::string>> read_stops(const JsonFields& fields) {
  std::vector<std::string> stops;
  const json::value* value = fields.find("stop");
  if (!value) return stops;
  if (!value->is_array()) {
    TRY_ASSIGN(auto stop, read_stop(*value));
    stops.push_back(std::move(stop));
    return stops;
  }
  const json::array& array = value->get_array();
  if (array.size() > RequestBounds::kStops)
    return refuse("stop", fmt::format("stop holds {} strings, at most {} are allowed", array.size(),
                                      RequestBounds::kStops));
  for (const json::value& element : array) {
    TRY_ASSIGN(auto stop, read_stop(element));
    stops.push_back(std::move(stop));
  }
  return stops;
}

Result<std::vector<TokenId>> read_stop_tokens(const JsonFields& fields) {
  TRY_ASSIGN(const auto array, fields.array("stop_token_ids"));
  if (!array) return std::vector<TokenId>();
  if ((*array)->size() > RequestBounds::kStopTokens)
    return refuse("stop_token_ids", fmt::format("stop_token_ids holds {} ids, at most {} are "
                                                "allowed",
                                                (*array)->size(), RequestBounds::kStopTokens));
  return read_token_ids("stop_token_ids", **array);
}

std::optional<TokenId> parse_token_id(std::string_view text) {
  TokenId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return id;
}

Result<std::vector<std::pair<TokenId, float>>> read_logit_bias(const JsonFields& fields) {
  std::vector<std::pair<TokenId, float>> biases;
  TRY_ASSIGN(const auto object, fields.object("logit_bias"));
  if (!object) return biases;
  if ((*object)->size() > RequestBounds::kBiases)
    return refuse("logit_bias", fmt::format("logit_bias holds {} entries, at most {} are allowed",
                                            (*object)->size(), RequestBounds::kBiases));
  for (const auto& entry : **object) {
    const auto id = parse_token_id({entry.key().data(), entry.key().size()});
    if (!id) return refuse("logit_bias", "logit_bias has a key that is no token id");
    const auto bias = as_finite(entry.value());
    if (!bias || *bias < -RequestBounds::kBias || *bias > RequestBounds::kBias)
      return refuse("logit_bias", "logit_bias must map token ids to numbers from -100 to 100");
    biases.emplace_back(*id, static_cast<float>(*bias));
  }
  return biases;
}

// Any 64-bit whole number; what matters is that the same one gives the same tokens.
Result<std::optional<uint64_t>> read_seed(const JsonFields& fields) {
  const json::value* value = fields.find("seed");
  if (value && value->is_int64())
    return std::optional<uint64_t>(static_cast<uint64_t>(value->get_int64()));
  return fields.count<uint64_t>("seed");
}

// 0 and -1 both mean "off" among the local servers.
Result<uint32_t> read_top_k(const JsonFields& fields) {
  const json::value* value = fields.find("top_k");
  if (value && value->is_int64() && value->get_int64() == -1) return 0u;
  TRY_ASSIGN(const auto top_k, fields.count<uint32_t>("top_k"));
  return top_k.value_or(0);
}

Result<void> read_number(const JsonFields& fields, std::string_view name, float& out) {
  TRY_ASSIGN(const auto number, fields.number(name));
  if (number) out = *number;
  return {};
}

Result<void> read_flag(const JsonFields& fields, std::string_view name, bool& out) {
  TRY_ASSIGN(const auto flag, fields.boolean(name));
  if (flag) out = *flag;
  return {};
}

Result<SamplingParams> read_sampling(const JsonFields& fields) {
  SamplingParams sampling;
  TRY(read_number(fields, "temperature", sampling.temperature));
  TRY(read_number(fields, "top_p", sampling.top_p));
  TRY(read_number(fields, "min_p", sampling.min_p));
  TRY(read_number(fields, "presence_penalty", sampling.presence_penalty));
  TRY(read_number(fields, "frequency_penalty", sampling.frequency_penalty));
  TRY(read_number(fields, "repetition_penalty", sampling.repetition_penalty));
  TRY_ASSIGN(sampling.top_k, read_top_k(fields));
  TRY_ASSIGN(sampling.logit_bias, read_logit_bias(fields));
  return sampling;
}

Result<std::optional<uint32_t>> read_logprobs(const JsonFields& fields, std::string_view name) {
  TRY_ASSIGN(const auto logprobs, fields.count<uint32_t>(name));
  if (logprobs && *logprobs > RequestBounds::kLogprobs)
    return refuse(name, fmt::format("{} is {}, at most {} are given", name, *logprobs,
                                    RequestBounds::kLogprobs));
  return logprobs;
}

Result<uint32_t> read_n(const JsonFields& fields) {
  TRY_ASSIGN(const auto n, fields.count<uint32_t>("n"));
  TRY_ASSIGN(const auto best_of, fields.count<uint32_t>("best_of"));
  if (best_of && *best_of != n.value_or(1))
    return refuse("best_of",
                  fmt::format("best_of is {}, only n ({}) is supported", *best_of, n.value_or(1)));
  return n.value_or(1);
}

// These change what is computed or who may see it: to ignore them would be a lie.
Result<void> refuse_unsupported(const JsonFields& fields) {
  constexpr std::array<std::string_view, 8> kUnsupported = {
      "suffix",       "grammar",       "json_schema",    "guided_json",
      "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"};
  for (const std::string_view name : kUnsupported)
    if (fields.find(name))
      return fail(ErrorCode::kUnsupported, fmt::format("{} is not supported", name),
                  std::string(name));
  TRY_ASSIGN(const auto format, fields.object("response_format"));
  if (!format) return {};
  TRY_ASSIGN(const auto type, JsonFields(**format).string("type"));
  if (type != "text")
    return fail(ErrorCode::kUnsupported, "response_format other than text is not supported",
                "response_format");
  return {};
}

// All but the prompt.
Result<CompletionRequest> read_request(const JsonFields& fields) {
  CompletionRequest request;
  TRY_ASSIGN(request.sampling, read_sampling(fields));
  TRY_ASSIGN(request.seed, read_seed(fields));
  TRY_ASSIGN(const auto max_tokens, fields.count<uint64_t>("max_tokens"));
  request.max_tokens = max_tokens.value_or(kDefaultMaxTokens);
  TRY_ASSIGN(const auto min_tokens, fields.count<uint64_t>("min_tokens"));
  request.min_tokens = min_tokens.value_or(0);
  TRY_ASSIGN(request.stop, read_stops(fields));
  TRY_ASSIGN(request.stop_token_ids, read_stop_tokens(fields));
  TRY_ASSIGN(request.n, read_n(fields));
  TRY_ASSIGN(request.n_logprobs, read_logprobs(fields, "logprobs"));
  TRY_ASSIGN(request.n_prompt_logprobs, read_logprobs(fields, "prompt_logprobs"));
  TRY_ASSIGN(request.model, fields.string("model"));
  TRY(read_cache_fields(fields, request));
  TRY(read_flag(fields, "ignore_eos", request.ignore_eos));
  TRY(read_flag(fields, "echo", request.echo));
  TRY(read_flag(fields, "return_token_ids", request.return_token_ids));
  return request;
}

}  // namespace

Result<CompletionCall> read_common_call(const json::object& object) {
  const JsonFields fields(object);
  CompletionCall call;
  TRY(refuse_unsupported(fields));
  TRY(read_flag(fields, "stream", call.is_stream));
  TRY_ASSIGN(const auto stream_options, fields.object("stream_options"));
  if (stream_options)
    TRY(read_flag(JsonFields(**stream_options, "stream_options"), "include_usage",
                  call.include_usage));
  TRY_ASSIGN(call.explain_cache, wants_cache_explained(fields));
  TRY_ASSIGN(CompletionRequest common, read_request(fields));
  if (call.is_stream && common.n_prompt_logprobs)
    return refuse("prompt_logprobs", "prompt_logprobs are not to be had in a stream");
  call.requests.push_back(std::move(common));
  return call;
}

Result<CompletionCall> parse_completion_call(std::string_view body) {
  TRY_ASSIGN(const json::object object, parse_json_object(body));
  TRY_ASSIGN(CompletionCall call, read_common_call(object));
  const CompletionRequest common = std::move(call.requests.front());
  call.requests.clear();
  TRY_ASSIGN(std::vector<Prompt> prompts, read_prompts(JsonFields(object)));
  for (Prompt& prompt : prompts) {
    call.requests.push_back(common);
    call.requests.back().prompt = std::move(prompt);
  }
  return call;
}

}  // namespace kvik
