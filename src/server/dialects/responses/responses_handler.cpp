#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <utility>

#include "server/dialects/json_body.h"
#include "server/dialects/request_body.h"
#include "server/dialects/responses/item_page.h"
#include "server/dialects/responses/responses_request.h"
#include "server/dialects/responses/responses_store.h"
#include "server/dialects/responses/responses_writer.h"
#include "server/dialects/start_completion.h"
#include "server/http/auth.h"
#include "server/http/random_id.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kPath = "/v1/responses/";
constexpr std::string_view kInputItems = "/input_items";
constexpr std::string_view kCancel = "/cancel";

std::string owner_of(const HandlerContext& context, const HttpRequest& request,
                     std::string_view salt) {
  return owner_id(context.options, find_key(request, context.options), salt);
}

// Parses stored items, and counts their memory while a request is read.
struct StoredItemParser {
  ByteShare share;
  uint64_t n_ctx;
  bool has_room = true;

  // Returns std::nullopt if there is no room.
  std::optional<json::value> parse(const std::string& item) {
    has_room = has_room && share.grow(item.size());
    if (!has_room) return std::nullopt;
    JsonBudget budget{.n_ctx = n_ctx, .share = share};
    auto value = parse_within(budget, item);
    has_room = budget.has_room && !budget.fault;
    if (!has_room) return std::nullopt;
    return value ? std::move(*value) : json::value();
  }
};

StoredResponses stored_responses(ResponseStore& store, const std::string& owner,
                                 StoredItemParser& memory) {
  return {
      .conversation = [&store, &memory, owner](std::string_view id) -> std::optional<json::array> {
        const auto items = store.conversation(owner, id);
        if (!items) return std::nullopt;
        json::array out;
        for (const std::string& item : *items) {
          auto value = memory.parse(item);
          if (!value) return std::nullopt;
          out.push_back(std::move(*value));
        }
        return out;
      },
      .item = [&store, &memory, owner](std::string_view id) -> std::optional<json::value> {
        const auto item = store.item(owner, id);
        return item ? memory.parse(*item) : std::nullopt;
      }};
}

// Returns the items that a response answers: its conversation without its own output.
std::optional<json::array> input_items(ResponseStore& store, const std::string& owner,
                                       std::string_view id, StoredItemParser& memory) {
  const auto response = store.response(owner, id);
  auto items = stored_responses(store, owner, memory).conversation(id);
  if (!response || !items) return std::nullopt;
  const auto answer = memory.parse(*response);
  if (!answer) return std::nullopt;
  const json::object* object = answer->if_object();
  const json::value* output = object ? object->if_contains("output") : nullptr;
  const size_t n_output = output && output->is_array() ? output->get_array().size() : 0;
  items->erase(items->end() - static_cast<ptrdiff_t>(std::min(n_output, items->size())),
               items->end());
  return items;
}

void add_items(const json::array& items, ResponseStore::Record& record) {
  for (const json::value& item : items) {
    record.items.push_back(json::serialize(item));
    record.items.back().shrink_to_fit();
    const json::object* object = item.if_object();
    record.item_ids.emplace_back(object ? text_at(*object, "id") : "");
  }
}

StoredResponses earlier_responses(const HandlerContext& context, const std::string& owner,
                                  StoredItemParser& memory) {
  StoredResponses kept = stored_responses(context.responses, owner, memory);
  kept.is_running = [&context, owner](std::string_view id) {
    return context.background.is_running(owner, id);
  };
  return kept;
}

// A response that is computed in the background, and its JSON while it is in progress.
struct Detached {
  std::string id;
  json::object response;
  std::shared_ptr<const ResponseStore::Record> record;
};

// Stores the response as one in progress, computes it in the background, and returns its JSON.
Reply detach(ResponseStore& store, BackgroundResponses& background,
             const std::shared_ptr<Detached>& detached, std::unique_ptr<PendingReply> reply) {
  const auto record_with = [detached](const json::object& response) {
    ResponseStore::Record record = *detached->record;
    record.response = json::serialize(response);
    return record;
  };
  ResponseStore::Record begun = record_with(detached->response);
  std::string body = begun.response;
  const std::string owner = begun.owner;
  // First, since it may be complete as soon as it runs.
  if (!store.put_unfinished(detached->id, std::move(begun))) return error_response(no_memory());
  const auto store_unfinished = [&store, detached, record_with](const HttpError* error) {
    json::object response = detached->response;
    response["status"] = error ? "failed" : "cancelled";
    if (error) response["error"] = response_error(*error);
    store.put(detached->id, record_with(response));
  };
  const auto is_added = background.add(
      detached->id,
      {.owner = owner, .reply = std::move(reply), .store_unfinished = store_unfinished});
  if (is_added) return HttpResponse{.status = 200, .body = std::move(body)};
  store.erase(owner, detached->id);
  return error_response(is_added.error());
}

Reply send_stored(const HandlerContext& context, std::string response) {
  ByteShare share(context.memory.answers);
  // and the copy that is sent
  if (!share.grow(2 * response.size())) return error_response(no_memory());
  auto source = std::make_unique<JsonBody>(response.size(), std::move(share));
  source->text(std::move(response));
  return HttpResponse{.status = 200, .body = "", .source = std::move(source)};
}

Reply unknown_response(std::string_view id) {
  return error_response(Error{ErrorCode::kNotFound,
                              fmt::format("the response '{}' is not stored", printable(id)),
                              "response_id"});
}

