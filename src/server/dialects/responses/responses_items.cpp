#include "server/dialects/responses/responses_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "server/dialects/json_fields.h"
#include "server/dialects/reasoning_seal.h"
#include "server/http/http_message.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Returns whether the item belongs to a tool that only its vendor can run. Such items are ignored:
// the answers that followed contain the results.
bool is_vendor_item(std::string_view type) {
  constexpr std::array<std::string_view, 9> kTypes = {
      "web_search_call", "file_search_call",     "image_generation_call",
      "computer_call",   "computer_call_output", "code_interpreter_call",
      "mcp_call",        "mcp_list_tools",       "compaction"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

std::optional<std::string> id_of(const json::object& item) {
  const std::string_view id = text_at(item, "call_id");
  return id.empty() ? std::nullopt : std::optional<std::string>(id);
}

Json text_schema() {
  Json::Fields input = {{"type", {std::string("string")}}};
  Json::Fields properties = {{"input", {std::move(input)}}};
  return {Json::Fields{{"type", {std::string("object")}},
                       {"properties", {std::move(properties)}},
                       {"required", {Json::List{{std::string("input")}}}}}};
}

// The description states the format of the text, because the model has no other information.
std::string custom_description(const json::object& tool) {
  std::string text(text_at(tool, "description"));
  const json::value& format = at(tool, "format");
  if (!format.is_object()) return text;
  const std::string_view definition = text_at(format.get_object(), "definition");
  if (definition.empty()) return text;
  return fmt::format("{}\n\nThe input keeps to this {} grammar:\n{}", text,
                     text_at(format.get_object(), "syntax"), definition);
}

Json function_of(const json::object& tool, bool is_custom) {
  Json::Fields function = {{"name", {std::string(text_at(tool, "name"))}}};
  const std::string description =
      is_custom ? custom_description(tool) : std::string(text_at(tool, "description"));
  if (!description.empty()) function.push_back({"description", {description}});
  if (is_custom) {
    function.push_back({"parameters", text_schema()});
  } else if (!at(tool, "parameters").is_null()) {
    function.push_back({"parameters", owned_json(at(tool, "parameters"))});
  }
  return {Json::Fields{{"type", {std::string("function")}}, {"function", {std::move(function)}}}};
}

}  // namespace

Result<void> ResponsesItems::add(const json::value& value) {
  if (!value.is_object()) return wrong_type("input", "made of items", value);
  const json::object& item = value.get_object();
  const std::string_view type = text_at(item, "type");
  if (type == "message" || !item.contains("type")) return add_message(item);
  if (type == "function_call") return add_call(item, false);
  if (type == "custom_tool_call") return add_call(item, true);
  if (type == "function_call_output" || type == "custom_tool_call_output") return add_output(item);
  if (type == "reasoning") return add_reasoning(item);
  if (type == "item_reference") return add_stored(item);
  if (is_vendor_item(type)) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("an item of input is of the type '{}', expected a message, reasoning, or "
                          "a call and its output",
                          printable(type)),
              "input");
}

Result<void> ResponsesItems::add_message(const json::object& item) {
  const std::string_view role = text_at(item, "role");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    return refuse("input",
                  "the role of a message must be \"user\", \"assistant\", \"system\" or "
                  "\"developer\"");
  const json::value* content = item.if_contains("content");
  if (!content) return refuse("input", "a message has no content");
  TRY_ASSIGN(std::vector<MessagePart> parts, texts_of(*content));
  if (parts.empty()) parts.push_back(TextPart{});
  if (role == "assistant") {
    std::ranges::move(parts, std::back_inserter(assistant().parts));
    return {};
  }
  messages_.push_back(
      {.role = std::string(role == "developer" ? "system" : role), .parts = std::move(parts)});
  return {};
}

Result<std::vector<MessagePart>> ResponsesItems::texts_of(const json::value& content) {
  const TextWords words{.param = "input",
                        .expected = "content as a string or parts",
                        .made_of = "content made of parts",
                        .types = {"input_text", "output_text", "text"}};
  return read_texts(content, words, marks_);
}

// Returns the newest message if it is the model's, else a new one.
Message& ResponsesItems::assistant() {
  if (messages_.empty() || messages_.back().role != "assistant")
    messages_.push_back({.role = "assistant", .parts = {}});
  return messages_.back();
}

Result<void> ResponsesItems::add_call(const json::object& item, bool is_custom) {
  ToolCall call{.id = id_of(item), .name = std::string(text_at(item, "name")), .arguments = {}};
  if (call.name.empty()) return refuse("input", "a call of a tool has no name");
  const std::string_view given = text_at(item, is_custom ? "input" : "arguments");
  if (is_custom) {
    call.arguments = {Json::Fields{{"input", {std::string(given)}}}};
  } else {
    call.arguments = read_arguments(given);
  }
  Message& message = assistant();
  const bool has_text = std::ranges::any_of(
      message.parts, [](const auto& part) { return std::holds_alternative<TextPart>(part); });
  if (!has_text) message.parts.push_back(TextPart{});  // templates expect content
  message.parts.emplace_back(std::move(call));
  return {};
}

Result<void> ResponsesItems::add_output(const json::object& item) {
  const auto id = id_of(item);
  if (!id) return refuse("input", "the output of a call has no call_id");
  const json::value& output = at(item, "output");
  if (output.is_null()) return refuse("input", "the output of a call is missing");
  TRY_ASSIGN(std::vector<MessagePart> parts, texts_of(output));
  if (parts.empty()) parts.push_back(TextPart{});
  messages_.push_back({.role = "tool", .parts = std::move(parts), .tool_call_id = id});
  return {};
}

Result<void> ResponsesItems::add_reasoning(const json::object& item) {
  std::string reasoning;
  if (const json::array* content = at(item, "content").if_array()) {
    for (const json::value& part : *content) {
      if (part.is_object()) reasoning += text_at(part.get_object(), "text");
    }
  }
  if (reasoning.empty()) {
    reasoning = decode_reasoning(model_, text_at(item, "encrypted_content")).value_or("");
  }
  if (!reasoning.empty()) assistant().parts.push_back(ReasoningPart{std::move(reasoning)});
  return {};
}

Result<void> ResponsesItems::add_stored(const json::object& item) {
  const std::string_view id = text_at(item, "id");
  const auto kept = kept_.item && depth_ == 0 ? kept_.item(id) : std::nullopt;
  if (!kept) {
    return refuse("input", fmt::format("the item '{}' is not stored", printable(id)));
  }
  ++depth_;
  TRY(add(*kept));
  --depth_;
  return {};
}

Result<ResponsesTools> read_responses_tools(const JsonFields& fields, ChatRequest& chat) {
  ResponsesTools out;
  TRY_ASSIGN(const json::array* tools, fields.list("tools"));
  if (!tools) return out;
  TRY(check_n_tools(tools->size()));
  CacheMarks marks;
  for (const json::value& value : *tools) {
    if (!value.is_object()) return wrong_type("tools", "an array of objects", value);
    const json::object& tool = value.get_object();
    const std::string_view type = text_at(tool, "type");
    if (type.empty()) return refuse("tools", "a tool has no type");
    const bool is_custom = type == "custom";
    if (type != "function" && !is_custom) {
      out.left_out.emplace_back(type);
      continue;
    }
    if (text_at(tool, "name").empty()) return refuse("tools", "a tool has no name");
    if (is_custom) out.custom.emplace(text_at(tool, "name"));
    TRY(add_tool(tool, function_of(tool, is_custom), marks, chat));
  }
  return out;
}

}  // namespace kvik
