#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/dialects/responses/responses_request.h"
#include "server/dialects/responses/responses_store.h"
#include "server/dialects/responses/responses_writer.h"
#include "server/dialects/start_completion.h"
#include "server/http/random_id.h"
#include "server/http/status.h"
#include "server/operate/auth.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kPath = "/v1/responses/";

std::string owner_of(const HandlerContext& context, const HttpRequest& request) {
  const ApiKey* key = find_key(request, context.options);
  return key ? key->name : "";
}

// What the store holds is ours, and JSON.
json::value parsed(const std::string& text) {
  boost::system::error_code error;
  return json::parse(text, error);
}

KeptResponses kept_of(ResponseStore& store, const std::string& owner) {
  return {.conversation = [&store, owner](std::string_view id) -> std::optional<json::array> {
            const auto items = store.conversation(owner, id);
            if (!items) return std::nullopt;
            json::array out;
            for (const std::string& item : *items) out.push_back(parsed(item));
            return out;
          },
          .item = [&store, owner](std::string_view id) -> std::optional<json::value> {
            const auto item = store.item(owner, id);
            if (!item) return std::nullopt;
            return parsed(*item);
          }};
}

// What a conversation goes on from: the input of this answer, and its output.
ResponseStore::Record record_of(const json::object& response, const json::array& input,
                                std::string owner, std::string previous) {
  ResponseStore::Record record{.owner = std::move(owner),
                               .response = json::serialize(response),
                               .items = {},
                               .item_ids = {},
                               .previous = std::move(previous)};
  const auto add = [&](const json::value& item) {
    record.items.push_back(json::serialize(item));
    const json::object* object = item.if_object();
    record.item_ids.emplace_back(object ? text_at(*object, "id") : "");
  };
  for (const json::value& item : input) add(item);
  for (const json::value& item : response.at("output").as_array()) add(item);
  return record;
}

}  // namespace

Reply handle_responses(const HandlerContext& context, const HttpRequest& request) {
  const std::string owner = owner_of(context, request);
  auto call =
      parse_responses_call(context.service, request.body, kept_of(context.responses, owner));
  if (!call) {
    Error error = call.error();
    if (error.param == "messages") error.param = "input";
    return error_response(error);
  }
  ResponsesAsked asked{.echo = std::move(call->echo),
                       .seals_thoughts = call->seals_thoughts,
                       .custom_tools = std::move(call->custom_tools)};
  if (call->is_stored) {
    asked.keep = [&store = context.responses, owner, items = std::move(call->items),
                  previous = std::move(call->previous)](const json::object& response) {
      store.put(std::string(text_at(response, "id")), record_of(response, items, owner, previous));
    };
  }
  return start_completion(context, request, std::move(call->call),
                          {"resp_",
                           {{"prompt", "input"}, {"max_tokens", "max_output_tokens"}},
                           [asked = std::move(asked)](AnswerEnvelope envelope) {
                             return make_responses_writer(std::move(envelope), asked);
                           }});
}

Reply handle_response(const HandlerContext& context, const HttpRequest& request) {
  const std::string_view id = std::string_view(request.path).substr(kPath.size());
  const std::string owner = owner_of(context, request);
  const auto unknown = [&]() -> Reply {
    return error_response(Error{ErrorCode::kNotFound,
                                fmt::format("the response '{}' is not kept here", printable(id)),
                                "response_id"});
  };
  if (request.method == "DELETE") {
    if (!context.responses.erase(owner, id)) return unknown();
    const json::object out{{"id", id}, {"object", "response"}, {"deleted", true}};
    return HttpResponse{.status = 200, .body = json::serialize(out)};
  }
  auto body = context.responses.response(owner, id);
  if (!body) return unknown();
  return HttpResponse{.status = 200, .body = std::move(*body)};
}

}  // namespace kvik
