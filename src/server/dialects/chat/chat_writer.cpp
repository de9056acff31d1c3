#include "server/dialects/chat/chat_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <utility>

#include "server/dialects/event_json.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kChunkObject = "chat.completion.chunk";

json::value logprobs_json(std::span<const ChunkLogprob> logprobs) {
  json::array content;
  for (const ChunkLogprob& logprob : logprobs) content.emplace_back(token_logprob_json(logprob));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// Returns the fields after the logprobs of a choice. `calls`: it has tool calls.
json::object rest_json(const AnswerEnvelope& envelope, const CompletionChoice& choice, bool calls) {
  json::object out{{"finish_reason", finish_reason_json(choice.finish)}};
  if (choice.finish == FinishReason::kStop && calls) {
    out["finish_reason"] = envelope.names_function_call ? "function_call" : "tool_calls";
  }
  if (envelope.wants_token_ids)
    out["token_ids"] = json::array(choice.token_ids.begin(), choice.token_ids.end());
  return out;
}

json::object function_json(std::string_view name, std::string_view arguments) {
  return {{"name", name}, {"arguments", arguments}};
}

json::array calls_json(const std::vector<AnswerPart>& parts) {
  json::array calls;
  for (const AnswerPart& part : parts) {
    if (part.kind != AnswerPart::Kind::kCall) continue;
    calls.push_back({{"id", call_id(part, "call_")},
                     {"type", "function"},
                     {"function", function_json(part.name, part.text)}});
  }
  return calls;
}

json::object message_json(const AnswerEnvelope& envelope, const CompletionChoice& choice) {
  const std::string reasoning = text_of(choice.parts, AnswerPart::Kind::kReasoning);
  json::object message{{"role", "assistant"},
                       {"content", text_of(choice.parts, AnswerPart::Kind::kText)},
                       {"refusal", nullptr}};
  if (has_call(choice.parts)) {
    if (message["content"] == "") message["content"] = nullptr;
    const auto first = std::ranges::find(choice.parts, AnswerPart::Kind::kCall, &AnswerPart::kind);
    if (envelope.names_function_call) {
      message["function_call"] = function_json(first->name, first->text);
    } else {
      message["tool_calls"] = calls_json(choice.parts);
    }
  }
  if (!reasoning.empty()) message["reasoning_content"] = json::value(reasoning);
  return message;
}

class ChatWriter final : public AnswerWriter {
 public:
  explicit ChatWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

  void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) override;
  void chunk(const CompletionChunk& chunk, Events& events) override;
  void end(std::span<const Usage> usages, Events& events) override {
    end_openai_stream(envelope_, kChunkObject, usages, events);
  }
  std::string error(const Error& error) const override { return openai_error_event(error); }

 private:
  void add_choice(const std::shared_ptr<const WholeAnswer>& answer, size_t i, JsonBody& body);
  void say(uint32_t choice, json::object delta, Events& events) const;
  void write_call(uint32_t choice, const AnswerPart& part, Events& events);
  void write_arguments(uint32_t choice, std::string_view arguments, Events& events);

  const AnswerEnvelope envelope_;
  std::set<uint32_t> begun_;  // choices that have begun
  // number of calls of each choice that have begun, and of those that are complete or open
  std::map<uint32_t, uint32_t> n_begun_calls_, n_calls_;
};

void ChatWriter::whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) {
  body.text(opened(envelope_json(envelope_, "chat.completion")) + ",\"choices\":[");
  for (size_t i = 0; i < answer->choices.size(); ++i) add_choice(answer, i, body);
  body.text("]");
  if (envelope_.wants_prompt_logprobs && !answer->choices.empty())
    add_prompt_logprobs(answer, 0, body);
  body.once([this, answer](std::string& out) { out += closed(openai_end(envelope_, *answer)); });
}

