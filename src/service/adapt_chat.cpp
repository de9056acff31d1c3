#include "service/adapt_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/hash.h"
#include "service/tools/call_writer.h"

namespace kvik {
namespace {

using Messages = std::vector<Message>;

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

bool has_calls(const Message& message) {
  return std::ranges::any_of(message.parts, [](const MessagePart& part) {
    return std::holds_alternative<ToolCall>(part);
  });
}

bool has_text(const Message& message) { return !text_of(message).empty(); }

Result<void> name_roles(Messages& messages, const TemplateInfo& needs) {
  for (Message& message : messages) {
    const bool is_known = std::ranges::find(kRoles, message.role) != kRoles.end();
    if (!is_known && !names_role(needs.source, message.role)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the role '{:.40}' of a message is not known, expected system, "
                              "developer, user, assistant or tool",
                              message.role),
                  "messages");
    }
    if (message.role == "developer" && !needs.traits.knows_developer) message.role = "system";
    if (message.role == "function") message.role = "tool";
  }
  return {};
}

// Appends a text part, separated from existing text by an empty line.
void add_text(Message& message, std::string text) {
  if (has_text(message)) text = "\n" + text;
  message.parts.push_back(TextPart{std::move(text)});
}

void add_tools_to_system(ChatRequest& request) {
  std::string words = tools_system_prompt(std::exchange(request.tools, {}));
  Messages& messages = request.messages;
  if (messages.front().role != "system") {
    messages.insert(messages.begin(), text_message("system", ""));
    messages.front().parts.clear();
  }
  add_text(messages.front(), std::move(words));
  if (request.tools_pin_ttl) {
    auto& part = std::get<TextPart>(messages.front().parts.back());
    part.pin_ttl = std::max(part.pin_ttl, std::exchange(request.tools_pin_ttl, {}));
  }
}

// Replaces tool calls with the text that a model writes for them in the Hermes format, and tool
// results with user messages.
void render_calls_as_text(Messages& messages) {
  Messages changed;
  for (Message& message : messages) {
    if (message.role == "tool") {
      const bool follows = !changed.empty() && changed.back().role == "user" &&
                           text_of(changed.back()).ends_with("</tool_response>");
      if (!follows) changed.push_back({.role = "user", .parts = {}});
      Message& results = changed.back();
      results.parts.push_back(TextPart{"<tool_response>"});
      std::ranges::move(message.parts, std::back_inserter(results.parts));
      results.parts.push_back(TextPart{"</tool_response>"});
      continue;
    }
    if (has_calls(message)) {
      const std::vector<ToolCall> calls = calls_of(message);
      std::erase_if(message.parts, [](const MessagePart& part) {
        const auto* text = std::get_if<TextPart>(&part);
        return std::holds_alternative<ToolCall>(part) || (text && text->text.empty());
      });
      message.parts.push_back(TextPart{written_calls(hermes_format(), calls).bytes()});
    }
    changed.push_back(std::move(message));
  }
  messages = std::move(changed);
}

// Splits messages with several calls for templates that support one call per message. Each call
// gets its own message, followed by its result.
void split_calls(Messages& messages) {
  Messages changed;
  for (size_t i = 0; i < messages.size(); ++i) {
    Message& message = messages[i];
    const auto n_calls = std::ranges::count_if(
        message.parts, [](const auto& part) { return std::holds_alternative<ToolCall>(part); });
    if (n_calls < 2) {
      changed.push_back(std::move(message));
      continue;
    }
    size_t end = i + 1;
    while (end < messages.size() && messages[end].role == "tool") ++end;
    Message first = message;
    std::erase_if(first.parts,
                  [](const auto& part) { return std::holds_alternative<ToolCall>(part); });
    std::vector<bool> is_given(end, false);
    for (MessagePart& part : message.parts) {
      auto* call = std::get_if<ToolCall>(&part);
      if (!call) continue;
      const auto id = call->id;
      Message one = std::exchange(first, {.role = message.role, .parts = {TextPart{}}});
      one.parts.emplace_back(std::move(*call));
      changed.push_back(std::move(one));
      for (size_t k = i + 1; k < end; ++k) {
        const bool is_its = !is_given[k] && messages[k].tool_call_id == id;
        if (!is_its) continue;
        is_given[k] = true;
        changed.push_back(messages[k]);
      }
    }
    for (size_t k = i + 1; k < end; ++k) {
      if (!is_given[k]) changed.push_back(std::move(messages[k]));
    }
    i = end - 1;
  }
  messages = std::move(changed);
}

