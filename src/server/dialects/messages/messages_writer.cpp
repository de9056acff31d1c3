#include "server/dialects/messages/messages_writer.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/dialects/reasoning_seal.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

constexpr std::string_view kText = "text";

constexpr std::string_view kThinking = "thinking";

constexpr std::string_view kToolUse = "tool_use";

// Returns the type of a block, which is also the name of its text; not for tool calls.
std::string_view kind_of(const AnswerPart& part) {
  return part.kind == AnswerPart::Kind::kText ? kText : kThinking;
}

json::object block_json(std::string_view kind, std::string_view text, std::string signature = "") {
  json::object block{{"type", kind}, {kind, text}};
  if (kind != kText) block["signature"] = json::string(signature);
  return block;
}

// Returns a block without its input.
json::object call_json(const AnswerPart& call) {
  return {{"type", kToolUse}, {"id", call_id(call, "toolu_")}, {"name", call.name}};
}

std::string_view stop_reason(std::optional<FinishReason> finish, bool has_stop_string, bool calls) {
  if (has_stop_string) return "stop_sequence";
  if (finish == FinishReason::kLength) return "max_tokens";
  return calls ? kToolUse : "end_turn";
}

json::value stop_sequence_json(const std::optional<std::string>& text) {
  return text ? json::value(*text) : json::value(nullptr);
}

std::string typed_event(std::string_view type, json::object data) {
  json::object out{{"type", type}};
  for (auto& item : data) out.emplace(item.key(), std::move(item.value()));
  return event_of(type, json::serialize(out));
}

class MessagesWriter final : public AnswerWriter {
 public:
  explicit MessagesWriter(AnswerEnvelope envelope) : envelope_(std::move(envelope)) {}

  void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) override {
    body.once([this, answer](std::string& out) { out += whole(answer->choices, answer->usages); });
  }
  void begin(const PromptProgress& prompt, Events& events) override;
  void chunk(const CompletionChunk& chunk, Events& events) override;
  void end(std::span<const Usage> usages, Events& events) override;
  std::string error(const Error& error) const override {
    return event_of("error",
                    error_json(http_error(error), ErrorShape::kAnthropic, envelope_.request_id));
  }
  std::string_view heartbeat() const override { return kPing; }

 private:
  std::string whole(std::span<const CompletionChoice> choices, std::span<const Usage> usages);
  json::object message_json() const;
  json::object usage_of(const Usage& usage) const;
  void say(std::string_view kind, std::string_view text, Events& events);
  void open_call(const AnswerPart& call, Events& events);
  void say_arguments(std::string_view json, Events& events);
  void close_block(Events& events);

  const AnswerEnvelope envelope_;
  uint32_t n_blocks_ = 0;
  std::string_view open_;  // kind of the open block; empty: none
  std::string reasoning_;  // reasoning of the open block
  uint32_t n_calls_ = 0;   // complete or open
  std::optional<FinishReason> finish_;
  std::optional<std::string> stop_string_;
};

json::object MessagesWriter::message_json() const {
  return {
      {"id", envelope_.id}, {"type", "message"}, {"role", "assistant"}, {"model", envelope_.model}};
}

json::object MessagesWriter::usage_of(const Usage& usage) const {
  const uint32_t n_marked = std::min(envelope_.n_marked, usage.prompt_tokens);
  const uint32_t n_created = n_marked - std::min(n_marked, usage.cached_tokens);
  json::object out{{"input_tokens", usage.prompt_tokens - usage.cached_tokens - n_created},
                   {"cache_creation_input_tokens", n_created},
                   {"cache_read_input_tokens", usage.cached_tokens},
                   {"output_tokens", usage.completion_tokens}};
  add_kvik(envelope_.prices, usage, out);
  if (usage.drafted_tokens == 0) return out;
  json::object own = out.contains("kvik") ? out["kvik"].as_object() : json::object();
  for (auto& item : draft_tokens_json(usage)) own.emplace(item.key(), item.value());
  out["kvik"] = std::move(own);
  return out;
}

