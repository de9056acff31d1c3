#include "server/dialects/responses/responses_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/chat_fields.h"
#include "server/dialects/form_fields.h"
#include "server/dialects/json_fields.h"
#include "server/http/http_message.h"

namespace kvik {
namespace {

namespace json = boost::json;

Result<json::array> read_input(const JsonFields& fields) {
  const json::value* input = fields.find("input");
  if (!input) return refuse("input", "input is missing");
  if (input->is_string()) {
    return json::array{{{"type", "message"}, {"role", "user"}, {"content", *input}}};
  }
  if (!input->is_array()) return wrong_type("input", "a string or an array of items", *input);
  return input->get_array();
}

// Returns the earlier conversation, which the request does not repeat.
Result<json::array> read_previous(const JsonFields& fields, const StoredResponses& kept,
                                  ResponsesCall& out) {
  TRY_ASSIGN(const auto id, fields.string("previous_response_id"));
  if (!id) return json::array();
  out.previous = *id;
  if (kept.is_running && kept.is_running(*id)) {
    return refuse("previous_response_id",
                  fmt::format("the response '{}' is still in progress", printable(*id)));
  }
  auto items = kept.conversation ? kept.conversation(*id) : std::nullopt;
  if (items) return std::move(*items);
  return refuse("previous_response_id",
                fmt::format("the response '{}' is not stored", printable(*id)));
}

Result<ChatRequest> read_conversation(const JsonFields& fields, std::string_view model,
                                      const StoredResponses& kept, ResponsesCall& out) {
  ChatRequest chat;
  TRY_ASSIGN(auto instructions, fields.text("instructions"));
  TRY_ASSIGN(const json::array before, read_previous(fields, kept, out));
  TRY_ASSIGN(out.items, read_input(fields));
  ResponsesItems items(model, kept);
  for (const json::value& item : before) TRY(items.add(item));
  for (const json::value& item : out.items) TRY(items.add(item));
  chat.messages = std::move(items).take();
  if (chat.messages.empty()) return refuse("input", "input has no message");
  if (instructions) {
    chat.messages.insert(chat.messages.begin(), text_message("system", std::move(*instructions)));
  }
  TRY(check_n_messages(chat.messages.size()));
  TRY_ASSIGN(ResponsesTools tools, read_responses_tools(fields, chat));
  out.custom_tools = std::move(tools.custom);
  out.call.left_out = std::move(tools.left_out);
  TRY(read_tool_choice(fields, chat));
  TRY(read_thinking(fields, chat));
  TRY(read_template_options(fields, chat));
  return chat;
}

// Rejects unsupported fields that change the answer or its storage.
Result<void> refuse_unsupported(const JsonFields& fields) {
  for (const std::string_view name : {"conversation", "prompt"})
    if (fields.find(name)) return unsupported(name);
  TRY_ASSIGN(const auto n_top, fields.count<uint32_t>("top_logprobs"));
  if (n_top.value_or(0) > 0) return unsupported("top_logprobs");
  return {};
}

Result<bool> read_background(const JsonFields& fields, bool is_stored) {
  TRY_ASSIGN(const auto background, fields.flag("background"));
  if (!background.value_or(false)) return false;
  if (!is_stored)
    return refuse("background", "background is true, but store is false: the response is not kept");
  TRY_ASSIGN(const auto stream, fields.flag("stream"));
  if (!stream.value_or(false)) return true;
  return fail(ErrorCode::kUnsupported,
              "background with stream is not supported: poll GET /v1/responses/{id}", "background");
}

// Limits the size of metadata, which every answer repeats, to more than OpenAI allows.
Result<void> check_metadata(const JsonFields& fields) {
  constexpr size_t kMaxBytes = size_t{16} << 10;
  TRY_ASSIGN(const auto metadata, fields.object("metadata"));
  const size_t n_bytes = metadata ? json::serialize(metadata->all()).size() : 0;
  if (n_bytes <= kMaxBytes) return {};
  return refuse("metadata", fmt::format("metadata has {} bytes as JSON, at most {} are allowed",
                                        n_bytes, kMaxBytes));
}

Result<bool> includes_encrypted_reasoning(const JsonFields& fields) {
  TRY_ASSIGN(const json::array* include, fields.list("include"));
  bool seals = false;
  for (size_t i = 0; include && i < include->size(); ++i) {
    const json::value& name = (*include)[i];
    if (!name.is_string()) return wrong_type("include", "an array of strings", name);
    if (name == "message.output_text.logprobs") {
      return fail(ErrorCode::kUnsupported, "message.output_text.logprobs are not supported",
                  "include");
    }
    seals = seals || name == "reasoning.encrypted_content";
  }
  return seals;
}

Result<void> read_max_calls(const JsonFields& fields, CompletionCall& call) {
  TRY_ASSIGN(const auto most, fields.count<uint32_t>("max_tool_calls"));
  if (most == 0u) return refuse("max_tool_calls", "max_tool_calls is 0, expected at least 1");
  call.requests.front().output.max_calls = most;
  return read_parallel_calls(fields, call);
}

json::value value_or(const JsonFields& fields, std::string_view name, json::value otherwise) {
  const json::value* value = fields.find(name);
  return value ? *value : std::move(otherwise);
}

json::object echo_of_text(const JsonFields& fields) {
  const json::value* given = fields.find("text");
  json::object text = given && given->is_object() ? given->get_object() : json::object();
  if (!text.contains("format")) text["format"] = {{"type", "text"}};
  return text;
}

json::object echo_of(const JsonFields& fields, bool is_stored) {
  return {{"instructions", value_or(fields, "instructions", nullptr)},
          {"max_output_tokens", value_or(fields, "max_output_tokens", nullptr)},
          {"max_tool_calls", value_or(fields, "max_tool_calls", nullptr)},
          {"metadata", value_or(fields, "metadata", json::object())},
          {"parallel_tool_calls", value_or(fields, "parallel_tool_calls", true)},
          {"previous_response_id", value_or(fields, "previous_response_id", nullptr)},
          {"prompt_cache_key", value_or(fields, "prompt_cache_key", nullptr)},
          {"reasoning",
           value_or(fields, "reasoning", json::object{{"effort", nullptr}, {"summary", nullptr}})},
          {"store", is_stored},
          {"temperature", value_or(fields, "temperature", 1.0)},
          {"text", echo_of_text(fields)},
          {"tool_choice", value_or(fields, "tool_choice", "auto")},
          {"tools", value_or(fields, "tools", json::array())},
          {"top_p", value_or(fields, "top_p", 1.0)},
          {"truncation", value_or(fields, "truncation", "disabled")},
          {"user", value_or(fields, "user", nullptr)}};
}

// Returns the positions where a conversation can begin: at user messages.
std::vector<size_t> beginnings(const std::vector<Message>& messages) {
  std::vector<size_t> all;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == "user") all.push_back(i);
  }
  return all;
}

