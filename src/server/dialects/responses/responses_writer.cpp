#include "server/dialects/responses/responses_writer.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/http/random_id.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kInProgress = "in_progress";

json::object usage_of(const AnswerEnvelope& envelope, std::span<const Usage> usages) {
  const Usage usage = sum_of(usages);
  json::object out{{"input_tokens", usage.prompt_tokens},
                   {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                   {"output_tokens", usage.completion_tokens},
                   {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
                   {"total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens}};
  add_cost(envelope.prices, usage, out);
  return out;
}

// One item of the output: what was thought, or what is said.
struct Item {
  using Kind = AnswerPart::Kind;

  Kind kind;
  std::string id = random_id(kind == Kind::kThought ? "rs_" : "msg_");
  std::string text = {};
  std::string_view status = kInProgress;

  json::object part_json() const {
    if (kind == Kind::kThought) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", json::array()},
            {"logprobs", json::array()}};
  }

  // Without its content while it has none.
  json::object json() const {
    const bool is_thought = kind == Kind::kThought;
    json::object out{
        {"id", id}, {"type", is_thought ? "reasoning" : "message"}, {"status", status}};
    if (is_thought)
      out["summary"] = json::array();
    else
      out["role"] = "assistant";
    out["content"] = status == kInProgress ? json::array() : json::array{part_json()};
    return out;
  }
};

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(AnswerEnvelope envelope, json::object echo)
      : envelope_(std::move(envelope)), echo_(std::move(echo)) {}

  std::string whole(std::span<const CompletionChoice> choices,
                    std::span<const Usage> usages) override;
  void begin(const PromptProgress& prompt, Events& events) override;
  void chunk(const CompletionChunk& chunk, Events& events) override;
  void end(std::span<const Usage> usages, Events& events) override;
  std::string error(const Error& error) const override;

 private:
  std::string_view status() const {
    return finish_ == FinishReason::kLength ? "incomplete" : "completed";
  }
  json::object response_json(std::string_view status) const;
  json::object ended_json(std::span<const Usage> usages) const;
  void add(Item::Kind kind, std::string_view text);
  void add_event(std::string_view type, json::object data, Events& events);
  void item_event(std::string_view type, json::object data, Events& events);
  void response_event(std::string_view type, json::object response, Events& events);
  void say(Item::Kind kind, std::string_view text, Events& events);
  void open_item(Item::Kind kind, Events& events);
  void close_item(Events& events);

  const AnswerEnvelope envelope_;
  const json::object echo_;
  std::vector<Item> items_;  // the last one may be open
  uint64_t n_events_ = 0;
  std::optional<FinishReason> finish_;
};

json::object ResponsesWriter::response_json(std::string_view status) const {
  json::array output;
  for (const Item& item : items_) output.emplace_back(item.json());
  json::object out{{"id", envelope_.id},
                   {"object", "response"},
                   {"created_at", envelope_.created_s},
                   {"status", status},
                   {"background", false},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", envelope_.model},
                   {"output", std::move(output)}};
  for (const auto& item : echo_) out[item.key()] = item.value();
  out["usage"] = nullptr;
  return out;
}

json::object ResponsesWriter::ended_json(std::span<const Usage> usages) const {
  json::object out = response_json(status());
  if (status() == "incomplete") out["incomplete_details"] = {{"reason", "max_output_tokens"}};
  out["usage"] = usage_of(envelope_, usages);
  add_explanation(envelope_, usages, out);
  return out;
}

void ResponsesWriter::add(Item::Kind kind, std::string_view text) {
  items_.push_back({.kind = kind});
  items_.back().text = text;
  items_.back().status = status();
}

std::string ResponsesWriter::whole(std::span<const CompletionChoice> choices,
                                   std::span<const Usage> usages) {
  const CompletionChoice choice = choices.empty() ? CompletionChoice{} : choices.front();
  finish_ = choice.finish;
  for (const AnswerPart& part : choice.parts) add(part.kind, part.text);
  if (choice.parts.empty() || choice.parts.back().kind != Item::Kind::kText) {
    add(Item::Kind::kText, "");
  }
  return json::serialize(ended_json(usages));
}

void ResponsesWriter::add_event(std::string_view type, json::object data, Events& events) {
  json::object out{{"type", type}, {"sequence_number", n_events_++}};
  for (auto& item : data) out.emplace(item.key(), std::move(item.value()));
  events.push_back(event_of(type, json::serialize(out)));
}

// Of the last item's one part.
void ResponsesWriter::item_event(std::string_view type, json::object data, Events& events) {
  json::object out{
      {"item_id", items_.back().id}, {"output_index", items_.size() - 1}, {"content_index", 0}};
  for (auto& item : data) out.emplace(item.key(), std::move(item.value()));
  add_event(type, std::move(out), events);
}

void ResponsesWriter::response_event(std::string_view type, json::object response, Events& events) {
  add_event(type, {{"response", std::move(response)}}, events);
}

void ResponsesWriter::begin(const PromptProgress&, Events& events) {
  response_event("response.created", response_json(kInProgress), events);
  response_event("response.in_progress", response_json(kInProgress), events);
}

void ResponsesWriter::open_item(Item::Kind kind, Events& events) {
  items_.push_back({.kind = kind});
  const Item& item = items_.back();
  add_event("response.output_item.added",
            {{"output_index", items_.size() - 1}, {"item", item.json()}}, events);
  item_event("response.content_part.added", {{"part", item.part_json()}}, events);
}

void ResponsesWriter::close_item(Events& events) {
  if (items_.empty() || items_.back().status != kInProgress) return;
  Item& item = items_.back();
  item.status = status();
  if (item.kind == Item::Kind::kThought) {
    item_event("response.reasoning_text.done", {{"text", item.text}}, events);
  } else {
    item_event("response.output_text.done", {{"text", item.text}, {"logprobs", json::array()}},
               events);
  }
  item_event("response.content_part.done", {{"part", item.part_json()}}, events);
  add_event("response.output_item.done",
            {{"output_index", items_.size() - 1}, {"item", item.json()}}, events);
}

void ResponsesWriter::say(Item::Kind kind, std::string_view text, Events& events) {
  if (items_.empty() || items_.back().kind != kind) {
    close_item(events);
    open_item(kind, events);
  }
  if (text.empty()) return;
  items_.back().text += text;
  if (kind == Item::Kind::kThought) {
    item_event("response.reasoning_text.delta", {{"delta", text}}, events);
  } else {
    item_event("response.output_text.delta", {{"delta", text}, {"logprobs", json::array()}},
               events);
  }
}

void ResponsesWriter::chunk(const CompletionChunk& chunk, Events& events) {
  for (const AnswerPart& part : chunk.parts) say(part.kind, part.text, events);
  if (!chunk.finish) return;
  say(Item::Kind::kText, "", events);
  finish_ = chunk.finish;
  close_item(events);
}

void ResponsesWriter::end(std::span<const Usage> usages, Events& events) {
  response_event("response." + std::string(status()), ended_json(usages), events);
}

// The answer's own end, and the event that makes clients throw.
std::string ResponsesWriter::error(const Error& error) const {
  const HttpError http = http_error(error);
  json::object response = response_json("failed");
  response["error"] = {{"code", "server_error"}, {"message", http.message}};
  const json::object failed{{"type", "response.failed"},
                            {"sequence_number", n_events_},
                            {"response", std::move(response)}};
  const json::object thrown{{"type", "error"},
                            {"sequence_number", n_events_ + 1},
                            {"code", http.code},
                            {"message", http.message},
                            {"param", nullptr}};
  return event_of("response.failed", json::serialize(failed)) +
         event_of("error", json::serialize(thrown));
}

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(AnswerEnvelope envelope, json::object echo) {
  return std::make_unique<ResponsesWriter>(std::move(envelope), std::move(echo));
}

}  // namespace kvik
