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
  if (!logprob.logprob) return nullptr;
  json::object top;
  // If two tokens have the same text, the more likely one comes first and is kept.
  for (const auto& [token, value] : logprob.top) top.emplace(token, finite_logprob(value));
  return top;
}

// OpenAI's legacy format: four parallel arrays.
json::value logprobs_json(std::span<const ChunkLogprob> logprobs) {
  json::array tokens;
  json::array values;
  json::array tops;
  json::array offsets;
  bool has_tops = false;
  for (const ChunkLogprob& logprob : logprobs) {
    tokens.emplace_back(logprob.token);
    values.emplace_back(optional_logprob_json(logprob.logprob));
    tops.emplace_back(top_json(logprob));
    offsets.emplace_back(logprob.text_offset);
    has_tops |= !logprob.top.empty();
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", has_tops ? json::value(std::move(tops)) : json::value(nullptr)},
          {"text_offset", std::move(offsets)}};
}

// The same in pieces.
void add_logprobs(const std::shared_ptr<const WholeAnswer>& answer, size_t i, JsonBody& body) {
  const auto add = [&](std::string_view name, auto&& json_of) {
    body.text(std::string(name));
    body.each(answer->choices[i].logprobs.size(),
              [answer, i, json_of](size_t at, std::string& out) {
                out += json::serialize(json::value(json_of(answer->choices[i].logprobs[at])));
              });
  };
  const auto has_top = [](const ChunkLogprob& logprob) { return !logprob.top.empty(); };
  add(R"({"tokens":[)", [](const ChunkLogprob& logprob) { return to_json_string(logprob.token); });
  add(R"(],"token_logprobs":[)",
      [](const ChunkLogprob& logprob) { return optional_logprob_json(logprob.logprob); });
  if (std::ranges::any_of(answer->choices[i].logprobs, has_top)) {
    add(R"(],"top_logprobs":[)", top_json);
    body.text("]");
  } else {
    body.text(R"(],"top_logprobs":null)");
  }
  add(R"(,"text_offset":[)", [](const ChunkLogprob& logprob) { return logprob.text_offset; });
  body.text("]}");
}

// Returns the fields after the logprobs of a choice.
json::object rest_json(const AnswerEnvelope& envelope, const CompletionChoice& choice) {
  json::object out{{"finish_reason", finish_reason_json(choice.finish)}};
  if (envelope.wants_token_ids)
    out["token_ids"] = json::array(choice.token_ids.begin(), choice.token_ids.end());
  return out;
}

class CompletionsWriter final : public AnswerWriter {
 public:
  explicit CompletionsWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

  void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) override {
    body.text(opened(envelope_json(envelope_, kObject)) + ",\"choices\":[");
    for (size_t i = 0; i < answer->choices.size(); ++i) add_choice(answer, i, body);
    body.text("]");
    body.once([this, answer](std::string& out) { out += closed(openai_end(envelope_, *answer)); });
  }

  void chunk(const CompletionChunk& chunk, Events& events) override {
    CompletionChoice choice;
    choice.append(chunk);
    json::object inner{
        {"index", chunk.choice},
        {"text", choice.text},
        {"logprobs", envelope_.wants_logprobs ? logprobs_json(choice.logprobs) : nullptr}};
    for (auto& field : rest_json(envelope_, choice)) inner.insert(field);
    events.push_back(openai_event(envelope_, kObject, std::move(inner)));
  }

  void end(std::span<const Usage> usages, Events& events) override {
    end_openai_stream(envelope_, kObject, usages, events);
  }

  std::string error(const Error& error) const override { return openai_error_event(error); }

 private:
  void add_choice(const std::shared_ptr<const WholeAnswer>& answer, size_t i, JsonBody& body) {
    if (i > 0) body.text(",");
    body.once([answer, i](std::string& out) {
      out += opened({{"index", i}, {"text", answer->choices[i].text}});
    });
    body.text(envelope_.wants_logprobs ? ",\"logprobs\":" : ",\"logprobs\":null");
    if (envelope_.wants_logprobs) add_logprobs(answer, i, body);
    body.once([this, answer, i](std::string& out) {
      out += closed(rest_json(envelope_, answer->choices[i]));
      out.pop_back();
    });
    if (envelope_.wants_prompt_logprobs) {
      const size_t n_prompts = std::max<size_t>(1, answer->usages.size());
      const size_t n_each = std::max<size_t>(1, answer->choices.size() / n_prompts);
      add_prompt_logprobs(answer, i - i % n_each,
                          body);  // those of the first choice of the same prompt
    }
    body.text("}");
  }

  const AnswerEnvelope envelope_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completions_writer(AnswerEnvelope envelope) {
  return std::make_unique<CompletionsWriter>(std::move(envelope));
}

}  // namespace kvik
