#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "server/dialects/responses/custom_input.h"
#include "service/answer_parts.h"

namespace kvik {

// One item of a response's output: reasoning, a message, or a tool call.
struct OutputItem {
  using Kind = AnswerPart::Kind;
  static constexpr std::string_view kInProgress = "in_progress";

  Kind kind;
  bool is_custom = false;  // a call of a tool that takes a text
  bool is_broken = false;  // a call that the model broke off
  std::string id;
  std::string text = {};  // text; of a call: its arguments or input
  std::string name = {}, call_id = {};
  std::string_view status = kInProgress;
  std::string sealed = {};  // the encrypted reasoning, if requested
  CustomInput input = {};   // parser of the arguments of a custom tool

  static OutputItem of(Kind kind);
  // Returns the item of a call, without its arguments.
  static OutputItem of_call(const AnswerPart& call, bool is_custom);

  // Adds arguments of a call; returns what they add to the text.
  std::string add_arguments(std::string_view arguments);
  // Ends the arguments.
  std::string end_arguments();

  // Returns the prefix of the events with a call's text.
  std::string event_kind() const;

  // Returns its only part; not for calls.
  boost::json::object part_json() const;

  // Returns the item; without content while there is none.
  boost::json::object json() const;
};

}  // namespace kvik
