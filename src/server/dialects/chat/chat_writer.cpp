#include "server/dialects/chat/chat_writer.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

#include "server/dialects/event_json.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kChunkObject = "chat.completion.chunk";

json::array bytes_json(std::string_view bytes) {
  json::array out;
  for (const char byte : bytes) out.emplace_back(static_cast<unsigned char>(byte));
  return out;
}

json::value logprobs_json(std::span<const ChunkLogprob> logprobs) {
  json::array content;
  for (const ChunkLogprob& logprob : logprobs) {
    json::array tops;
    for (const auto& [token, value] : logprob.top) {
      tops.push_back(
          {{"token", token}, {"logprob", finite_logprob(value)}, {"bytes", bytes_json(token)}});
    }
    content.push_back({{"token", logprob.token},
                       {"logprob", finite_logprob(logprob.logprob)},
                       {"bytes", bytes_json(logprob.bytes)},
                       {"top_logprobs", std::move(tops)}});
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json::object choice_json(const AnswerEnvelope& envelope, uint32_t index,
                         const CompletionChoice& choice) {
  json::object out{{"index", index},
                   {"logprobs", envelope.wants_logprobs ? logprobs_json(choice.logprobs) : nullptr},
                   {"finish_reason", finish_reason_json(choice.finish)}};
  if (envelope.wants_token_ids)
    out["token_ids"] = json::array(choice.token_ids.begin(), choice.token_ids.end());
  return out;
}

class ChatWriter final : public AnswerWriter {
 public:
  explicit ChatWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

  std::string whole(std::span<const CompletionChoice> choices,
                    std::span<const Usage> usages) override;
  void chunk(const CompletionChunk& chunk, Events& events) override;
  void end(std::span<const Usage> usages, Events& events) override {
    end_openai_stream(envelope_, kChunkObject, usages, events);
  }
  std::string error(const Error& error) const override { return openai_error_event(error); }

 private:
  const AnswerEnvelope envelope_;
  std::set<uint32_t> begun_;  // choices
};

std::string ChatWriter::whole(std::span<const CompletionChoice> choices,
                              std::span<const Usage> usages) {
  json::array list;
  for (const CompletionChoice& choice : choices) {
    const std::string thought = text_of(choice.parts, AnswerPart::Kind::kThought);
    json::object message{{"role", "assistant"},
                         {"content", text_of(choice.parts, AnswerPart::Kind::kText)},
                         {"refusal", nullptr}};
    if (!thought.empty()) message["reasoning_content"] = json::value(thought);
    json::object out = choice_json(envelope_, static_cast<uint32_t>(list.size()), choice);
    out["message"] = std::move(message);
    list.emplace_back(std::move(out));
  }
  json::object out = envelope_json(envelope_, "chat.completion");
  out["choices"] = std::move(list);
  if (envelope_.wants_prompt_logprobs && !choices.empty())
    out["prompt_logprobs"] = prompt_logprobs_json(choices.front().prompt_logprobs);
  return whole_openai_json(envelope_, std::move(out), usages);
}

void ChatWriter::chunk(const CompletionChunk& chunk, Events& events) {
  const std::string thought = text_of(chunk.parts, AnswerPart::Kind::kThought);
  const std::string text = text_of(chunk.parts, AnswerPart::Kind::kText);
  json::object delta;
  if (begun_.insert(chunk.choice).second) {
    delta["role"] = "assistant";
    delta["content"] = "";
  }
  if (!thought.empty()) delta["reasoning_content"] = json::value(thought);
  if (!text.empty()) delta["content"] = json::value(text);
  const bool says_nothing = delta.empty() && !chunk.finish && chunk.logprobs.empty() &&
                            !(envelope_.wants_token_ids && !chunk.token_ids.empty());
  if (says_nothing) return;
  CompletionChoice choice;
  choice.append(chunk);
  json::object inner = choice_json(envelope_, chunk.choice, choice);
  inner["delta"] = std::move(delta);
  events.push_back(openai_event(envelope_, kChunkObject, std::move(inner)));
}

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerEnvelope envelope) {
  return std::make_unique<ChatWriter>(std::move(envelope));
}

}  // namespace kvik
