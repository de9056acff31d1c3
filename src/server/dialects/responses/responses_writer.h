#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "server/dialects/answer_writer.h"
#include "server/http/http_message.h"

namespace kvik {

// Data of the request that its answer needs.
struct ResponsesAsked {
  boost::json::object echo;  // fields that the answer repeats
  // also returns encrypted reasoning, for clients that keep no state here
  bool includes_encrypted_reasoning = false;
  std::set<std::string, std::less<>> custom_tools = {};  // tools whose calls are texts
  // Called once with the whole answer if it is to be stored.
  std::function<void(const boost::json::object& response)> keep = {};
};

// Returns the JSON of a response in progress, without output.
boost::json::object response_in_progress(const AnswerEnvelope& envelope,
                                         const ResponsesAsked& asked);
// Returns the error of a failed response.
boost::json::object response_error(const HttpError& error);

// Returns the writer of OpenAI's /v1/responses: reasoning, messages and tool calls as separate
// items, in order.
std::unique_ptr<AnswerWriter> make_responses_writer(AnswerEnvelope envelope, ResponsesAsked asked);

}  // namespace kvik
