#include "server/completion_events.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <iterator>

#include "server/event_json.h"
#include "server/status.h"

namespace kvik {

namespace json = boost::json;

namespace {

constexpr std::string_view kObject = "text_completion";

json::value top_json(const ChunkLogprob& logprob) {
  json::object top;
  // Two tokens may have the same text; the likelier one comes first and stays.
  for (const auto& [token, value] : logprob.top)
    top.emplace(json::string_view(token.data(), token.size()), finite_logprob(value));
  return top;
}

// OpenAI's legacy shape: four arrays side by side.
json::value logprobs_json(std::span<const ChunkLogprob> logprobs) {
  json::array tokens;
  json::array values;
  json::array tops;
  json::array offsets;
  bool has_tops = false;
  for (const ChunkLogprob& logprob : logprobs) {
    tokens.emplace_back(to_json_string(logprob.token));
    values.emplace_back(finite_logprob(logprob.logprob));
    tops.emplace_back(top_json(logprob));
    offsets.emplace_back(logprob.text_offset);
    has_tops |= !logprob.top.empty();
  }
  json::object out;
  out["tokens"] = std::move(tokens);
  out["token_logprobs"] = std::move(values);
  out["top_logprobs"] = has_tops ? json::value(std::move(tops)) : json::value(nullptr);
  out["text_offset"] = std::move(offsets);
  return out;
}

json::value choice_json(const CompletionEnvelope& envelope, uint32_t index,
                        const CompletionChoice& choice) {
  json::object out;
  out["index"] = index;
  out["text"] = to_json_string(choice.text);
  out["logprobs"] = envelope.wants_logprobs ? logprobs_json(choice.logprobs) : nullptr;
  out["finish_reason"] = finish_reason_json(choice.finish);
  if (envelope.wants_token_ids)
    out["token_ids"] = json::array(choice.token_ids.begin(), choice.token_ids.end());
  return out;
}

}  // namespace

json::string to_json_string(std::string_view text) {
  return json::string(text.data(), text.size());
}

json::value finish_reason_json(std::optional<FinishReason> finish) {
  if (!finish) return nullptr;
  // The others end in an error instead of a choice.
  return *finish == FinishReason::kLength ? "length" : "stop";
}

double finite_logprob(float logprob) { return std::isfinite(logprob) ? double{logprob} : -9999.0; }

json::object usage_json(std::span<const Usage> usages) {
  const Usage usage = sum_of(usages);
  json::object prompt_details;
  prompt_details["cached_tokens"] = usage.cached_tokens;
  json::object completion_details;
  completion_details["reasoning_tokens"] = 0;
  json::object out;
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  out["prompt_tokens_details"] = std::move(prompt_details);
  out["completion_tokens_details"] = std::move(completion_details);
  return out;
}

json::object envelope_json(const CompletionEnvelope& envelope, std::string_view object) {
  json::object out;
  out["id"] = to_json_string(envelope.id);
  out["object"] = to_json_string(object);
  out["created"] = envelope.created_s;
  out["model"] = to_json_string(envelope.model);
  return out;
}

void add_explanation(const CompletionEnvelope& envelope, std::span<const Usage> usages,
                     json::object& out) {
  if (!envelope.explain_cache) return;
  json::object own;
  own["cache"] = explanation_json(usages, *envelope.explain_cache);
  out["kvik"] = std::move(own);
}

std::string event_of(std::string_view data) { return std::string("data: ").append(data) + "\n\n"; }

void CompletionChoice::append(CompletionChunk chunk) {
  text += chunk.text;
  token_ids.insert(token_ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  std::ranges::move(chunk.logprobs, std::back_inserter(logprobs));
  if (chunk.finish) finish = chunk.finish;
}

Usage sum_of(std::span<const Usage> usages) {
  Usage sum;
  for (const Usage& usage : usages) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.completion_tokens += usage.completion_tokens;
    sum.cached_tokens += usage.cached_tokens;
  }
  return sum;
}

std::string completion_json(const CompletionEnvelope& envelope,
                            std::span<const CompletionChoice> choices,
                            std::span<const Usage> usages) {
  json::array list;
  for (const CompletionChoice& choice : choices)
    list.emplace_back(choice_json(envelope, static_cast<uint32_t>(list.size()), choice));
  json::object out = envelope_json(envelope, kObject);
  out["choices"] = std::move(list);
  out["usage"] = usage_json(usages);
  add_explanation(envelope, usages, out);
  return json::serialize(out);
}

std::string chunk_event(const CompletionEnvelope& envelope, const CompletionChunk& chunk) {
  CompletionChoice choice;
  choice.append(chunk);
  json::array list;
  list.emplace_back(choice_json(envelope, chunk.choice, choice));
  json::object out = envelope_json(envelope, kObject);
  out["choices"] = std::move(list);
  if (envelope.include_usage) out["usage"] = nullptr;
  return event_of(json::serialize(out));
}

std::string usage_event(const CompletionEnvelope& envelope, std::span<const Usage> usages) {
  const bool is_chat = envelope.dialect == CompletionEnvelope::Dialect::kChat;
  if (!envelope.include_usage && !envelope.explain_cache) return "";
  json::object out = envelope_json(envelope, is_chat ? "chat.completion.chunk" : kObject);
  out["choices"] = json::array();
  if (envelope.include_usage) out["usage"] = usage_json(usages);
  add_explanation(envelope, usages, out);
  return event_of(json::serialize(out));
}

std::string error_event(const Error& error) { return event_of(error_json(error)); }

}  // namespace kvik
