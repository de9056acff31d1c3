#include "main/cache/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "server/dialects/chat/chat_request.h"
#include "server/dialects/messages/messages_request.h"
#include "server/dialects/responses/responses_request.h"

namespace kvik {
namespace {

namespace json = boost::json;

Result<CompletionCall> parse(const Service& service, PromptFormat format, const RequestBody& body) {
  if (format == PromptFormat::kChat) return parse_chat_call(service, body);
  if (format == PromptFormat::kMessages) return parse_messages_call(service, body);
  TRY_ASSIGN(ResponsesCall call, parse_responses_call(service, body));
  return std::move(call.call);
}

Result<std::vector<TokenId>> tokens_of(const Service& service, PromptFormat format,
                                       std::string_view content, json::object object) {
  TRY_ASSIGN(CompletionCall call,
             parse(service, format, RequestBody{.text = content, .object = std::move(object)}));
  auto& prompt = call.requests.front().prompt;
  return std::move(std::get<std::vector<TokenId>>(prompt));
}

bool is_text(const json::value& part) {
  const json::object* object = part.if_object();
  const json::value* type = object ? object->if_contains("type") : nullptr;
  return type && type->is_string() &&
         (type->get_string() == "text" || type->get_string() == "input_text");
}

// Returns whether a message is a question of the user, and not the result of a tool.
bool is_question(const json::value& message) {
  const json::object* object = message.if_object();
  const json::value* role = object ? object->if_contains("role") : nullptr;
  const json::value* content = object ? object->if_contains("content") : nullptr;
  if (!role || !role->is_string() || role->get_string() != "user" || !content) return false;
  return content->is_string() ||
         (content->is_array() && std::ranges::all_of(content->get_array(), is_text));
}

// The list of messages of a body; a body of /v1/responses may have a single text.
struct Conversation {
  const char* field;
  json::array messages;
};

Conversation conversation_of(PromptFormat format, const json::object& body) {
  Conversation found{.field = format == PromptFormat::kResponses ? "input" : "messages",
                     .messages = {}};
  const json::value* list = body.if_contains(found.field);
  if (list && list->is_array()) found.messages = list->get_array();
  if (list && list->is_string()) {
    found.messages.push_back(json::object{{"role", "user"}, {"content", *list}});
  }
  return found;
}

uint32_t n_shared(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<uint32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

Result<SharedPrefix> read_conversation_prefix(const Service& service, PromptFormat format,
                                              std::string_view content) {
  ByteShare share;
  JsonBudget budget{.n_ctx = service.card().n_ctx_max, .share = share};
  RequestBody body = parse_body(budget, content);
  if (!body.object) return std::unexpected<Error>(body.object.error());
  json::object object = std::move(*body.object);
  TRY_ASSIGN(std::vector<TokenId> given, tokens_of(service, format, content, object));
  Conversation conversation = conversation_of(format, object);
  const bool has_question =
      !conversation.messages.empty() && is_question(conversation.messages.back());
  if (has_question) conversation.messages.pop_back();
  const auto ask = [&](const char* question) {
    json::array messages = conversation.messages;
    messages.push_back(json::object{{"role", "user"}, {"content", question}});
    object[conversation.field] = std::move(messages);
    return tokens_of(service, format, content, object);
  };
  // Two questions without a common token.
  TRY_ASSIGN(std::vector<TokenId> one, ask("A"));
  TRY_ASSIGN(const std::vector<TokenId> other, ask("7"));
  uint32_t n_before = n_shared(one, other);
  if (!has_question) {
    one.resize(n_before);
    return SharedPrefix{.tokens = std::move(one), .ends = {n_before}};
  }
  n_before = std::min(n_before, n_shared(one, given));
  SharedPrefix prefix{.tokens = std::move(given), .ends = {}};
  const auto n_all = static_cast<uint32_t>(prefix.tokens.size());
  if (n_before > 0 && n_before < n_all) prefix.ends.push_back(n_before);
  prefix.ends.push_back(n_all);
  return prefix;
}

}  // namespace

PromptFormat prompt_format(std::string_view name, std::string_view content) {
  if (name == "text") return PromptFormat::kText;
  if (name == "chat") return PromptFormat::kChat;
  if (name == "messages") return PromptFormat::kMessages;
  if (name == "responses") return PromptFormat::kResponses;
  const size_t begin = content.find_first_not_of(" \t\r\n");
  const bool is_object = begin != std::string_view::npos && content[begin] == '{';
  return is_object ? PromptFormat::kChat : PromptFormat::kText;
}

Result<SharedPrefix> read_shared_prefix(const Service& service, PromptFormat format,
                                        std::string_view content, const std::string& path) {
  if (content.empty())
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} is empty, expected a prompt", path));
  if (format == PromptFormat::kText) {
    SharedPrefix prefix{.tokens = service.prompt_tokens(content), .ends = {}};
    prefix.ends.push_back(static_cast<uint32_t>(prefix.tokens.size()));
    return prefix;
  }
  auto prefix = read_conversation_prefix(service, format, content);
  if (prefix && prefix->tokens.empty()) {
    prefix =
        fail(ErrorCode::kInvalidArgument, "prompts with other questions have no common tokens");
  }
  if (prefix) return prefix;
  return fail(prefix.error().code, fmt::format("{}: {}", path, prefix.error().message));
}

}  // namespace kvik