// Splits text and calls of one turn into separate messages, as harmony requires; its template would
// otherwise treat the text as reasoning.
void split_text_from_calls(Messages& messages) {
  Messages changed;
  for (Message& message : messages) {
    const bool has_reasoning = std::ranges::any_of(message.parts, [](const auto& part) {
      return std::holds_alternative<ReasoningPart>(part);
    });
    if (!has_calls(message) || !has_text(message) || !has_reasoning) {
      changed.push_back(std::move(message));
      continue;
    }
    Message words{.role = message.role, .parts = {}};
    for (const MessagePart& part : message.parts) {
      if (std::holds_alternative<TextPart>(part)) words.parts.push_back(part);
    }
    std::erase_if(message.parts,
                  [](const auto& part) { return std::holds_alternative<TextPart>(part); });
    changed.push_back(std::move(words));
    changed.push_back(std::move(message));
  }
  messages = std::move(changed);
}

std::string nine_letters(const std::string& id) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool is_fit = id.size() == 9 && id.find_first_not_of(kLetters) == id.npos;
  if (is_fit) return id;
  Sha256 hash;
  hash.add_text(id);
  const Sha256Digest digest = hash.finish();
  std::string letters;
  for (size_t i = 0; i < 9; ++i) {
    letters += kLetters[static_cast<uint8_t>(digest[i]) % kLetters.size()];
  }
  return letters;
}

void shorten_ids(Messages& messages) {
  for (Message& message : messages) {
    for (MessagePart& part : message.parts) {
      if (auto* call = std::get_if<ToolCall>(&part)) call->id = nine_letters(call->id.value_or(""));
    }
    if (message.role == "tool")
      message.tool_call_id = nine_letters(message.tool_call_id.value_or(""));
  }
}

// Sets call ids to "functions.NAME:0", numbered through the conversation, as the model wrote them.
// The client may know the calls by other ids.
void number_ids(Messages& messages) {
  std::map<std::string, std::string, std::less<>> numbered;
  size_t n_calls = 0;
  for (Message& message : messages) {
    for (MessagePart& part : message.parts) {
      auto* call = std::get_if<ToolCall>(&part);
      if (!call) continue;
      std::string id = fmt::format("functions.{}:{}", call->name, n_calls++);
      if (call->id) numbered[*call->id] = id;
      call->id = std::move(id);
    }
    if (!message.tool_call_id) continue;
    const auto known = numbered.find(*message.tool_call_id);
    if (known != numbered.end()) message.tool_call_id = known->second;
  }
}