std::string MessagesWriter::whole(std::span<const CompletionChoice> choices,
                                  std::span<const Usage> usages) {
  const CompletionChoice choice = choices.empty() ? CompletionChoice{} : choices.front();
  std::string content;
  for (const AnswerPart& part : choice.parts) {
    if (!content.empty()) content += ',';
    if (part.kind == AnswerPart::Kind::kCall) {  // numbers are as the model wrote them
      content += opened(call_json(part)) + ",\"input\":" + part.text + '}';
    } else {
      content += json::serialize(
          block_json(kind_of(part), part.text, reasoning_signature(envelope_.model, part.text)));
    }
  }
  json::object rest{{"stop_reason", stop_reason(choice.finish, choice.stop_string.has_value(),
                                                has_call(choice.parts))},
                    {"stop_sequence", stop_sequence_json(choice.stop_string)},
                    {"usage", usage_of(sum_of(usages))}};
  add_explanation(envelope_, usages, rest);
  return opened(message_json()) + ",\"content\":[" + content + ']' + closed(rest);
}

void MessagesWriter::begin(const PromptProgress& prompt, Events& events) {
  Usage usage;
  usage.prompt_tokens = prompt.n_all;
  usage.cached_tokens = prompt.n_cached;
  json::object message = message_json();
  message["content"] = json::array();
  message["stop_reason"] = nullptr;
  message["stop_sequence"] = nullptr;
  message["usage"] = usage_of(usage);
  events.push_back(typed_event("message_start", {{"message", std::move(message)}}));
}

void MessagesWriter::say(std::string_view kind, std::string_view text, Events& events) {
  if (open_ != kind) {
    close_block(events);
    open_ = kind;
    events.push_back(typed_event("content_block_start",
                                 {{"index", n_blocks_}, {"content_block", block_json(kind, "")}}));
  }
  if (text.empty()) return;
  if (kind == kThinking) reasoning_ += text;
  const json::object delta{{"type", kind == kText ? "text_delta" : "thinking_delta"}, {kind, text}};
  events.push_back(typed_event("content_block_delta", {{"index", n_blocks_}, {"delta", delta}}));
}

// Begins a tool_use block. Its input starts empty and follows as JSON text.
void MessagesWriter::open_call(const AnswerPart& call, Events& events) {
  close_block(events);
  ++n_calls_;
  json::object block = call_json(call);
  block["input"] = json::object();
  events.push_back(typed_event("content_block_start",
                               {{"index", n_blocks_}, {"content_block", std::move(block)}}));
  open_ = kToolUse;
  say_arguments(call.text, events);
}

void MessagesWriter::say_arguments(std::string_view json, Events& events) {
  if (json.empty()) return;
  const json::object delta{{"type", "input_json_delta"}, {"partial_json", json}};
  events.push_back(typed_event("content_block_delta", {{"index", n_blocks_}, {"delta", delta}}));
}

void MessagesWriter::close_block(Events& events) {
  if (open_.empty()) return;
  if (open_ == kThinking) {
    const json::object delta{{"type", "signature_delta"},
                             {"signature", reasoning_signature(envelope_.model, reasoning_)}};
    events.push_back(typed_event("content_block_delta", {{"index", n_blocks_}, {"delta", delta}}));
    reasoning_.clear();
  }
  open_ = {};
  events.push_back(typed_event("content_block_stop", {{"index", n_blocks_++}}));
}

void MessagesWriter::chunk(const CompletionChunk& chunk, Events& events) {
  for (const AnswerPart& part : chunk.parts) {
    if (part.kind == AnswerPart::Kind::kCall) {
      open_call(part, events);
    } else if (part.kind == AnswerPart::Kind::kArguments) {
      say_arguments(part.text, events);
    } else if (part.kind == AnswerPart::Kind::kBroken) {
      --n_calls_;
      close_block(events);
    } else {
      say(kind_of(part), part.text, events);
    }
  }
  if (!chunk.finish) return;
  close_block(events);
  finish_ = chunk.finish;
  stop_string_ = chunk.stop_string;
}

void MessagesWriter::end(std::span<const Usage> usages, Events& events) {
  json::object data{{"delta",
                     {{"stop_reason", stop_reason(finish_, stop_string_.has_value(), n_calls_ > 0)},
                      {"stop_sequence", stop_sequence_json(stop_string_)}}},
                    {"usage", usage_of(sum_of(usages))}};
  add_explanation(envelope_, usages, data);
  events.push_back(typed_event("message_delta", std::move(data)));
  events.push_back(typed_event("message_stop", {}));
}

}  // namespace

std::unique_ptr<AnswerWriter> make_messages_writer(AnswerEnvelope envelope) {
  return std::make_unique<MessagesWriter>(std::move(envelope));
}

}  // namespace kvik
