#include "server/dialects/event_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "server/dialects/attest/attestation_json.h"
#include "server/http/random_id.h"
#include "server/http/status.h"

namespace kvik {

namespace json = boost::json;

namespace {

constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

json::array bytes_json(std::string_view bytes) {
  json::array out;
  for (const char byte : bytes) out.emplace_back(static_cast<unsigned char>(byte));
  return out;
}

std::string prompt_place_json(const std::vector<PromptLogprob>& place) {
  if (place.empty()) return "null";
  json::object tokens;
  for (const PromptLogprob& logprob : place) {
    tokens.emplace(std::to_string(logprob.id),
                   json::object{{"logprob", finite_logprob(logprob.logprob)},
                                {"rank", logprob.rank},
                                {"decoded_token", logprob.token}});
  }
  return json::serialize(tokens);
}

}  // namespace

json::string to_json_string(std::string_view text) { return json::string(text); }

std::string call_id(const AnswerPart& call, std::string_view prefix) {
  constexpr size_t kLongest = 64;
  const bool is_fit =
      call.id.size() >= 9 && call.id.size() <= kLongest && printable(call.id) == call.id;
  return is_fit ? call.id : random_id(prefix);
}

json::value finish_reason_json(std::optional<FinishReason> finish) {
  if (!finish) return nullptr;
  // The other reasons end in an error instead of a choice.
  return *finish == FinishReason::kLength ? "length" : "stop";
}

double finite_logprob(float logprob) { return std::isfinite(logprob) ? double{logprob} : -9999.0; }

json::value optional_logprob_json(std::optional<float> logprob) {
  return logprob ? json::value(finite_logprob(*logprob)) : json::value(nullptr);
}

json::object token_logprob_json(const ChunkLogprob& logprob) {
  json::array tops;
  for (const auto& [token, value] : logprob.top) {
    tops.push_back(
        {{"token", token}, {"logprob", finite_logprob(value)}, {"bytes", bytes_json(token)}});
  }
  return {{"token", logprob.token},
          {"logprob", optional_logprob_json(logprob.logprob)},
          {"bytes", bytes_json(logprob.bytes)},
          {"top_logprobs", std::move(tops)}};
}

void add_prompt_logprobs(const std::shared_ptr<const WholeAnswer>& answer, size_t choice,
                         JsonBody& body) {
  body.text(",\"prompt_logprobs\":[");
  body.each(answer->choices[choice].prompt_logprobs.size(),
            [answer, choice](size_t i, std::string& out) {
              out += prompt_place_json(answer->choices[choice].prompt_logprobs[i]);
            });
  body.text("]");
}

json::object draft_tokens_json(const Usage& usage) {
  return {{"accepted_prediction_tokens", usage.accepted_tokens},
          {"rejected_prediction_tokens", usage.drafted_tokens - usage.accepted_tokens}};
}

void add_kvik(const std::optional<Prices>& prices, const Usage& usage, json::object& out) {
  json::object own;
  if (prices) own["cost"] = prices->cost_of(usage);
  if (usage.restored_tokens > 0) own["restored_tokens"] = usage.restored_tokens;
  if (!own.empty()) out["kvik"] = std::move(own);
}

json::object completion_details(const Usage& usage) {
  json::object out{{"reasoning_tokens", usage.reasoning_tokens}};
  for (auto& item : draft_tokens_json(usage)) out.emplace(item.key(), item.value());
  return out;
}

json::object usage_json(const AnswerEnvelope& envelope, std::span<const Usage> usages) {
  const Usage usage = sum_of(usages);
  json::object out{{"prompt_tokens", usage.prompt_tokens},
                   {"completion_tokens", usage.completion_tokens},
                   {"total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens},
                   {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                   {"completion_tokens_details", completion_details(usage)}};
  add_kvik(envelope.prices, usage, out);
  return out;
}

json::object envelope_json(const AnswerEnvelope& envelope, std::string_view object) {
  return {{"id", envelope.id},
          {"object", object},
          {"created", envelope.created_s},
          {"model", envelope.model}};
}

json::object openai_end(const AnswerEnvelope& envelope, const WholeAnswer& answer) {
  json::object out{{"usage", usage_json(envelope, answer.usages)}};
  add_explanation(envelope, answer.usages, out);
  if (envelope.attestation) {
    json::object& own = out.emplace("kvik", json::object()).first->value().get_object();
    own["attest"] = attestation_json(*envelope.attestation, answer);
  }
  return out;
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
  out["kvik"] = {{"cache", explanation_json(usages, *envelope.explain_cache, envelope.find_text)}};
}

std::string event_of(std::string_view data) { return std::string("data: ").append(data) + "\n\n"; }

std::string event_of(std::string_view name, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

}  // namespace kvik
