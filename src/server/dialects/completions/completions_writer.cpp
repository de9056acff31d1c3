#include "server/dialects/completions/completions_writer.h"

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
  for (const auto& [token, value] : logprob.top) top.emplace(token, finite_logprob(value));
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
    tokens.emplace_back(logprob.token);
    values.emplace_back(finite_logprob(logprob.logprob));
    tops.emplace_back(top_json(logprob));
    offsets.emplace_back(logprob.text_offset);
    has_tops |= !logprob.top.empty();
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", has_tops ? json::value(std::move(tops)) : json::value(nullptr)},
          {"text_offset", std::move(offsets)}};
}

json::object choice_json(const AnswerEnvelope& envelope, uint32_t index,
                         const CompletionChoice& choice) {
  json::object out{{"index", index},
                   {"text", choice.text},
                   {"logprobs", envelope.wants_logprobs ? logprobs_json(choice.logprobs) : nullptr},
                   {"finish_reason", finish_reason_json(choice.finish)}};
  if (envelope.wants_token_ids)
    out["token_ids"] = json::array(choice.token_ids.begin(), choice.token_ids.end());
  return out;
}

class CompletionsWriter final : public AnswerWriter {
 public:
  explicit CompletionsWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

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
    return whole_openai_json(envelope_, std::move(out), usages);
  }

  void chunk(const CompletionChunk& chunk, Events& events) override {
    CompletionChoice choice;
    choice.append(chunk);
    events.push_back(
        openai_event(envelope_, kObject, choice_json(envelope_, chunk.choice, choice)));
  }

  void end(std::span<const Usage> usages, Events& events) override {
    end_openai_stream(envelope_, kObject, usages, events);
  }

  std::string error(const Error& error) const override { return openai_error_event(error); }

 private:
  const AnswerEnvelope envelope_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completions_writer(AnswerEnvelope envelope) {
  return std::make_unique<CompletionsWriter>(std::move(envelope));
}

}  // namespace kvik
