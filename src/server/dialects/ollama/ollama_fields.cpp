#include "server/dialects/ollama/ollama_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/chat_fields.h"
#include "server/dialects/form_fields.h"
#include "server/dialects/keep_alive.h"
#include "server/dialects/sampler_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Ollama's defaults. Its repeat_penalty of 1.1 would harm code and tool calls, so that it is off by
// default.
constexpr float kTemperature = 0.8f;
constexpr uint32_t kTopK = 40;
constexpr float kTopP = 0.9f;
constexpr uint32_t kRepeatLastN = 64;

Result<void> read_sampling_options(const JsonFields& options, CompletionRequest& request) {
  TRY(read_samplers(options, request, "repeat_penalty"));
  TRY(read_logit_bias(options, request));
  SamplingParams& sampling = request.engine.sampling;
  // Only the most likely token is within a top_p of 0.
  if (sampling.top_p == 0) {
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  return {};
}

}  // namespace

Result<void> read_options(const JsonFields& fields, CompletionRequest& request) {
  SamplingParams& sampling = request.engine.sampling;
  sampling.temperature = kTemperature;
  sampling.top_k = kTopK;
  sampling.top_p = kTopP;
  sampling.penalty_last_n = kRepeatLastN;
  TRY_ASSIGN(const auto options, fields.object("options"));
  if (!options) return {};
  TRY(read_sampling_options(*options, request));
  // A negative seed is a random one, and num_predict below 1 is no limit.
  if (!is_below(*options, "seed", 0)) {
    TRY_ASSIGN(request.seed, options->count<uint64_t>("seed"));
  }
  if (!is_below(*options, "num_predict", 1)) {
    TRY_ASSIGN(request.max_tokens, options->count<uint64_t>("num_predict"));
  }
  if (const json::value* stop = options->find("stop")) {
    TRY_ASSIGN(request.output.stop, read_stops(*stop));
  }
  return {};
}

Result<bool> is_keep_alive_zero(const JsonFields& fields) {
  const json::value* value = fields.find("keep_alive");
  if (!value) return false;
  const auto seconds = keep_alive_seconds(*value);
  if (seconds) return *seconds == 0;
  return refuse("keep_alive",
                "keep_alive must be a number of seconds or a duration such as \"5m\" or \"-1\"");
}

Result<ReasoningOptions> read_think(const JsonFields& fields) {
  constexpr std::string_view kEfforts[] = {"low", "medium", "high", "max"};
  ReasoningOptions out;
  const json::value* think = fields.find("think");
  const json::string* word = think ? think->if_string() : nullptr;
  if (!think || (word && word->empty())) return out;
  if (think->is_bool()) {
    out.is_enabled = think->get_bool();
    return out;
  }
  if (!word || std::ranges::find(kEfforts, view(*word)) == std::end(kEfforts)) {
    return refuse("think", "think must be true, false, \"low\", \"medium\", \"high\" or \"max\"");
  }
  out.is_enabled = true;
  out.effort = std::string(view(*word));
  return out;
}

Result<std::optional<uint32_t>> read_ollama_logprobs(const JsonFields& fields) {
  TRY_ASSIGN(const auto wants, fields.flag("logprobs"));
  TRY_ASSIGN(const auto n_top, read_logprobs(fields, "top_logprobs"));
  if (!wants.value_or(false)) return std::optional<uint32_t>();
  return std::optional<uint32_t>(n_top.value_or(0));
}

Result<void> check_no_images(const JsonFields& fields) {
  TRY_ASSIGN(const json::array* images, fields.list("images"));
  if (!images || images->empty()) return {};
  return check_medium("image", "images");
}

// Refuses the constraints of other dialects, which would not hold.
Result<void> check_no_other_forms(const JsonFields& fields) {
  for (const char* name : {"response_format", "structured_outputs", "guided_json", "guided_regex",
                           "guided_choice", "guided_grammar", "json_schema", "grammar"}) {
    if (fields.find(name)) {
      return refuse(name,
                    fmt::format("{} is not read here: use format, \"json\" or a schema", name));
    }
  }
  return {};
}

Result<CompletionCall> read_ollama_call(const JsonFields& fields, std::string_view body) {
  CompletionCall call;
  call.holds_calls = true;
  TRY_ASSIGN(const auto stream, fields.flag("stream"));
  call.is_stream = stream.value_or(true);
  TRY_ASSIGN(call.explain_cache, wants_cache_explained(fields));
  TRY_ASSIGN(call.restores_answers, restores_answers(fields));
  CompletionRequest& request = call.requests.emplace_back();
  TRY(read_cache_fields(fields, request));
  TRY_ASSIGN(request.output.attests, wants_attestation(fields));
  if (fields.find("logit_bias")) {
    return refuse("logit_bias", "logit_bias is not read here: put it into options");
  }
  TRY(check_no_other_forms(fields));
  TRY(read_options(fields, request));
  TRY_ASSIGN(request.engine.n_logprobs, read_ollama_logprobs(fields));
  TRY_ASSIGN(request.form, read_format_form(fields, body));
  return call;
}

}  // namespace kvik
