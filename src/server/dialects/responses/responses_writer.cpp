#include "server/dialects/responses/responses_writer.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/dialects/reasoning_seal.h"
#include "server/dialects/responses/output_item.h"
#include "server/http/random_id.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kInProgress = "in_progress";
constexpr std::string_view kIncomplete = "incomplete";

json::object output_details(const Usage& usage) {
  json::object out{{"reasoning_tokens", usage.reasoning_tokens}};
  for (auto& item : draft_tokens_json(usage)) out.emplace(item.key(), item.value());
  return out;
}

json::object usage_of(const AnswerEnvelope& envelope, std::span<const Usage> usages) {
  const Usage usage = sum_of(usages);
  json::object out{{"input_tokens", usage.prompt_tokens},
                   {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                   {"output_tokens", usage.completion_tokens},
                   {"output_tokens_details", output_details(usage)},
                   {"total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens}};
  add_kvik(envelope.prices, usage, out);
  return out;
}

json::object response_with(const AnswerEnvelope& envelope, const ResponsesAsked& asked,
                           std::string_view status, json::array output) {
  json::object out{{"id", envelope.id},
                   {"object", "response"},
                   {"created_at", envelope.created_s},
                   {"status", status},
                   {"background", false},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", envelope.model},
                   {"output", std::move(output)}};
  for (const auto& item : asked.echo) out[item.key()] = item.value();
  out["usage"] = nullptr;
  return out;
}

using Item = OutputItem;

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(AnswerEnvelope envelope, ResponsesAsked asked)
      : envelope_(std::move(envelope)), asked_(std::move(asked)) {}

  void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) override {
    body.once([this, answer](std::string& out) { out += whole(answer->choices, answer->usages); });
  }
  void begin(const PromptProgress& prompt, Events& events) override;
  void chunk(const CompletionChunk& chunk, Events& events) override;
  void end(std::span<const Usage> usages, Events& events) override;
  std::string error(const Error& error) const override;

 private:
  std::string whole(std::span<const CompletionChoice> choices, std::span<const Usage> usages);
  std::string_view status() const {
    return finish_ == FinishReason::kLength ? kIncomplete : "completed";
  }
  json::object response_json(std::string_view status) const;
  json::object ended_json(std::span<const Usage> usages) const;
  Item item_of(const AnswerPart& call) const;
  void add(Item item);
  void end_item(Item& item) const;
  void keep(const json::object& response) const {
    if (asked_.keep) asked_.keep(response);
  }
  void add_event(std::string_view type, json::object data, Events& events);
  void item_event(std::string_view type, json::object data, Events& events);
  void response_event(std::string_view type, json::object response, Events& events);
  void say(Item::Kind kind, std::string_view text, Events& events);
  void open_call(const AnswerPart& call, Events& events);
  void say_arguments(std::string_view arguments, Events& events);
  void write_arguments(std::string_view more, Events& events);
  void end_call(Item& item, Events& events);
  void open_item(Item item, Events& events);
  void close_item(Events& events);

  const AnswerEnvelope envelope_;
  const ResponsesAsked asked_;
  std::vector<Item> items_;  // the last one may be open
  uint64_t n_events_ = 0;
  std::optional<FinishReason> finish_;
};

json::object ResponsesWriter::response_json(std::string_view status) const {
  json::array output;
  for (const Item& item : items_) output.emplace_back(item.json());
  return response_with(envelope_, asked_, status, std::move(output));
}

json::object ResponsesWriter::ended_json(std::span<const Usage> usages) const {
  json::object out = response_json(status());
  if (status() == kIncomplete) out["incomplete_details"] = {{"reason", "max_output_tokens"}};
  out["usage"] = usage_of(envelope_, usages);
  add_explanation(envelope_, usages, out);
  return out;
}

Item ResponsesWriter::item_of(const AnswerPart& call) const {
  return Item::of_call(call, asked_.custom_tools.contains(call.name));
}

void ResponsesWriter::end_item(Item& item) const {
  item.status = item.is_broken ? kIncomplete : status();
  if (item.kind == Item::Kind::kReasoning && asked_.includes_encrypted_reasoning) {
    item.sealed = encode_reasoning(envelope_.model, item.text);
  }
}

void ResponsesWriter::add(Item item) {
  end_item(item);
  items_.push_back(std::move(item));
}

std::string ResponsesWriter::whole(std::span<const CompletionChoice> choices,
                                   std::span<const Usage> usages) {
  const CompletionChoice choice = choices.empty() ? CompletionChoice{} : choices.front();
  finish_ = choice.finish;
  for (const AnswerPart& part : choice.parts) {
    const bool is_call = part.kind == Item::Kind::kCall;
    Item item = is_call ? item_of(part) : Item::of(part.kind);
    if (is_call) {
      item.add_arguments(part.text);
      item.end_arguments();
    } else {
      item.text = part.text;
    }
    add(std::move(item));
  }
  if (choice.parts.empty() || choice.parts.back().kind == Item::Kind::kReasoning) {
    add(Item::of(Item::Kind::kText));
  }
  const json::object response = ended_json(usages);
  keep(response);
  return json::serialize(response);
}

void ResponsesWriter::add_event(std::string_view type, json::object data, Events& events) {
  json::object out{{"type", type}, {"sequence_number", n_events_++}};
  for (auto& item : data) out.emplace(item.key(), std::move(item.value()));
  events.push_back(event_of(type, json::serialize(out)));
}

// Adds an event of the only part of the last item.
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

void ResponsesWriter::open_item(Item item, Events& events) {
  items_.push_back(std::move(item));
  const Item& opened = items_.back();
  add_event("response.output_item.added",
            {{"output_index", items_.size() - 1}, {"item", opened.json()}}, events);
  if (opened.kind == Item::Kind::kCall) return;
  item_event("response.content_part.added", {{"part", opened.part_json()}}, events);
}

void ResponsesWriter::close_item(Events& events) {
  if (items_.empty() || items_.back().status != Item::kInProgress) return;
  Item& item = items_.back();
  end_item(item);
  if (item.kind == Item::Kind::kCall) {
    end_call(item, events);
    add_event("response.output_item.done",
              {{"output_index", items_.size() - 1}, {"item", item.json()}}, events);
    return;
  }
  if (item.kind == Item::Kind::kReasoning) {
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
    open_item(Item::of(kind), events);
  }
  if (text.empty()) return;
  items_.back().text += text;
  if (kind == Item::Kind::kReasoning) {
    item_event("response.reasoning_text.delta", {{"delta", text}}, events);
  } else {
    item_event("response.output_text.delta", {{"delta", text}, {"logprobs", json::array()}},
               events);
  }
}

void ResponsesWriter::open_call(const AnswerPart& call, Events& events) {
  close_item(events);
  open_item(item_of(call), events);
  say_arguments(call.text, events);
}

// Adds arguments of the last item, which is an open call.
void ResponsesWriter::say_arguments(std::string_view arguments, Events& events) {
  write_arguments(items_.back().add_arguments(arguments), events);
}

void ResponsesWriter::write_arguments(std::string_view more, Events& events) {
  if (more.empty()) return;
  const Item& item = items_.back();
  add_event(item.event_kind() + ".delta",
            {{"item_id", item.id}, {"output_index", items_.size() - 1}, {"delta", more}}, events);
}

void ResponsesWriter::end_call(Item& item, Events& events) {
  write_arguments(item.end_arguments(), events);
  json::object done{{"item_id", item.id}, {"output_index", items_.size() - 1}};
  if (!item.is_custom) done["name"] = item.name;
  done[item.is_custom ? "input" : "arguments"] = item.text;
  add_event(item.event_kind() + ".done", std::move(done), events);
}

void ResponsesWriter::chunk(const CompletionChunk& chunk, Events& events) {
  for (const AnswerPart& part : chunk.parts) {
    if (part.kind == Item::Kind::kCall) {
      open_call(part, events);
    } else if (part.kind == Item::Kind::kArguments) {
      say_arguments(part.text, events);
    } else if (part.kind == Item::Kind::kBroken) {
      items_.back().is_broken = true;
      close_item(events);
    } else {
      say(part.kind, part.text, events);
    }
  }
  if (!chunk.finish) return;
  const bool has_said = !items_.empty() && items_.back().kind != Item::Kind::kReasoning;
  if (!has_said) say(Item::Kind::kText, "", events);
  finish_ = chunk.finish;
  close_item(events);
}

void ResponsesWriter::end(std::span<const Usage> usages, Events& events) {
  json::object response = ended_json(usages);
  keep(response);
  response_event("response." + std::string(status()), std::move(response), events);
}

// Returns the answer's final event, and the event that makes clients throw.
std::string ResponsesWriter::error(const Error& error) const {
  const HttpError http = http_error(error);
  json::object response = response_json("failed");
  const json::object reason = response_error(http);
  response["error"] = reason;
  const json::object failed{{"type", "response.failed"},
                            {"sequence_number", n_events_},
                            {"response", std::move(response)}};
  const json::object thrown{{"type", "error"},
                            {"sequence_number", n_events_ + 1},
                            {"code", reason.at("code")},
                            {"message", http.message},
                            {"param", nullptr}};
  return event_of("response.failed", json::serialize(failed)) +
         event_of("error", json::serialize(thrown));
}

}  // namespace

json::object response_in_progress(const AnswerEnvelope& envelope, const ResponsesAsked& asked) {
  return response_with(envelope, asked, kInProgress, {});
}

// Clients require a code; an error without one is called as OpenAI calls those of its class.
json::object response_error(const HttpError& error) {
  const std::string_view code = !error.code.empty()   ? error.code
                                : error.status >= 500 ? "server_error"
                                                      : "invalid_prompt";
  return {{"code", code}, {"message", error.message}};
}

std::unique_ptr<AnswerWriter> make_responses_writer(AnswerEnvelope envelope, ResponsesAsked asked) {
  return std::make_unique<ResponsesWriter>(std::move(envelope), std::move(asked));
}

}  // namespace kvik
