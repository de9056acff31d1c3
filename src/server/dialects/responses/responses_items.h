#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dialects/chat_fields.h"
#include "service/chat_request.h"

namespace kvik {

// Earlier answers stored for the requesting client; the functions are null if nothing is stored.
struct StoredResponses {
  // Return the items of the conversation up to that response, and one item; std::nullopt if they no
  // longer exist.
  std::function<std::optional<boost::json::array>(std::string_view id)> conversation;
  std::function<std::optional<boost::json::value>(std::string_view item_id)> item;
  // Returns whether the response is still computed in the background.
  std::function<bool(std::string_view id)> is_running = {};
};
// The same for the cache salt of a request.
using StoredResponsesForSalt = std::function<StoredResponses(const std::string& salt)>;

// Converts items of /v1/responses to messages. Consecutive reasoning, text and calls of the model
// become one message; outputs of calls become messages with role "tool". Reasoning is restored from
// its content or from encrypted content. Errors: kInvalidArgument, kUnsupported, with the field.
class ResponsesItems {
 public:
  ResponsesItems(std::string_view model, const StoredResponses& kept)
      : model_(model), kept_(kept) {}

  Result<void> add(const boost::json::value& item);

  std::vector<Message> take() && { return std::move(messages_); }

 private:
  Result<void> add_message(const boost::json::object& item);
  Result<void> add_call(const boost::json::object& item, bool is_custom);
  Result<void> add_output(const boost::json::object& item);
  Result<void> add_reasoning(const boost::json::object& item);
  Result<void> add_stored(const boost::json::object& item);
  Result<std::vector<MessagePart>> texts_of(const boost::json::value& content);
  Message& assistant();

  std::string_view model_;
  const StoredResponses& kept_;
  CacheMarks marks_;
  std::vector<Message> messages_;
  int depth_ = 0;  // nesting depth of item references
};

// Properties of the tools of a request that its answer needs.
struct ResponsesTools {
  std::set<std::string, std::less<>> custom;  // names of custom tools
  std::vector<std::string> left_out;          // types of tools that only their vendor can run
};
// Adds the tools of /v1/responses to the chat, in the form for templates. A custom tool, which
// takes a text, becomes a function with one text argument "input"; tools that only their vendor can
// run are left out. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<ResponsesTools> read_responses_tools(const JsonFields& fields, ChatRequest& chat);

}  // namespace kvik
