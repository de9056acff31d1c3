#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "server/dialects/responses/custom_input.h"
#include "service/answer_parts.h"

namespace kvik {

// One item of a response's output: what was thought, what is said, or a call of a tool.
struct OutputItem {
  using Kind = AnswerPart::Kind;
  static constexpr std::string_view kInProgress = "in_progress";

  Kind kind;
  bool is_custom = false;  // a call of a tool that takes a text
  std::string id;
  std::string text = {};  // of a call: its arguments, or its input
  std::string name = {}, call_id = {};
  std::string_view status = kInProgress;
  std::string sealed = {};  // the thought, where that was asked for
  CustomInput input = {};   // of a custom tool

  static OutputItem of(Kind kind);
  // Without its arguments.
  static OutputItem of_call(const AnswerPart& call, bool is_custom);

  // More arguments of a call; returns what they add to the text.
  std::string add_arguments(std::string_view arguments);
  // No more of them.
  std::string end_arguments();

  // Returns the prefix of the events that carry a call's text.
  std::string event_kind() const;

  // Its one part; not of calls.
  boost::json::object part_json() const;

  // Without its content while it has none.
  boost::json::object json() const;
};

}  // namespace kvik