// Returns the conversation starting at message `begin`, preceded by system messages.
ChatRequest shortened(const ChatRequest& chat, size_t begin) {
  ChatRequest out = chat;
  const auto first = std::ranges::find_if(
      out.messages, [](const Message& message) { return message.role != "system"; });
  const auto until = out.messages.begin() + static_cast<ptrdiff_t>(begin);
  if (first < until) out.messages.erase(first, until);
  return out;
}

// Keeps as much of the end of the conversation as fits into the context with room for an answer.
Result<CompletionCall> with_fitting_prompt(const ServiceApi& service, const ChatRequest& chat,
                                           std::string_view client, const CompletionCall& call) {
  constexpr size_t kAnswerShare = 8;  // an eighth of the context is left for the answer
  const size_t n_ctx = service.card().n_ctx_max;
  const auto fits = [&](const CompletionCall& made) {
    const auto& ids = std::get<std::vector<TokenId>>(made.requests.front().prompt);
    return ids.size() + n_ctx / kAnswerShare <= n_ctx;
  };
  TRY_ASSIGN(CompletionCall whole, with_prompt(service, chat, client, call));
  if (!fits(whole) && whole.requests.front().n_restored > 0) {
    TRY_ASSIGN(whole, with_prompt(service, chat, "", call));
  }
  if (fits(whole)) return whole;
  const std::vector<size_t> all = beginnings(chat.messages);
  size_t low = 0, high = all.empty() ? 0 : all.size() - 1;  // the first beginning that fits
  while (low < high) {
    const size_t middle = (low + high) / 2;
    TRY_ASSIGN(CompletionCall made,
               with_prompt(service, shortened(chat, all[middle]), client, call));
    if (fits(made)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (all.empty()) return whole;
  return with_prompt(service, shortened(chat, all[high]), client, call);
}

Result<bool> truncates(const JsonFields& fields) {
  TRY_ASSIGN(const auto truncation, fields.string("truncation"));
  const std::string word = truncation.value_or("disabled");
  if (word == "disabled" || word == "auto") return word == "auto";
  return refuse("truncation", "truncation must be \"auto\" or \"disabled\"");
}

}  // namespace

Result<ResponsesCall> parse_responses_call(const ServiceApi& service, const RequestBody& body,
                                           const StoredResponsesForSalt& kept_for,
                                           ResponsesUse use) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY(refuse_unsupported(fields));
  ResponsesCall out;
  TRY_ASSIGN(const auto store, fields.flag("store"));
  out.is_stored = store.value_or(true);
  if (use == ResponsesUse::kAnswer) {
    TRY_ASSIGN(out.is_background, read_background(fields, out.is_stored));
  }
  TRY(check_metadata(fields));
  TRY_ASSIGN(out.includes_encrypted_reasoning, includes_encrypted_reasoning(fields));
  TRY_ASSIGN(const bool is_cut, truncates(fields));
  TRY_ASSIGN(const auto max_tokens, fields.count<uint64_t>("max_output_tokens"));
  TRY_ASSIGN(out.call, read_call(fields));
  const StoredResponses kept =
      kept_for ? kept_for(out.call.requests.front().engine.cache_salt) : StoredResponses{};
  TRY_ASSIGN(ChatRequest chat, read_conversation(fields, service.card().id.text(), kept, out));
  CompletionRequest& request = out.call.requests.front();
  request.max_tokens = max_tokens;
  TRY_ASSIGN(request.form, read_text_form(fields, body.text));
  TRY(read_max_calls(fields, out.call));
  TRY(read_user(fields, "user", request));
  TRY_ASSIGN(out.call, is_cut ? with_fitting_prompt(service, chat, body.client, out.call)
                              : with_prompt(service, chat, body.client, out.call));
  out.echo = echo_of(fields, out.is_stored);
  if (out.is_background) out.echo["background"] = true;
  out.call.kept_bytes = json::serialize(out.echo).size();
  return out;
}

}  // namespace kvik
