#include "server/dialects/responses/responses_events.h"

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

json::object usage_of(const AnswerEnvelope& envelope, std::span<const Usage> usages) {
  const Usage usage = sum_of(usages);
  json::object in_details;
  in_details["cached_tokens"] = usage.cached_tokens;
  json::object out_details;
  out_details["reasoning_tokens"] = usage.reasoning_tokens;
  json::object out;
  out["input_tokens"] = usage.prompt_tokens;
  out["input_tokens_details"] = std::move(in_details);
  out["output_tokens"] = usage.completion_tokens;
  out["output_tokens_details"] = std::move(out_details);
  out["total_tokens"] = uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  add_cost(envelope.prices, usage, out);
  return out;
}

// One item of the output: what was thought, or what is said.
struct Item {
  enum class Kind { kThought, kMessage };

  Kind kind;
  std::string id = random_id(kind == Kind::kThought ? "rs_" : "msg_");
  std::string text = {};
  std::string_view status = "in_progress";

  json::object part_json() const {
    json::object part;
    part["type"] = kind == Kind::kThought ? "reasoning_text" : "output_text";
    part["text"] = to_json_string(text);
    if (kind == Kind::kThought) return part;
    part["annotations"] = json::array();
    part["logprobs"] = json::array();
    return part;
  }

  // Without its content while it has none.
  json::object json() const {
    json::object out;
    out["id"] = to_json_string(id);
    out["type"] = kind == Kind::kThought ? "reasoning" : "message";
    out["status"] = to_json_string(status);
    json::array content;
    if (status != "in_progress") content.emplace_back(part_json());
    if (kind == Kind::kThought)
      out["summary"] = json::array();
    else
      out["role"] = "assistant";
    out["content"] = std::move(content);
    return out;
  }
};

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(AnswerEnvelope envelope, json::object echo)
      : envelope_(std::move(envelope)), echo_(std::move(echo)), splitter_(splitter_of(envelope_)) {}

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
  ReasoningSplitter splitter_;
  std::vector<Item> items_;  // the last one may be open
  uint64_t n_events_ = 0;
  std::optional<FinishReason> finish_;
};

json::object ResponsesWriter::response_json(std::string_view status) const {
  json::object out;
  out["id"] = to_json_string(envelope_.id);
  out["object"] = "response";
  out["created_at"] = envelope_.created_s;
  out["status"] = to_json_string(status);
  out["background"] = false;
  out["error"] = nullptr;
  out["incomplete_details"] = nullptr;
  out["model"] = to_json_string(envelope_.model);
  json::array output;
  for (const Item& item : items_) output.emplace_back(item.json());
  out["output"] = std::move(output);
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
  const ReasoningSplitter::Parts parts = splitter_.push_last(choice.text);
  if (!parts.reasoning.empty()) add(Item::Kind::kThought, parts.reasoning);
  add(Item::Kind::kMessage, parts.content);
  return json::serialize(ended_json(usages));
}

void ResponsesWriter::add_event(std::string_view type, json::object data, Events& events) {
  json::object out;
  out["type"] = to_json_string(type);
  out["sequence_number"] = n_events_++;
  for (auto& item : data) out.emplace(item.key(), std::move(item.value()));
  events.push_back(event_of(type, json::serialize(out)));
}

// Of the last item's one part.
void ResponsesWriter::item_event(std::string_view type, json::object data, Events& events) {
  json::object out;
  out["item_id"] = to_json_string(items_.back().id);
  out["output_index"] = items_.size() - 1;
  out["content_index"] = 0;
  for (auto& item : data) out.emplace(item.key(), std::move(item.value()));
  add_event(type, std::move(out), events);
}

void ResponsesWriter::response_event(std::string_view type, json::object response, Events& events) {
  json::object data;
  data["response"] = std::move(response);
  add_event(type, std::move(data), events);
}

void ResponsesWriter::begin(const PromptProgress&, Events& events) {
  response_event("response.created", response_json("in_progress"), events);
  response_event("response.in_progress", response_json("in_progress"), events);
}

void ResponsesWriter::open_item(Item::Kind kind, Events& events) {
  items_.push_back({.kind = kind});
  json::object added;
  added["output_index"] = items_.size() - 1;
  added["item"] = items_.back().json();
  add_event("response.output_item.added", std::move(added), events);
  json::object part;
  part["part"] = items_.back().part_json();
  item_event("response.content_part.added", std::move(part), events);
}

void ResponsesWriter::close_item(Events& events) {
  if (items_.empty() || items_.back().status != "in_progress") return;
  Item& item = items_.back();
  const bool is_thought = item.kind == Item::Kind::kThought;
  item.status = status();
  json::object text;
  text["text"] = to_json_string(item.text);
  if (!is_thought) text["logprobs"] = json::array();
  item_event(is_thought ? "response.reasoning_text.done" : "response.output_text.done",
             std::move(text), events);
  json::object part;
  part["part"] = item.part_json();
  item_event("response.content_part.done", std::move(part), events);
  json::object done;
  done["output_index"] = items_.size() - 1;
  done["item"] = item.json();
  add_event("response.output_item.done", std::move(done), events);
}

void ResponsesWriter::say(Item::Kind kind, std::string_view text, Events& events) {
  if (items_.empty() || items_.back().kind != kind) {
    close_item(events);
    open_item(kind, events);
  }
  if (text.empty()) return;
  items_.back().text += text;
  json::object delta;
  delta["delta"] = to_json_string(text);
  const bool is_thought = kind == Item::Kind::kThought;
  if (!is_thought) delta["logprobs"] = json::array();
  item_event(is_thought ? "response.reasoning_text.delta" : "response.output_text.delta",
             std::move(delta), events);
}

void ResponsesWriter::chunk(const CompletionChunk& chunk, Events& events) {
  const ReasoningSplitter::Parts parts = push(splitter_, chunk);
  if (!parts.reasoning.empty()) say(Item::Kind::kThought, parts.reasoning, events);
  if (!parts.content.empty() || chunk.finish) say(Item::Kind::kMessage, parts.content, events);
  if (!chunk.finish) return;
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
  response["error"] = {{"code", "server_error"}, {"message", to_json_string(http.message)}};
  json::object failed;
  failed["type"] = "response.failed";
  failed["sequence_number"] = n_events_;
  failed["response"] = std::move(response);
  json::object thrown;
  thrown["type"] = "error";
  thrown["sequence_number"] = n_events_ + 1;
  thrown["code"] = to_json_string(http.code);
  thrown["message"] = to_json_string(http.message);
  thrown["param"] = nullptr;
  return event_of("response.failed", json::serialize(failed)) +
         event_of("error", json::serialize(thrown));
}

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(AnswerEnvelope envelope, json::object echo) {
  return std::make_unique<ResponsesWriter>(std::move(envelope), std::move(echo));
}

}  // namespace kvik
