#include "server/dialects/completions/completions_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/variant.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxPrompts = 64;
constexpr uint64_t kDefaultMaxTokens = 16;  // OpenAI's default of this route

using Prompt = Variant<std::string, std::vector<TokenId>>;

Result<Prompt> read_prompt_element(const json::value& value) {
  if (value.is_string()) return Prompt(std::string(view(value.get_string())));
  if (!value.is_array()) return wrong_type("prompt", "made of strings or arrays of ids", value);
  TRY_ASSIGN(auto ids, read_token_ids("prompt", value.get_array()));
  return Prompt(std::move(ids));
}

// Reads a string, ids, strings, or arrays of ids.
Result<std::vector<Prompt>> read_prompts(const JsonFields& fields) {
  std::vector<Prompt> prompts;
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

}  // namespace

Result<CompletionCall> parse_completions_call(const RequestBody& body) {
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
  TRY_ASSIGN(std::vector<Prompt> prompts, read_prompts(fields));
  call.requests.assign(prompts.size() - 1, common);  // copies nothing for a single prompt
  call.requests.push_back(std::move(common));
  for (size_t i = 0; i < prompts.size(); ++i) call.requests[i].prompt = std::move(prompts[i]);
  return call;
}

}  // namespace kvik
