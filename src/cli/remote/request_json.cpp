#include "cli/remote/request_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <variant>

#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

json::array messages_json(const ChatRequest& chat) {
  json::array messages;
  for (const Message& message : chat.messages) {
    messages.push_back({{"role", message.role}, {"content", text_of(message)}});
  }
  return messages;
}

// Adds the reasoning budget, and template variables that are true or false, as enable_thinking is.
void add_reasoning(const ChatRequest& chat, json::object& body) {
  json::object kwargs;
  for (const Json::Field& field : chat.kwargs) {
    if (field.data.is_bool()) kwargs[field.name] = field.data.is(Json::Kind::kTrue);
  }
  if (!kwargs.empty()) body["chat_template_kwargs"] = std::move(kwargs);
  if (chat.thinking.budget_tokens) body["reasoning_budget"] = *chat.thinking.budget_tokens;
}

std::string_view name_of(JsonStyle::Whitespace whitespace) {
  if (whitespace == JsonStyle::Whitespace::kCompact) return "compact";
  return whitespace == JsonStyle::Whitespace::kFlexible ? "flexible" : "spaced";
}

void add_form(const StructuredOutput& form, json::object& body) {
  using Kind = StructuredOutput::Kind;
  const std::string_view field = form.kind == Kind::kJsonSchema ? "json"
                                 : form.kind == Kind::kRegex    ? "regex"
                                                                : "grammar";
  body["structured_outputs"] = {{field, form.text}};
  json::object style{{"whitespace", name_of(form.style.whitespace)}};
  if (form.style.language) {
    const bool is_full = *form.style.language == JsonStyle::Language::kFull;
    style["schema_language"] = is_full ? "full" : "canonical";
  }
  body["kvik"] = std::move(style);
}

// Returns the fields that both routes have.
json::object common_json(const std::string& model, const CompletionRequest& request) {
  json::object body{
      {"model", model}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  for (const SamplingField& field : sampling_fields()) {
    std::visit([&](auto value) { body[field.name] = value; },
               value_of(field, request.engine.sampling));
  }
  if (request.seed) body["seed"] = *request.seed;
  if (!request.output.stop.empty()) {
    body["stop"] = json::array(request.output.stop.begin(), request.output.stop.end());
  }
  if (request.ignore_eos) body["ignore_eos"] = true;
  if (request.min_tokens > 0) body["min_tokens"] = request.min_tokens;
  if (request.output.return_token_ids) body["return_token_ids"] = true;
  if (request.form) add_form(*request.form, body);
  return body;
}

}  // namespace

std::string chat_body(const std::string& model, const ChatRequest& chat,
                      const CompletionRequest& request) {
  json::object body = common_json(model, request);
  body["messages"] = messages_json(chat);
  add_reasoning(chat, body);
  if (request.max_tokens) body["max_completion_tokens"] = *request.max_tokens;
  return json::serialize(body);
}

std::string completion_body(const std::string& model, const CompletionRequest& request) {
  json::object body = common_json(model, request);
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    body["prompt"] = *text;
  } else {
    const auto& ids = std::get<std::vector<TokenId>>(request.prompt);
    body["prompt"] = json::array(ids.begin(), ids.end());
  }
  if (request.max_tokens) {
    body["max_tokens"] = *request.max_tokens;
  } else {
    body["max_tokens"] = -1;  // until the context is full, which is not the route's default
  }
  return json::serialize(body);
}

std::string count_body(const std::string& model, const ChatRequest& chat) {
  json::object body{{"model", model},
                    {"messages", messages_json(chat)},
                    {"add_generation_prompt", chat.add_generation_prompt}};
  add_reasoning(chat, body);
  return json::serialize(body);
}

}  // namespace kvik
