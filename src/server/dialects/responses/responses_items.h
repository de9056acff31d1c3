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

// What was kept of earlier answers, for the client that asks; null where nothing is.
struct KeptResponses {
  // The items of the conversation up to that response, and one item; nullopt where they are gone.
  std::function<std::optional<boost::json::array>(std::string_view id)> conversation;
  std::function<std::optional<boost::json::value>(std::string_view item_id)> item;
};
// The same for a cache salt that the request asks for.
using KeptFor = std::function<KeptResponses(const std::string& salt)>;

// Items of /v1/responses → messages. A model's reasoning, words and calls that follow each other
// are one message; outputs of calls are messages of the role "tool". Reasoning comes back as it was
// thought, from its content or sealed. Errors: kInvalidArgument, kUnsupported, with the field.
class ResponsesItems {
 public:
  ResponsesItems(std::string_view model, const KeptResponses& kept) : model_(model), kept_(kept) {}

  Result<void> add(const boost::json::value& item);

  std::vector<Message> take() && { return std::move(messages_); }

 private:
  Result<void> add_message(const boost::json::object& item);
  Result<void> add_call(const boost::json::object& item, bool is_custom);
  Result<void> add_output(const boost::json::object& item);
  Result<void> add_reasoning(const boost::json::object& item);
  Result<void> add_kept(const boost::json::object& item);
  Result<std::vector<MessagePart>> texts_of(const boost::json::value& content);
  Message& assistant();

  std::string_view model_;
  const KeptResponses& kept_;
  CacheMarks marks_;
  std::vector<Message> messages_;
  int depth_ = 0;  // of items that stand for others
};

// Tools of /v1/responses as templates know them. A custom one, which takes a text, becomes a
// function of one text, "input"; those that only their vendor can run are left out, by type.
struct ResponsesTools {
  std::set<std::string, std::less<>> custom;
  std::vector<std::string> left_out;
};
Result<ResponsesTools> read_responses_tools(const JsonFields& fields, ChatRequest& chat);

}  // namespace kvik
