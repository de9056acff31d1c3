#include "server/dialects/chat/chat_events.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <utility>

#include "server/dialects/event_json.h"
#include "service/reasoning.h"

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
      json::object top;
      top["token"] = to_json_string(token);
      top["logprob"] = finite_logprob(value);
      top["bytes"] = bytes_json(token);
      tops.emplace_back(std::move(top));
    }
    json::object entry;
    entry["token"] = to_json_string(logprob.token);
    entry["logprob"] = finite_logprob(logprob.logprob);
    entry["bytes"] = bytes_json(logprob.bytes);
    entry["top_logprobs"] = std::move(tops);
    content.emplace_back(std::move(entry));
  }
  json::object out;
  out["content"] = std::move(content);
  out["refusal"] = nullptr;
  return out;
}

json::object choice_json(const AnswerEnvelope& envelope, uint32_t index,
                         const CompletionChoice& choice) {
  json::object out;
  out["index"] = index;
  out["logprobs"] = envelope.wants_logprobs ? logprobs_json(choice.logprobs) : nullptr;
  out["finish_reason"] = finish_reason_json(choice.finish);
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
  std::map<uint32_t, ReasoningSplitter> splitters_;  // of the choices that have begun
};

std::string ChatWriter::whole(std::span<const CompletionChoice> choices,
                              std::span<const Usage> usages) {
  json::array list;
  for (const CompletionChoice& choice : choices) {
    const ReasoningSplitter::Parts parts = splitter_of(envelope_).push_last(choice.text);
    json::object message;
    message["role"] = "assistant";
    message["content"] = to_json_string(parts.content);
    message["refusal"] = nullptr;
    if (!parts.reasoning.empty()) message["reasoning_content"] = to_json_string(parts.reasoning);
    json::object out = choice_json(envelope_, static_cast<uint32_t>(list.size()), choice);
    out["message"] = std::move(message);
    list.emplace_back(std::move(out));
  }
  json::object out = envelope_json(envelope_, "chat.completion");
  out["choices"] = std::move(list);
  if (envelope_.wants_prompt_logprobs && !choices.empty())
    out["prompt_logprobs"] = prompt_logprobs_json(choices.front().prompt_logprobs);
  out["usage"] = usage_json(envelope_, usages);
  add_explanation(envelope_, usages, out);
  return json::serialize(out);
}

void ChatWriter::chunk(const CompletionChunk& chunk, Events& events) {
  const auto [it, is_first] = splitters_.try_emplace(chunk.choice, splitter_of(envelope_));
  const ReasoningSplitter::Parts parts = push(it->second, chunk);
  json::object delta;
  if (is_first) {
    delta["role"] = "assistant";
    delta["content"] = "";
  }
  if (!parts.reasoning.empty()) delta["reasoning_content"] = to_json_string(parts.reasoning);
  if (!parts.content.empty()) delta["content"] = to_json_string(parts.content);
  const bool says_nothing = delta.empty() && !chunk.finish && chunk.logprobs.empty() &&
                            !(envelope_.wants_token_ids && !chunk.token_ids.empty());
  if (says_nothing) return;
  CompletionChoice choice;
  choice.append(chunk);
  json::object inner = choice_json(envelope_, chunk.choice, choice);
  inner["delta"] = std::move(delta);
  json::array list;
  list.emplace_back(std::move(inner));
  json::object out = envelope_json(envelope_, kChunkObject);
  out["choices"] = std::move(list);
  if (envelope_.include_usage) out["usage"] = nullptr;
  events.push_back(event_of(json::serialize(out)));
}

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerEnvelope envelope) {
  return std::make_unique<ChatWriter>(std::move(envelope));
}

}  // namespace kvik
