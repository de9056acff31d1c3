#include "server/dialects/chat_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxTools = 1'024;
constexpr size_t kMaxKwargs = 64;
constexpr size_t kMaxMarks = 4;

}  // namespace

Result<std::optional<Duration>> CacheMarks::read(const json::object& part) {
  TRY_ASSIGN(const auto ttl, read_cache_control(JsonFields(part)));
  if (ttl && ++n_ > kMaxMarks) {
    return refuse("cache_control",
                  fmt::format("more than {} parts have a cache_control", kMaxMarks));
  }
  return ttl;
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
    if (!text || !text->is_string() || !is_text)
      return refuse(words.param, std::string(words.refusal));
    TRY_ASSIGN(const auto keep_for, marks.read(*part));
    parts.push_back(TextPart{std::string(view(text->get_string())), keep_for});
  }
  return parts;
}

Result<void> add_tool(const json::object& tool, Data shown, CacheMarks& marks, ChatRequest& chat) {
  TRY_ASSIGN(const auto keep_for, marks.read(tool));
  chat.keep_tools_for = std::max(chat.keep_tools_for, keep_for);
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
  const json::string* name = choice ? choice->if_string() : nullptr;
  if (!choice || (name && *name == "auto")) return {};
  if (!name || *name != "none") {
    return fail(ErrorCode::kUnsupported, "a forced tool_choice is not supported", "tool_choice");
  }
  chat.tools.clear();
  return {};
}

Result<void> read_template_options(const JsonFields& fields, ChatRequest& chat) {
  TRY_ASSIGN(const auto kwargs, fields.object("chat_template_kwargs"));
  if (!kwargs) return {};
  if ((*kwargs)->size() > kMaxKwargs) {
    return refuse("chat_template_kwargs",
                  fmt::format("chat_template_kwargs holds {} names, at most {} are allowed",
                              (*kwargs)->size(), kMaxKwargs));
  }
  chat.kwargs = std::get<Data::Fields>(to_data(**kwargs).value);
  return {};
}

Result<CompletionCall> with_prompt(const ServiceApi& service, const ChatRequest& chat,
                                   CompletionCall call) {
  TRY_ASSIGN(ChatPrompt prompt, service.chat_prompt(chat));
  CompletionRequest& request = call.requests.front();
  request.prompt = std::move(prompt.ids);
  request.pins = std::move(prompt.pins);
  request.answer_begin = prompt.answer_begin;
  return call;
}

}  // namespace kvik
