#include "server/dialects/responses/output_item.h"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/dialects/json_fields.h"
#include "server/http/random_id.h"

namespace kvik {
namespace {

namespace json = boost::json;

// {"input": …} → the text; arguments of another shape are the text as they stand.
std::string input_of(const std::string& arguments) {
  boost::system::error_code error;
  const json::value parsed = json::parse(arguments, error);
  const json::object* object = error ? nullptr : parsed.if_object();
  const json::value* input = object ? object->if_contains("input") : nullptr;
  return input && input->is_string() ? std::string(view(input->get_string())) : arguments;
}

}  // namespace

OutputItem OutputItem::of(Kind kind) {
  return {.kind = kind, .id = random_id(kind == Kind::kThought ? "rs_" : "msg_")};
}

OutputItem OutputItem::of_call(const AnswerPart& call, bool is_custom) {
  return {.kind = Kind::kCall,
          .is_custom = is_custom,
          .id = random_id(is_custom ? "ctc_" : "fc_"),
          .text = is_custom ? input_of(call.text) : call.text,
          .name = call.name,
          .call_id = kvik::call_id(call, "call_")};
}

json::object OutputItem::part_json() const {
  if (kind == Kind::kThought) return {{"type", "reasoning_text"}, {"text", text}};
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
  const bool is_thought = kind == Kind::kThought;
  json::object out{{"id", id}, {"type", is_thought ? "reasoning" : "message"}, {"status", status}};
  if (is_thought)
    out["summary"] = json::array();
  else
    out["role"] = "assistant";
  out["content"] = is_open ? json::array() : json::array{part_json()};
  if (is_thought && !sealed.empty()) out["encrypted_content"] = is_open ? "" : sealed;
  return out;
}

}  // namespace kvik