// Cancels a response, unless it has ended, and returns it.
Reply cancel_response(const HandlerContext& context, const std::string& owner,
                      std::string_view id) {
  context.background.cancel(owner, id);
  auto stored = context.responses.response(owner, id);
  if (!stored) return unknown_response(id);
  StoredItemParser memory{ByteShare(context.memory.all), context.service.card().n_ctx_max};
  const auto response = memory.parse(*stored);
  if (!response) return error_response(no_memory());
  if (at(*response->if_object(), "background") != true) {
    return error_response(Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the response '{}' was not created with background: true, so it cannot be "
                    "cancelled",
                    printable(id)),
        "response_id"});
  }
  return send_stored(context, std::move(*stored));
}

}  // namespace

Reply handle_responses(const HandlerContext& context, const HttpRequest& request,
                       const RequestBody& body) {
  StoredItemParser memory{ByteShare(context.memory.all), context.service.card().n_ctx_max};
  auto call = parse_responses_call(context.service, body, [&](const std::string& salt) {
    return earlier_responses(context, owner_of(context, request, salt), memory);
  });
  if (!memory.has_room) return error_response(no_memory());
  if (!call) {
    Error error = call.error();
    if (error.param == "messages") error.param = "input";
    return error_response(error);
  }
  ResponsesAsked asked{.echo = std::move(call->echo),
                       .includes_encrypted_reasoning = call->includes_encrypted_reasoning,
                       .custom_tools = std::move(call->custom_tools)};
  std::shared_ptr<Detached> detached;
  if (call->is_stored) {
    // The record from which a conversation continues: the input of this answer, and its output.
    // Shared, because functions that hold it are copied.
    const auto record = std::make_shared<ResponseStore::Record>();
    record->owner = owner_of(context, request, call->call.requests.front().engine.cache_salt);
    record->previous = std::move(call->previous);
    add_items(std::exchange(call->items, {}), *record);
    call->call.stored_bytes = record->n_bytes();
    if (call->is_background) {
      detached = std::make_shared<Detached>();
      detached->record = std::make_shared<const ResponseStore::Record>(*record);
      call->call.stored_bytes *= 2;
    }
    asked.keep = [&store = context.responses, record](const json::object& response) {
      record->response = json::serialize(response);
      add_items(response.at("output").as_array(), *record);
      store.put(std::string(text_at(response, "id")), std::move(*record));
    };
  }
  AnswerDialect dialect{
      .id_prefix = "resp_",
      .renamed = {{"prompt", "input"}, {"max_tokens", "max_output_tokens"}},
      .make_writer = [asked = std::move(asked), detached](AnswerEnvelope envelope) {
        if (detached) {
          detached->id = envelope.id;
          detached->response = response_in_progress(envelope, asked);
        }
        return make_responses_writer(std::move(envelope), asked);
      }};
  if (detached) {
    dialect.detach = [&store = context.responses, &background = context.background,
                      detached](std::unique_ptr<PendingReply> reply) {
      return detach(store, background, detached, std::move(reply));
    };
  }
  return start_completion(context, request, std::move(call->call), dialect);
}

Reply handle_count_input(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body) {
  StoredItemParser memory{ByteShare(context.memory.all), context.service.card().n_ctx_max};
  const auto kept_for = [&](const std::string& salt) {
    return earlier_responses(context, owner_of(context, request, salt), memory);
  };
  const auto call = parse_responses_call(context.service, body, kept_for, ResponsesUse::kCount);
  if (!memory.has_room) return error_response(no_memory());
  if (!call) return error_response(call.error());
  const auto& ids = std::get<std::vector<TokenId>>(call->call.requests.front().prompt);
  const json::object out{{"object", "response.input_tokens"}, {"input_tokens", ids.size()}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

Reply handle_response(const HandlerContext& context, const HttpRequest& request) {
  std::string_view id = std::string_view(request.path).substr(kPath.size());
  const bool is_list = id.ends_with(kInputItems);
  const bool is_cancel = id.ends_with(kCancel);
  if (is_list) id.remove_suffix(kInputItems.size());
  if (is_cancel) id.remove_suffix(kCancel.size());
  const bool is_post = request.method == "POST";
  if (is_cancel != is_post || (is_list && request.method == "DELETE")) {
    return error_response(HttpFault{
        405, fmt::format("{} does not take {}", printable(request.path), request.method)});
  }
  const std::string owner = owner_of(context, request, query_value(request.query, "cache_salt"));
  if (is_cancel) return cancel_response(context, owner, id);
  if (is_list) {
    StoredItemParser memory{ByteShare(context.memory.all), context.service.card().n_ctx_max};
    const auto items = input_items(context.responses, owner, id, memory);
    if (!memory.has_room) return error_response(no_memory());
    if (!items) return unknown_response(id);
    const auto page = item_page(*items, request.query);
    if (!page) return error_response(page.error());
    return HttpResponse{.status = 200, .body = json::serialize(*page)};
  }
  if (request.method == "DELETE") {
    const bool has_run = context.background.discard(owner, id);
    if (!context.responses.erase(owner, id) && !has_run) return unknown_response(id);
    const json::object out{{"id", id}, {"object", "response"}, {"deleted", true}};
    return HttpResponse{.status = 200, .body = json::serialize(out)};
  }
  auto stored = context.responses.response(owner, id);
  if (!stored) return unknown_response(id);
  return send_stored(context, std::move(*stored));
}

}  // namespace kvik
