#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "server/dialects/answer_writer.h"

namespace kvik {

// What an answer needs of its request.
struct ResponsesAsked {
  boost::json::object echo;     // fields that the answer repeats
  bool seals_thoughts = false;  // they come sealed as well, for clients that keep no state here
  std::set<std::string, std::less<>> custom_tools = {};  // whose calls are texts
  // Called once with the whole answer, where it is to be kept.
  std::function<void(const boost::json::object& response)> keep = {};
};

// Answers of OpenAI's /v1/responses: reasoning, messages and calls of tools as items of their own,
// in the order in which they came.
std::unique_ptr<AnswerWriter> make_responses_writer(AnswerEnvelope envelope, ResponsesAsked asked);

}  // namespace kvik