void ChatWriter::add_choice(const std::shared_ptr<const WholeAnswer>& answer, size_t i,
                            JsonBody& body) {
  body.text(fmt::format("{}{{\"index\":{},\"logprobs\":", i > 0 ? "," : "", i));
  if (envelope_.wants_logprobs) {
    body.text("{\"content\":[");
    body.each(answer->choices[i].logprobs.size(), [answer, i](size_t at, std::string& out) {
      out += json::serialize(token_logprob_json(answer->choices[i].logprobs[at]));
    });
    body.text("],\"refusal\":null}");
  } else {
    body.text("null");
  }
  body.once([this, answer, i](std::string& out) {
    const CompletionChoice& choice = answer->choices[i];
    json::object rest = rest_json(envelope_, choice, has_call(choice.parts));
    rest["message"] = message_json(envelope_, choice);
    out += closed(rest);
  });
}

// Begins a tool call; its arguments follow in further events.
void ChatWriter::write_call(uint32_t choice, const AnswerPart& part, Events& events) {
  const uint32_t index = n_begun_calls_[choice]++;
  ++n_calls_[choice];
  const json::object function = function_json(part.name, "");
  if (envelope_.names_function_call) {
    say(choice, {{"function_call", function}}, events);
  } else {
    const json::object opening{{"index", index},
                               {"id", call_id(part, "call_")},
                               {"type", "function"},
                               {"function", function}};
    say(choice, {{"tool_calls", json::array{opening}}}, events);
  }
  if (!part.text.empty()) write_arguments(choice, part.text, events);
}

// Writes more arguments of the choice's last call.
void ChatWriter::write_arguments(uint32_t choice, std::string_view arguments, Events& events) {
  const json::object function{{"arguments", arguments}};
  if (envelope_.names_function_call) return say(choice, {{"function_call", function}}, events);
  const json::object more{{"index", n_begun_calls_[choice] - 1}, {"function", function}};
  say(choice, {{"tool_calls", json::array{more}}}, events);
}

void ChatWriter::say(uint32_t choice, json::object delta, Events& events) const {
  const json::object inner{{"index", choice},
                           {"delta", std::move(delta)},
                           {"logprobs", nullptr},
                           {"finish_reason", nullptr}};
  events.push_back(openai_event(envelope_, kChunkObject, inner));
}

void ChatWriter::chunk(const CompletionChunk& chunk, Events& events) {
  const std::string reasoning = text_of(chunk.parts, AnswerPart::Kind::kReasoning);
  const std::string text = text_of(chunk.parts, AnswerPart::Kind::kText);
  json::object delta;
  if (begun_.insert(chunk.choice).second) {
    delta["role"] = "assistant";
    delta["content"] = "";
  }
  if (!reasoning.empty()) delta["reasoning_content"] = json::value(reasoning);
  if (!text.empty()) delta["content"] = json::value(text);
  if (continues_call(chunk.parts)) write_arguments(chunk.choice, chunk.parts.front().text, events);
  if (has_call(chunk.parts)) {  // earlier text comes first
    if (!delta.empty()) say(chunk.choice, std::exchange(delta, {}), events);
    for (const AnswerPart& part : chunk.parts) {
      if (part.kind == AnswerPart::Kind::kCall) write_call(chunk.choice, part, events);
    }
  }
  if (breaks_call(chunk.parts)) --n_calls_[chunk.choice];
  const bool says_nothing = delta.empty() && !chunk.finish && chunk.logprobs.empty() &&
                            !(envelope_.wants_token_ids && !chunk.token_ids.empty());
  if (says_nothing) return;
  CompletionChoice choice;
  choice.append(chunk);
  json::object inner{
      {"index", chunk.choice},
      {"logprobs", envelope_.wants_logprobs ? logprobs_json(choice.logprobs) : nullptr}};
  for (auto& field : rest_json(envelope_, choice, n_calls_[chunk.choice] > 0)) inner.insert(field);
  inner["delta"] = std::move(delta);
  events.push_back(openai_event(envelope_, kChunkObject, std::move(inner)));
}

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerEnvelope envelope) {
  return std::make_unique<ChatWriter>(std::move(envelope));
}

}  // namespace kvik
