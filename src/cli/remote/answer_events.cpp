#include "cli/remote/answer_events.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "cli/remote/http_client.h"

namespace kvik {
namespace {

namespace json = boost::json;

const json::object* object_in(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value ? value->if_object() : nullptr;
}

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

uint32_t count_of(const json::object* object, std::string_view name) {
  const json::value* value = object ? object->if_contains(name) : nullptr;
  if (!value || !value->is_int64() || value->get_int64() < 0) return 0;
  return static_cast<uint32_t>(value->get_int64());
}

void read_usage(const json::object& given, Usage& usage) {
  usage.prompt_tokens = count_of(&given, "prompt_tokens");
  usage.completion_tokens = count_of(&given, "completion_tokens");
  usage.cached_tokens = count_of(object_in(given, "prompt_tokens_details"), "cached_tokens");
  const json::object* const details = object_in(given, "completion_tokens_details");
  usage.reasoning_tokens = count_of(details, "reasoning_tokens");
  usage.accepted_tokens = count_of(details, "accepted_prediction_tokens");
  usage.drafted_tokens = usage.accepted_tokens + count_of(details, "rejected_prediction_tokens");
}

// Returns the part of the answer that a choice holds: of a chat in `delta`, of a text in `text`.
CompletionChunk chunk_of(const json::object& choice) {
  CompletionChunk chunk;
  chunk.text = text_of(choice, "text");
  if (const json::object* delta = object_in(choice, "delta")) {
    using Kind = AnswerPart::Kind;
    for (const char* name : {"reasoning_content", "reasoning"}) {
      if (std::string text = text_of(*delta, name); !text.empty()) {
        chunk.parts.push_back({.kind = Kind::kReasoning, .text = std::move(text)});
        break;
      }
    }
    if (std::string text = text_of(*delta, "content"); !text.empty()) {
      chunk.parts.push_back({.kind = Kind::kText, .text = std::move(text)});
    }
  }
  if (const json::value* ids = choice.if_contains("token_ids"); ids && ids->is_array()) {
    for (const json::value& id : ids->get_array()) {
      if (id.is_int64()) chunk.token_ids.push_back(static_cast<TokenId>(id.get_int64()));
    }
  }
  const std::string finish = text_of(choice, "finish_reason");
  if (finish == "length") chunk.finish = FinishReason::kLength;
  if (!finish.empty() && !chunk.finish) chunk.finish = FinishReason::kStop;
  return chunk;
}

}  // namespace

Result<void> AnswerEvents::read(std::string_view data, TimePoint now, CompletionSink& sink) {
  if (data == "[DONE]") {
    is_done_ = true;
    return {};
  }
  std::error_code failed;
  const json::value parsed = json::parse(data, failed);
  const json::object* const event = failed ? nullptr : parsed.if_object();
  if (!event) return fail(ErrorCode::kCorrupt, "the server sent an event that is not JSON");
  if (object_in(*event, "error")) {
    return std::unexpected<Error>(error_of({.status = 500, .body = std::string(data)}));
  }
  if (const json::object* usage = object_in(*event, "usage")) read_usage(*usage, usage_);
  const json::value* const choices = event->if_contains("choices");
  if (!choices || !choices->is_array() || choices->get_array().empty()) return {};
  const json::object* const choice = choices->get_array().front().if_object();
  if (!choice) return {};
  CompletionChunk chunk = chunk_of(*choice);
  if (!chunk.text.empty() || !chunk.parts.empty() || !chunk.token_ids.empty()) {
    if (!std::exchange(has_text_, true)) {
      first_at_ = now;
      usage_.ttft = now - begin_;
    }
    usage_.decode_time = now - first_at_;
  }
  has_finish_ |= chunk.finish.has_value();
  sink.on_chunk(std::move(chunk));
  return {};
}

}  // namespace kvik
