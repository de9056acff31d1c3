#include "server/dialects/llama_cpp/native_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/dialects/cache_fields.h"
#include "server/dialects/completions/completions_request.h"
#include "server/dialects/fill_in_middle.h"
#include "server/dialects/form_fields.h"
#include "server/dialects/sampler_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxFiles = 256;

// llama.cpp's defaults.
constexpr float kTemperature = 0.8f;
constexpr uint32_t kTopK = 40;
constexpr float kTopP = 0.95f;
constexpr float kMinP = 0.05f;
constexpr uint32_t kRepeatLastN = 64;

// Reads everything but the prompt.
Result<CompletionCall> read_native_call(const JsonFields& fields, std::string_view body) {
  CompletionCall call;
  TRY_ASSIGN(const auto stream, fields.flag("stream"));
  call.is_stream = stream.value_or(false);
  CompletionRequest& request = call.requests.emplace_back();
  request.engine.sampling = {.temperature = kTemperature,
                             .top_k = kTopK,
                             .top_p = kTopP,
                             .min_p = kMinP,
                             .penalty_last_n = kRepeatLastN};
  TRY(read_samplers(fields, request, "repeat_penalty"));
  TRY(read_logit_bias(fields, request));
  if (!is_below(fields, "seed", 0)) {
    TRY_ASSIGN(request.seed, fields.count<uint64_t>("seed"));
  }
  if (!is_below(fields, "n_predict", 0)) {
    TRY_ASSIGN(request.max_tokens, fields.count<uint64_t>("n_predict"));
  }
  if (const json::value* stop = fields.find("stop")) {
    TRY_ASSIGN(request.output.stop, read_stops(*stop));
  }
  TRY_ASSIGN(const auto ignores, fields.flag("ignore_eos"));
  request.ignore_eos = ignores.value_or(false);
  TRY_ASSIGN(const auto n_probs, read_logprobs(fields, "n_probs"));
  if (n_probs.value_or(0) > 0) request.engine.n_logprobs = n_probs;
  TRY_ASSIGN(const auto tokens, fields.flag("return_tokens"));
  request.output.return_token_ids = tokens.value_or(false) || request.engine.n_logprobs;
  TRY_ASSIGN(request.model, fields.string("model"));
  TRY(read_cache_fields(fields, request));
  TRY_ASSIGN(request.output.attests, wants_attestation(fields));
  TRY_ASSIGN(request.form, read_answer_form(fields, body));
  return call;
}

// Reads `input_extra`, which refers to the body.
Result<std::vector<ContextFile>> read_files(const JsonFields& fields) {
  std::vector<ContextFile> files;
  TRY_ASSIGN(const json::array* extra, fields.list("input_extra"));
  if (extra && extra->size() > kMaxFiles)
    return refuse("input_extra", fmt::format("input_extra holds {} files, at most {} are allowed",
                                             extra->size(), kMaxFiles));
  for (size_t i = 0; extra && i < extra->size(); ++i) {
    const json::object* file = extra->at(i).if_object();
    const json::value* text = file ? file->if_contains("text") : nullptr;
    const json::value* name = file ? file->if_contains("filename") : nullptr;
    if (!text || !text->is_string() || (name && !name->is_string()))
      return refuse("input_extra",
                    fmt::format("input_extra[{}] must be an object with the strings \"text\" and, "
                                "if given, \"filename\"",
                                i));
    files.push_back({.name = text_at(*file, "filename"), .text = view(text->get_string())});
  }
  return files;
}

}  // namespace

Result<CompletionCall> parse_native_call(const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(CompletionCall call, read_native_call(fields, body.text));
  TRY_ASSIGN(std::vector<CompletionPrompt> prompts, read_prompts(fields));
  if (prompts.size() > 1) return refuse("prompt", "prompt must be a string or token ids");
  call.requests.front().prompt = std::move(prompts.front());
  return call;
}

Result<CompletionCall> parse_infill_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(CompletionCall call, read_native_call(fields, body.text));
  TRY_ASSIGN(const auto prefix, fields.text("input_prefix"));
  TRY_ASSIGN(const auto suffix, fields.text("input_suffix"));
  TRY_ASSIGN(const auto begun, fields.text("prompt"));
  if (!prefix) return refuse("input_prefix", "input_prefix is missing");
  if (!suffix) return refuse("input_suffix", "input_suffix is missing");
  TRY_ASSIGN(const auto files, read_files(fields));
  TRY_ASSIGN(call.requests.front().prompt,
             fill_in_middle_prompt(service,
                                   {.prefix = *prefix,
                                    .suffix = *suffix,
                                    .begun = begun ? std::string_view(*begun) : std::string_view(),
                                    .files = files},
                                   "/infill"));
  return call;
}

}  // namespace kvik
