#include "server/dialects/chat_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/keyed_hash.h"
#include "server/dialects/cache_fields.h"
#include "server/dialects/form_fields.h"
#include "server/dialects/sessions/session_name.h"
#include "service/request_bounds.h"
#include "service/tools/tool_call_grammar.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxTools = 1'024;
constexpr size_t kMaxKwargs = 64;
constexpr size_t kMaxMarks = 4;

// Reads {"type": "function", "function": {"name": …}} of chats, {"type": …, "name": …} of
// responses.
Result<std::string> read_tool_name(const json::object& tool) {
  std::string_view name = text_at(tool, "name");
  for (const std::string_view kind : {"function", "custom"}) {
    const json::value* inner = tool.if_contains(kind);
    if (inner && inner->is_object()) name = text_at(inner->get_object(), "name");
  }
  if (name.empty()) return refuse("tool_choice", "tool_choice must name a tool");
  return std::string(name);
}

// Reads {"type": "allowed_tools", "mode": "auto" | "required", "tools": […]} and returns the mode.
Result<std::string_view> read_allowed_tools(const json::object& choice, ChatRequest& chat) {
  const json::value* inner = choice.if_contains("allowed_tools");
  const json::object& allowed = inner && inner->is_object() ? inner->get_object() : choice;
  const json::value* tools = allowed.if_contains("tools");
  if (!tools || !tools->is_array())
    return refuse("tool_choice", "tool_choice.tools must be an array");
  const std::string_view mode = text_at(allowed, "mode");
  if (mode != "required") return mode;
  chat.forced.emplace();
  for (const json::value& tool : tools->get_array()) {
    if (!tool.is_object())
      return refuse("tool_choice", "tool_choice.tools must be an array of objects");
    TRY_ASSIGN(std::string name, read_tool_name(tool.get_object()));
    chat.forced->names.push_back(std::move(name));
  }
  return mode;
}

}  // namespace

Result<std::optional<Duration>> CacheMarks::read(const json::object& part) {
  TRY_ASSIGN(const auto ttl, read_cache_control(JsonFields(part)));
  if (ttl && ++n_ > kMaxMarks) {
    return refuse("cache_control",
                  fmt::format("more than {} parts have a cache_control", kMaxMarks));
  }
  return ttl;
}

Result<void> check_medium(std::string_view type, std::string_view param) {
  // Names of media types in OpenAI's chats, OpenAI's responses and Anthropic's messages.
  constexpr std::pair<std::string_view, std::string_view> kMedia[] = {
      {"image_url", "images"},  {"input_image", "images"}, {"image", "images"},
      {"input_audio", "audio"}, {"video_url", "videos"},   {"input_file", "files"},
      {"file", "files"}};
  for (const auto& [name, medium] : kMedia) {
    if (type != name) continue;
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} {} not supported; send text", medium, medium == "audio" ? "is" : "are"),
        std::string(param));
  }
  return {};
}

Result<std::vector<MessagePart>> read_texts(const json::value& content, const TextWords& words,
                                            CacheMarks& marks) {
  std::vector<MessagePart> parts;
  if (content.is_string()) {
    parts.push_back(TextPart{std::string(view(content.get_string()))});
    return parts;
  }
  if (!content.is_array()) return wrong_type(words.param, words.expected, content);
  for (const json::value& value : content.get_array()) {
    const json::object* part = value.if_object();
    if (!part && !words.made_of.empty()) return wrong_type(words.param, words.made_of, value);
    const json::value* text = part ? part->if_contains("text") : nullptr;
    const bool has_type = part && part->contains("type");
    const std::string_view type = has_type ? text_at(*part, "type") : "";
    const bool is_text =
        std::ranges::find(words.types, type) != words.types.end() && (!has_type || !type.empty());
    TRY(check_medium(type, words.param));
    if (!text || !text->is_string() || !is_text)
      return refuse(words.param, std::string(words.refusal));
    TRY_ASSIGN(const auto pin_ttl, marks.read(*part));
    parts.push_back(TextPart{std::string(view(text->get_string())), pin_ttl});
  }
  return parts;
}