// Merges system messages that the template would drop or reject into an adjacent user message, or
// turns them into user messages.
void move_system_messages(Messages& messages, const TemplateTraits& traits) {
  Messages changed;
  // joins: the next user message is merged into the last one
  bool is_beginning = true, joins = false;
  for (Message& message : messages) {
    const bool is_system = message.role == "system";
    const bool stays =
        is_system && (is_beginning ? traits.takes_system : traits.takes_system_between);
    const bool is_first_again = is_system && is_beginning && !changed.empty();
    if (is_first_again && stays && !traits.takes_system_between) {
      if (has_text(changed.back())) changed.back().parts.push_back(TextPart{});
      std::ranges::move(message.parts, std::back_inserter(changed.back().parts));
      continue;
    }
    if (is_system && !stays) {
      if (!changed.empty() && changed.back().role == "user") {
        add_text(changed.back(), text_of(message));
      } else {
        message.role = "user";
        changed.push_back(std::move(message));
      }
      joins = true;
      continue;
    }
    if (!is_system) is_beginning = false;
    if (joins && message.role == "user" && !changed.empty() && changed.back().role == "user") {
      if (has_text(changed.back())) changed.back().parts.push_back(TextPart{});
      std::ranges::move(message.parts, std::back_inserter(changed.back().parts));
    } else {
      changed.push_back(std::move(message));
    }
    joins = false;
  }
  messages = std::move(changed);
}

bool names(const TemplateInfo& needs, std::string_view name) { return needs.source.contains(name); }

// Sets the template variables that control reasoning, except for those that the request sets
// itself.
void set_reasoning_variables(ChatRequest& request, const TemplateInfo& needs) {
  const ReasoningOptions requested = std::exchange(request.thinking, {});
  const auto add_variable = [&](std::string_view name, Json data) {
    const bool is_set =
        std::ranges::find(request.kwargs, name, &Json::Field::name) != request.kwargs.end();
    if (!is_set && names(needs, name))
      request.kwargs.push_back({std::string(name), std::move(data)});
  };
  std::optional<bool> is_enabled = requested.is_enabled;
  if (requested.effort == "none" || requested.budget_tokens == 0) is_enabled = false;
  if (is_enabled) {
    add_variable("enable_thinking", {*is_enabled});
    add_variable("thinking", {*is_enabled});
  }
  if (requested.effort && requested.effort != "none") {
    std::string effort = *requested.effort;
    const bool knows_max = names_role(needs.source, "max");
    if (effort == "minimal") effort = "low";
    if (effort == "xhigh" || effort == "max") effort = knows_max ? "max" : "high";
    add_variable("reasoning_effort", {std::move(effort)});
  }
  if (requested.budget_tokens) {
    add_variable("thinking_budget",
                 {static_cast<int64_t>(std::min<uint64_t>(*requested.budget_tokens, INT32_MAX))});
  }
}

}  // namespace

bool needs_tools_in_system_prompt(const ChatRequest& request, const TemplateInfo& needs) {
  return !request.tools.empty() && !needs.traits.writes_tools;
}

Result<ChatRequest> adapted(ChatRequest request, const TemplateInfo& needs) {
  if (request.messages.empty()) return request;
  // In harmony nothing keeps a model from addressing a tool that it knows.
  const bool has_channels = needs.format && needs.format->has_channels;
  if (request.forbids_calls && (has_channels || !needs.may_add_tools)) request.tools.clear();
  Messages& messages = request.messages;
  TRY(name_roles(messages, needs));
  set_reasoning_variables(request, needs);
  const TemplateTraits& traits = needs.traits;
  const bool has_history = std::ranges::any_of(
      messages, [](const Message& m) { return m.role == "tool" || has_calls(m); });
  const bool in_words = needs_tools_in_system_prompt(request, needs);
  if (in_words && !needs.may_add_tools) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's chat template does not support tools, and --tool-format is none",
                "tools");
  }
  if (in_words) add_tools_to_system(request);
  const bool writes_calls = traits.writes_calls || (needs.format && needs.format->writes_history);
  if (has_history && (in_words || !writes_calls || !traits.writes_results)) {
    render_calls_as_text(messages);
  } else if (needs.format && has_history) {
    if (needs.format->has_channels) split_text_from_calls(messages);
    if (needs.format->has_one_call) split_calls(messages);
    if (needs.format->has_nine_letter_ids) shorten_ids(messages);
    if (needs.format->has_numbered_names()) number_ids(messages);
  }
  move_system_messages(messages, traits);
  return request;
}

}  // namespace kvik
