#include "server/dialects/completions/completion_events.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/dialects/event_json.h"

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

json::object choice_json(const AnswerEnvelope& envelope, uint32_t index,
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

class CompletionWriter final : public AnswerWriter {
 public:
  explicit CompletionWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

  std::string whole(std::span<const CompletionChoice> choices,
                    std::span<const Usage> usages) override {
    json::array list;
    const size_t n_each = std::max<size_t>(1, choices.size() / std::max<size_t>(1, usages.size()));
    for (size_t i = 0; i < choices.size(); ++i) {
      json::object choice = choice_json(envelope_, static_cast<uint32_t>(i), choices[i]);
      if (envelope_.wants_prompt_logprobs) {
        const CompletionChoice& first = choices[i - i % n_each];  // of the same prompt
        choice["prompt_logprobs"] = prompt_logprobs_json(first.prompt_logprobs);
      }
      list.emplace_back(std::move(choice));
    }
    json::object out = envelope_json(envelope_, kObject);
    out["choices"] = std::move(list);
    out["usage"] = usage_json(envelope_, usages);
    add_explanation(envelope_, usages, out);
    return json::serialize(out);
  }

  void chunk(const CompletionChunk& chunk, Events& events) override {
    CompletionChoice choice;
    choice.append(chunk);
    json::array list;
    list.emplace_back(choice_json(envelope_, chunk.choice, choice));
    json::object out = envelope_json(envelope_, kObject);
    out["choices"] = std::move(list);
    if (envelope_.include_usage) out["usage"] = nullptr;
    events.push_back(event_of(json::serialize(out)));
  }

  void end(std::span<const Usage> usages, Events& events) override {
    end_openai_stream(envelope_, kObject, usages, events);
  }

  std::string error(const Error& error) const override { return openai_error_event(error); }

 private:
  const AnswerEnvelope envelope_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(AnswerEnvelope envelope) {
  return std::make_unique<CompletionWriter>(std::move(envelope));
}

}  // namespace kvik