Result<void> add_tool(const json::object& tool, Json shown, CacheMarks& marks, ChatRequest& chat) {
  TRY_ASSIGN(const auto pin_ttl, marks.read(tool));
  chat.tools_pin_ttl = std::max(chat.tools_pin_ttl, pin_ttl);
  const json::value* function = tool.if_contains("function");
  const json::object& inner = function && function->is_object() ? function->get_object() : tool;
  const json::value* strict = inner.if_contains("strict");
  if (strict && strict->is_bool() && strict->get_bool()) {
    chat.strict.emplace(text_at(inner, "name"));
  }
  chat.tools.push_back(std::move(shown));
  return {};
}

Result<void> check_n_messages(size_t n) {
  if (n == 0) return refuse("messages", "messages is missing or empty");
  if (n <= RequestBounds::kMessages) return {};
  return refuse("messages", fmt::format("messages holds {} messages, at most {} are allowed", n,
                                        RequestBounds::kMessages));
}

Result<void> check_n_tools(size_t n) {
  if (n <= kMaxTools) return {};
  return refuse("tools", fmt::format("tools holds {} tools, at most {} are allowed", n, kMaxTools));
}

Result<void> read_tool_choice(const JsonFields& fields, ChatRequest& chat) {
  const json::value* choice = fields.find("tool_choice");
  if (!choice) return {};
  std::string_view mode;
  if (const json::string* word = choice->if_string()) mode = view(*word);
  if (const json::object* object = choice->if_object()) {
    const std::string_view type = text_at(*object, "type");
    if (type == "allowed_tools") {
      TRY_ASSIGN(mode, read_allowed_tools(*object, chat));
    } else {
      TRY_ASSIGN(std::string name, read_tool_name(*object));
      chat.forced = ForcedCalls{.names = {std::move(name)}, .is_one = true};
      return {};
    }
  }
  chat.forbids_calls = mode == "none";
  if (mode == "required" && !chat.forced) chat.forced.emplace();
  if (mode == "auto" || mode == "none" || mode == "required") return {};
  return refuse("tool_choice",
                "tool_choice must be \"auto\", \"none\", \"required\" or name a tool");
}

Result<void> read_parallel_calls(const JsonFields& fields, CompletionCall& call) {
  TRY_ASSIGN(const auto parallel, fields.flag("parallel_tool_calls"));
  if (parallel.value_or(true)) return {};
  for (CompletionRequest& request : call.requests) request.output.max_calls = 1;
  return {};
}

Result<void> read_thinking(const JsonFields& fields, ChatRequest& chat) {
  TRY_ASSIGN(chat.thinking.effort, fields.string("reasoning_effort"));
  TRY_ASSIGN(chat.thinking.is_enabled, fields.flag("enable_thinking"));
  TRY_ASSIGN(const auto reasoning, fields.object("reasoning"));
  if (reasoning) {
    TRY_ASSIGN(const auto effort, reasoning->string("effort"));
    if (effort) chat.thinking.effort = effort;
    TRY_ASSIGN(const auto enabled, reasoning->flag("enabled"));
    if (enabled) chat.thinking.is_enabled = enabled;
    TRY_ASSIGN(chat.thinking.budget_tokens, reasoning->count<uint64_t>("max_tokens"));
  }
  for (const char* name : {"thinking_budget", "thinking_token_budget", "reasoning_budget"}) {
    if (!chat.thinking.budget_tokens) {
      TRY_ASSIGN(chat.thinking.budget_tokens, fields.count<uint64_t>(name));
    }
  }
  const json::value* thinking = fields.find("thinking");
  if (thinking && thinking->is_bool()) chat.thinking.is_enabled = thinking->get_bool();
  if (!thinking || thinking->is_bool()) return {};
  if (!thinking->is_object()) return wrong_type("thinking", "an object", *thinking);
  const JsonFields inner(thinking->get_object(), "thinking");
  const std::string_view type = text_at(thinking->get_object(), "type");
  if (type == "enabled") chat.thinking.is_enabled = true;
  if (type == "disabled") chat.thinking.is_enabled = false;
  TRY_ASSIGN(const auto budget, inner.count<uint64_t>("budget_tokens"));
  if (budget) chat.thinking.budget_tokens = budget;
  if (type == "enabled" || type == "disabled" || type == "adaptive") return {};
  return refuse("thinking.type", "thinking.type must be \"enabled\", \"disabled\" or \"adaptive\"");
}

