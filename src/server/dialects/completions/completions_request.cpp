#include "server/dialects/completions/completions_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/dialects/fill_in_middle.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxPrompts = 64;
constexpr uint64_t kDefaultMaxTokens = 16;  // OpenAI's default of this route

Result<CompletionPrompt> read_prompt_element(const json::value& value) {
  if (value.is_string()) return CompletionPrompt(std::string(view(value.get_string())));
  if (!value.is_array()) return wrong_type("prompt", "made of strings or arrays of ids", value);
  TRY_ASSIGN(auto ids, read_token_ids("prompt", value.get_array()));
  return CompletionPrompt(std::move(ids));
}

// Replaces the prompts, which precede the suffix.
Result<void> put_before(std::string_view suffix, const ServiceApi& service,
                        std::vector<CompletionPrompt>& prompts) {
  for (CompletionPrompt& prompt : prompts) {
    const auto* prefix = std::get_if<std::string>(&prompt);
    if (!prefix) return refuse("prompt", "prompt must be a string if there is a suffix");
    TRY_ASSIGN(auto ids,
               fill_in_middle_prompt(service, {.prefix = *prefix, .suffix = suffix}, "suffix"));
    prompt = std::move(ids);
  }
  return {};
}

}  // namespace

Result<std::vector<CompletionPrompt>> read_prompts(const JsonFields& fields) {
  std::vector<CompletionPrompt> prompts;
  const json::value* value = fields.find("prompt");
  if (!value) return refuse("prompt", "prompt is missing");
  if (value->is_string()) {
    prompts.emplace_back(std::string(view(value->get_string())));
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

Result<CompletionCall> parse_completions_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(CompletionCall call, read_call(fields));
  TRY(read_answer_format(fields, body.text, call));
  TRY(read_choices(fields, call));
  CompletionRequest common = std::move(call.requests.front());
  TRY_ASSIGN(const auto max_tokens, read_max_tokens(fields, "max_tokens"));
  common.max_tokens = max_tokens.value_or(kDefaultMaxTokens);
  TRY_ASSIGN(common.engine.n_logprobs, read_logprobs(fields, "logprobs"));
  TRY_ASSIGN(const auto echo, fields.flag("echo"));
  common.output.echo = echo.value_or(false);
  if (common.output.echo && common.output.attests)
    return refuse("kvik.attest", "kvik.attest is not supported with echo");
  TRY_ASSIGN(std::vector<CompletionPrompt> prompts, read_prompts(fields));
  TRY_ASSIGN(const auto suffix, fields.text("suffix"));
  if (suffix && common.output.echo) return refuse("echo", "echo is not supported with suffix");
  if (suffix) TRY(put_before(*suffix, service, prompts));
  call.requests.assign(prompts.size() - 1, common);  // copies nothing for a single prompt
  call.requests.push_back(std::move(common));
  for (size_t i = 0; i < prompts.size(); ++i) call.requests[i].prompt = std::move(prompts[i]);
  return call;
}

}  // namespace kvik
