#include "server/dialects/llama_cpp/native_writer.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

double to_milliseconds(Duration duration) { return std::max(to_ms(duration), 0.0); }

double per_second(double n, double ms) { return ms > 0 ? n * 1e3 / ms : 0; }

json::object native_timings_json(std::span<const Usage> usages) {
  const Usage usage = usages.empty() ? Usage() : usages.front();  // a sum has no times
  const uint32_t n_prompt = usage.prompt_tokens - usage.cached_tokens;
  const double prompt_ms = to_milliseconds(usage.ttft - usage.queue_time);
  const double predicted_ms = to_milliseconds(usage.decode_time);
  return {{"cache_n", usage.cached_tokens},
          {"prompt_n", n_prompt},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", n_prompt > 0 ? prompt_ms / n_prompt : 0},
          {"prompt_per_second", per_second(n_prompt, prompt_ms)},
          {"predicted_n", usage.completion_tokens},
          {"predicted_ms", predicted_ms},
          {"predicted_per_token_ms",
           usage.completion_tokens > 0 ? predicted_ms / usage.completion_tokens : 0},
          {"predicted_per_second", per_second(usage.completion_tokens, predicted_ms)}};
}

// Alternatives have no ids, because their texts may stand for several.
json::array probabilities_json(const CompletionChoice& choice) {
  json::array out;
  for (size_t i = 0; i < choice.logprobs.size(); ++i) {
    json::object token = token_logprob_json(choice.logprobs[i]);
    if (i < choice.token_ids.size()) token["id"] = choice.token_ids[i];
    out.emplace_back(std::move(token));
  }
  return out;
}

class NativeWriter final : public AnswerWriter {
 public:
  explicit NativeWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

  void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) override {
    body.once([this, answer](std::string& out) {
      const CompletionChoice& choice = answer->choices.front();
      finish_ = choice.finish;
      stop_string_ = choice.stop_string;
      out += opened(content_json(choice)) + closed(end_json(answer->usages));
    });
  }

  void chunk(const CompletionChunk& chunk, Events& events) override {
    CompletionChoice choice;
    choice.append(chunk);
    if (choice.finish) {
      finish_ = choice.finish;
      stop_string_ = choice.stop_string;
    }
    if (choice.text.empty() && choice.logprobs.empty()) return;
    json::object event = content_json(choice);
    event["stop"] = false;
    events.push_back(event_of(json::serialize(event)));
  }

  void end(std::span<const Usage> usages, Events& events) override {
    json::object event = content_json({});
    for (const auto& field : end_json(usages)) event.insert(field);
    events.push_back(event_of(json::serialize(event)));
  }

  std::string error(const Error& error) const override { return openai_error_event(error); }

 private:
  json::object content_json(const CompletionChoice& choice) const {
    json::object out{{"index", 0}, {"content", to_json_string(choice.text)}};
    out["tokens"] = envelope_.wants_token_ids
                        ? json::array(choice.token_ids.begin(), choice.token_ids.end())
                        : json::array();
    if (envelope_.wants_logprobs) out["completion_probabilities"] = probabilities_json(choice);
    return out;
  }

  json::object end_json(std::span<const Usage> usages) const {
    const Usage usage = sum_of(usages);
    const std::string_view type = stop_string_                       ? "word"
                                  : finish_ == FinishReason::kLength ? "limit"
                                                                     : "eos";
    return {{"stop", true},
            {"model", envelope_.model},
            {"tokens_predicted", usage.completion_tokens},
            {"tokens_evaluated", usage.prompt_tokens},
            {"tokens_cached", usage.prompt_tokens + usage.completion_tokens},
            {"truncated", false},
            {"stop_type", type},
            {"stopping_word", stop_string_.value_or("")},
            {"timings", native_timings_json(usages)}};
  }

  const AnswerEnvelope envelope_;
  std::optional<FinishReason> finish_;
  std::optional<std::string> stop_string_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_native_writer(AnswerEnvelope envelope) {
  return std::make_unique<NativeWriter>(std::move(envelope));
}

}  // namespace kvik