Result<void> read_template_options(const JsonFields& fields, ChatRequest& chat) {
  TRY_ASSIGN(chat.style, read_json_style(fields));
  TRY_ASSIGN(const auto kwargs, fields.object("chat_template_kwargs"));
  if (!kwargs) return {};
  if (kwargs->all().size() > kMaxKwargs) {
    return refuse("chat_template_kwargs",
                  fmt::format("chat_template_kwargs holds {} names, at most {} are allowed",
                              kwargs->all().size(), kMaxKwargs));
  }
  // Arguments of the function that renders in Transformers, not variables of a template.
  for (const char* name : {"chat_template", "tokenize"}) {
    if (!kwargs->find(name)) continue;
    return refuse("chat_template_kwargs",
                  fmt::format("chat_template_kwargs holds '{}', expected variables of the model's "
                              "template; only --chat-template replaces the template",
                              name));
  }
  chat.kwargs = std::get<Json::Fields>(owned_json(kwargs->all()).value);
  return {};
}

namespace {

// Returns the owner of the answers of this client: another user, salt or adapter has others.
AnswerOwner owner_of(std::string_view client, const CompletionRequest& request) {
  Sha256 hash;
  hash.add_text(request.engine.tenant);
  hash.add_text(request.engine.cache_salt);
  hash.add_text(request.model.value_or(""));
  return {.client = std::string(client), .scope = std::string(as_text(hash.finish()))};
}

bool is_json_form(const StructuredOutput& form) {
  return form.kind == StructuredOutput::Kind::kJsonObject ||
         form.kind == StructuredOutput::Kind::kJsonSchema;
}

// Constrains an answer with forced tool calls, or with calls that must match their schemas; if the
// answer itself is constrained to JSON, either may occur. Another kind of constraint is unchanged.
Result<void> constrain_calls(const ChatRequest& chat, CompletionRequest& request) {
  AnswerSyntax& syntax = request.output.answer_syntax;
  // Forced calls are in markup, and JSON that the request asks for is not a call.
  if (chat.forced || request.form) syntax.reads_bare_calls = false;
  const bool is_other = request.form && !is_json_form(*request.form);
  const bool may_call = !chat.tools.empty() && !syntax.calls.empty();
  // Tags of a structural tag may be spelled with the tokens that the model has for calls.
  const bool is_tag = is_other && request.form->kind == StructuredOutput::Kind::kRules;
  if (is_tag && may_call && !syntax.has_channels) request.form->marks = syntax.shown_tokens;
  const bool is_wanted = !chat.strict.empty() || request.form;
  if (!chat.forced && (is_other || !may_call || !is_wanted)) return {};
  ToolCallRequirements requirements{.tools = chat.tools,
                                    .strict = chat.strict,
                                    .forced = chat.forced,
                                    .other = chat.forced ? std::nullopt : request.form,
                                    .style = chat.style,
                                    .syntax = syntax.call_syntax,
                                    .formats = syntax.calls};
  const bool has_one = !syntax.calls.empty() && syntax.calls.front()->has_one_call;
  const bool is_one = chat.forced && chat.forced->is_one;
  requirements.may_be_several = request.output.max_calls != 1 && !has_one && !is_one;
  TRY_ASSIGN(ToolCallGrammar made, tool_call_grammar(requirements));
  if (!made.form) return {};
  request.form = std::move(made.form);
  request.form->marks = syntax.shown_tokens;
  if (!chat.forced) return {};
  if (!requirements.may_be_several)
    request.output.max_calls.reset();  // the constraint ends after the call
  if (!made.is_hermes) return {};
  syntax.calls = {&hermes_format()};
  syntax.has_channels = false;
  return {};
}

}  // namespace

Result<CompletionCall> with_prompt(const ServiceApi& service, ChatRequest chat,
                                   std::string_view client, CompletionCall call) {
  CompletionRequest& request = call.requests.front();
  if (call.restores_answers && !client.empty()) chat.owner = owner_of(client, request);
  TRY_ASSIGN(ChatPrompt prompt, service.chat_prompt(chat));
  call.session = session_name(call.session.id, chat);
  request.prompt = std::move(prompt.ids);
  request.engine.pins = std::move(prompt.pins);
  if (prompt.last_message_end) request.engine.message_ends = {*prompt.last_message_end};
  request.output.answer_begin = prompt.answer_begin;
  request.output.answer_syntax = std::move(prompt.answer_syntax);
  request.output.reasoning_budget = prompt.reasoning_budget;
  request.n_restored = prompt.n_restored;
  request.origin = std::move(prompt.origin);
  TRY(constrain_calls(chat, request));
  return call;
}

}  // namespace kvik
