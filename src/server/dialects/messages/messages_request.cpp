#include "server/dialects/messages/messages_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/chat_fields.h"
#include "server/dialects/form_fields.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/messages/messages_conversation.h"
#include "server/dialects/sessions/session_name.h"

namespace kvik {
namespace {

namespace json = boost::json;

bool is_absent(const json::object& object, std::string_view name) {
  return at(object, name).is_null();
}

// Returns {"type": "function", "function": {"name": …, "description": …, "parameters": …}}.
Json function_of(const json::object& tool) {
  Json::Fields function = {{"name", owned_json(at(tool, "name"))}};
  if (!is_absent(tool, "description"))
    function.emplace_back("description", owned_json(at(tool, "description")));
  function.emplace_back("parameters", owned_json(at(tool, "input_schema")));
  return {Json::Fields{{"type", {"function"}}, {"function", {std::move(function)}}}};
}

// Returns whether the tool has a type of a vendor and no schema: only the vendor knows its
// arguments.
bool is_vendor_tool(const json::object& tool) {
  const std::string_view type = text_at(tool, "type");
  const bool is_ours = type.empty() || type == "custom" || type == "function";
  return !is_ours && is_absent(tool, "input_schema");
}

// A stream has whole calls, because Anthropic's client completes JSON that breaks off, unless a
// tool asks for arguments as they arrive.
Result<void> read_tools(const json::value& tools, CacheMarks& marks, ChatRequest& chat,
                        CompletionCall& call) {
  call.holds_calls = true;
  if (tools.is_null()) return {};
  if (!tools.is_array()) return wrong_type("tools", "an array of objects", tools);
  TRY(check_n_tools(tools.get_array().size()));
  for (const json::value& value : tools.get_array()) {
    if (!value.is_object()) return wrong_type("tools", "an array of objects", value);
    const json::object& tool = value.get_object();
    if (is_vendor_tool(tool)) {
      call.left_out.emplace_back(text_at(tool, "type"));
      continue;
    }
    if (at(tool, "eager_input_streaming") == true) call.holds_calls = false;
    if (text_at(tool, "name").empty()) return refuse("tools", "a tool has no name");
    TRY(add_tool(tool, function_of(tool), marks, chat));
  }
  return {};
}

// "none" forbids calls, "any" and "tool" force one.
Result<void> read_choice(const JsonFields& fields, ChatRequest& chat, CompletionRequest& request) {
  TRY_ASSIGN(const auto choice, fields.object("tool_choice"));
  if (!choice) return {};
  TRY_ASSIGN(const auto one, choice->flag("disable_parallel_tool_use"));
  if (one.value_or(false)) request.output.max_calls = 1;
  const std::string_view type = text_at(choice->all(), "type");
  chat.forbids_calls = type == "none";
  if (type == "any") chat.forced.emplace();
  if (type == "tool") {
    chat.forced =
        ForcedCalls{.names = {std::string(text_at(choice->all(), "name"))}, .is_one = true};
  }
  if (type == "auto" || type == "none" || type == "any" || type == "tool") return {};
  return refuse("tool_choice", "tool_choice.type must be \"auto\", \"any\", \"tool\" or \"none\"");
}

// Reads "output_config": {"effort": …} in addition to the common fields.
Result<void> read_effort(const JsonFields& fields, ChatRequest& chat) {
  TRY(read_thinking(fields, chat));
  TRY_ASSIGN(const auto config, fields.object("output_config"));
  if (!config) return {};
  TRY_ASSIGN(const auto effort, config->string("effort"));
  if (effort) chat.thinking.effort = effort;
  return {};
}

Result<ChatRequest> read_conversation(const JsonFields& fields, std::string_view model,
                                      CompletionCall& call) {
  ChatRequest chat;
  CacheMarks marks;
  TRY(read_tools(at(fields.all(), "tools"), marks, chat, call));
  TRY(read_choice(fields, chat, call.requests.front()));
  TRY_ASSIGN(chat.messages, read_anthropic_messages(fields, model, marks));
  TRY(read_effort(fields, chat));
  TRY(read_template_options(fields, chat));
  chat.continue_final_message = chat.messages.back().role == "assistant";
  chat.add_generation_prompt = !chat.continue_final_message;
  return chat;
}

// Returns an error with the wording by which clients recognize that they must shorten the
// conversation.
Result<void> check_length(const CompletionCall& call, const ModelCard& card) {
  const auto* ids = std::get_if<std::vector<TokenId>>(&call.requests.front().prompt);
  if (!ids || ids->size() < card.n_ctx_max) return {};
  return fail(
      ErrorCode::kContextLength,
      fmt::format("prompt is too long: {} tokens > {} maximum", ids->size(), card.n_ctx_max - 1),
      "messages");
}

// Rejects "thread": {"type": "continue"}, which sends only the new part to a server that keeps
// conversations. Clients then send the whole conversation.
Result<void> check_thread(const JsonFields& fields) {
  TRY_ASSIGN(const auto thread, fields.object("thread"));
  if (!thread || text_at(thread->all(), "type") != "continue") return {};
  return fail(ErrorCode::kNotFound,
              "this server stores no threads: send the whole conversation with thread {\"type\": "
              "\"create\"}, or without",
              "thread");
}

Result<CompletionCall> parse_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY(check_thread(fields));
  TRY_ASSIGN(const json::array* stops, fields.list("stop_sequences"));
  TRY_ASSIGN(CompletionCall call, read_call(fields));
  TRY_ASSIGN(const ChatRequest chat, read_conversation(fields, service.card().id.text(), call));
  TRY(read_answer_format(fields, body.text, call));
  CompletionRequest& request = call.requests.front();
  TRY_ASSIGN(auto form, read_output_form(fields, body.text));
  if (form) request.form = std::move(form);
  TRY_ASSIGN(request.max_tokens, fields.count<uint64_t>("max_tokens"));
  if (stops) {
    TRY_ASSIGN(request.output.stop, read_stops(at(fields.all(), "stop_sequences")));
  }
  TRY_ASSIGN(const auto metadata, fields.object("metadata"));
  if (metadata) {
    TRY(read_user(*metadata, "user_id", request));
    if (call.session.id.empty()) call.session.id = session_of_user_id(request.engine.tenant);
  }
  return with_prompt(service, chat, body.client, std::move(call));
}

}  // namespace

Result<CompletionCall> parse_messages_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(CompletionCall call, parse_call(service, body));
  TRY(check_length(call, service.card()));
  return call;
}

Result<CompletionCall> parse_count_call(const ServiceApi& service, const RequestBody& body) {
  return parse_call(service, body);
}

}  // namespace kvik
