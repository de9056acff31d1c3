#include "server/dialects/responses/output_item.h"

#include <boost/json/array.hpp>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/http/random_id.h"

namespace kvik {

namespace json = boost::json;

OutputItem OutputItem::of(Kind kind) {
  return {.kind = kind, .id = random_id(kind == Kind::kReasoning ? "rs_" : "msg_")};
}

OutputItem OutputItem::of_call(const AnswerPart& call, bool is_custom) {
  return {.kind = Kind::kCall,
          .is_custom = is_custom,
          .id = random_id(is_custom ? "ctc_" : "fc_"),
          .name = call.name,
          .call_id = kvik::call_id(call, "call_")};
}

std::string OutputItem::add_arguments(std::string_view arguments) {
  std::string more = is_custom ? input.push(arguments) : std::string(arguments);
  text += more;
  return more;
}

std::string OutputItem::end_arguments() {
  std::string more = is_custom ? input.finish() : "";
  text += more;
  return more;
}

std::string OutputItem::event_kind() const {
  return is_custom ? "response.custom_tool_call_input" : "response.function_call_arguments";
}

json::object OutputItem::part_json() const {
  if (kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", json::array()},
          {"logprobs", json::array()}};
}

json::object OutputItem::json() const {
  const bool is_open = status == kInProgress;
  if (kind == Kind::kCall) {
    return {{"id", id},         {"type", is_custom ? "custom_tool_call" : "function_call"},
            {"status", status}, {"call_id", call_id},
            {"name", name},     {is_custom ? "input" : "arguments", is_open ? "" : text}};
  }
  const bool is_reasoning = kind == Kind::kReasoning;
  json::object out{
      {"id", id}, {"type", is_reasoning ? "reasoning" : "message"}, {"status", status}};
  if (is_reasoning)
    out["summary"] = json::array();
  else
    out["role"] = "assistant";
  out["content"] = is_open ? json::array() : json::array{part_json()};
  if (is_reasoning && !sealed.empty()) out["encrypted_content"] = is_open ? "" : sealed;
  return out;
}

}  // namespace kvik
