#include "server/dialects/event_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "server/http/status.h"

namespace kvik {

namespace json = boost::json;

namespace {

constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

}  // namespace

json::string to_json_string(std::string_view text) { return json::string(text); }

json::value finish_reason_json(std::optional<FinishReason> finish) {
  if (!finish) return nullptr;
  // The others end in an error instead of a choice.
  return *finish == FinishReason::kLength ? "length" : "stop";
}

double finite_logprob(float logprob) { return std::isfinite(logprob) ? double{logprob} : -9999.0; }

json::array prompt_logprobs_json(std::span<const std::vector<PromptLogprob>> prompt_logprobs) {
  json::array list;
  for (const auto& place : prompt_logprobs) {
    json::object tokens;
    for (const PromptLogprob& logprob : place) {
      tokens.emplace(std::to_string(logprob.id),
                     json::object{{"logprob", finite_logprob(logprob.logprob)},
                                  {"rank", logprob.rank},
                                  {"decoded_token", logprob.token}});
    }
    list.emplace_back(place.empty() ? json::value(nullptr) : json::value(std::move(tokens)));
  }
  return list;
}

void add_cost(const std::optional<Prices>& prices, const Usage& usage, json::object& out) {
  if (prices) out["kvik"] = {{"cost", prices->cost_of(usage)}};
}

json::object usage_json(const AnswerEnvelope& envelope, std::span<const Usage> usages) {
  const Usage usage = sum_of(usages);
  json::object out{{"prompt_tokens", usage.prompt_tokens},
                   {"completion_tokens", usage.completion_tokens},
                   {"total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens},
                   {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                   {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
  add_cost(envelope.prices, usage, out);
  return out;
}

json::object envelope_json(const AnswerEnvelope& envelope, std::string_view object) {
  return {{"id", envelope.id},
          {"object", object},
          {"created", envelope.created_s},
          {"model", envelope.model}};
}

std::string whole_openai_json(const AnswerEnvelope& envelope, json::object out,
                              std::span<const Usage> usages) {
  out["usage"] = usage_json(envelope, usages);
  add_explanation(envelope, usages, out);
  return json::serialize(out);
}

std::string openai_event(const AnswerEnvelope& envelope, std::string_view object,
                         json::object choice) {
  json::object out = envelope_json(envelope, object);
  out["choices"] = json::array{std::move(choice)};
  if (envelope.include_usage) out["usage"] = nullptr;
  return event_of(json::serialize(out));
}

void end_openai_stream(const AnswerEnvelope& envelope, std::string_view object,
                       std::span<const Usage> usages, AnswerWriter::Events& events) {
  if (envelope.include_usage || envelope.explain_cache) {
    json::object out = envelope_json(envelope, object);
    out["choices"] = json::array();
    if (envelope.include_usage) out["usage"] = usage_json(envelope, usages);
    add_explanation(envelope, usages, out);
    events.push_back(event_of(json::serialize(out)));
  }
  events.emplace_back(kDoneEvent);
}

std::string openai_error_event(const Error& error) {
  return event_of(error_json(http_error(error), ErrorShape::kOpenAi, "")).append(kDoneEvent);
}

void add_explanation(const AnswerEnvelope& envelope, std::span<const Usage> usages,
                     json::object& out) {
  if (!envelope.explain_cache) return;
  out["kvik"] = {{"cache", explanation_json(usages, *envelope.explain_cache)}};
}

std::string event_of(std::string_view data) { return std::string("data: ").append(data) + "\n\n"; }

std::string event_of(std::string_view name, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

}  // namespace kvik
