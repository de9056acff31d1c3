#include "server/dialects/ollama/ollama_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "base/blanks.h"
#include "server/dialects/event_json.h"
#include "server/dialects/utc_time.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;
using Part = AnswerPart::Kind;

// Returns a token without the list of alternatives if there are none.
json::object token_json(const ChunkLogprob& logprob) {
  json::object out = token_logprob_json(logprob);
  if (logprob.top.empty()) out.erase("top_logprobs");
  return out;
}

// Returns JSON without blanks between its values, so that it is one line. Numbers are as written.
std::string one_line(std::string_view text) {
  std::string out;
  bool is_in_string = false;
  bool is_escaped = false;
  for (const char byte : text) {
    if (byte == '"' && !is_escaped) is_in_string = !is_in_string;
    is_escaped = byte == '\\' && !is_escaped;
    if (is_in_string || !is_blank(byte)) out += byte;
  }
  return out;
}

// The new output of an answer, or of a line of a stream.
struct OllamaOutput {
  std::string text, thinking;
  std::string calls;  // JSON objects, separated by commas

  bool empty() const { return text.empty() && thinking.empty() && calls.empty(); }
};

// Returns the beginning of an answer: {"model": …, "created_at": …, "message" or "response": …
std::string begin_answer(const OllamaAnswer& answer, const OllamaOutput& output) {
  const bool is_chat = answer.route == OllamaAnswer::Route::kChat;
  json::object fields;
  if (is_chat) fields["role"] = "assistant";
  fields[is_chat ? "content" : "response"] = json::value(output.text);
  if (!output.thinking.empty()) fields["thinking"] = json::value(output.thinking);
  const json::object head{{"model", answer.model},
                          {"created_at", utc_time_us(std::chrono::system_clock::now())}};
  std::string inner = opened(fields);
  if (!is_chat) return opened(head) + ',' + inner.substr(1);
  if (!output.calls.empty()) inner += ",\"tool_calls\":[" + output.calls + ']';
  return opened(head) + ",\"message\":" + inner + '}';
}

class OllamaWriter final : public AnswerWriter {
 public:
  OllamaWriter(AnswerEnvelope envelope, OllamaAnswer answer)
      : envelope_(std::move(envelope)), answer_(std::move(answer)) {}

  void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) override;
  void chunk(const CompletionChunk& chunk, Events& events) override;
  void end(std::span<const Usage> usages, Events& events) override;
  std::string error(const Error& error) const override {
    return error_json(http_error(error), ErrorShape::kOllama, "").append("\n");
  }
  // A blank before the next object. An empty line would be an object that is missing.
  std::string_view heartbeat() const override { return " "; }
  HttpResponse stream_head() const override { return json_lines_stream(); }

 private:
  OllamaOutput output_of(const std::string& text, const std::vector<AnswerPart>& parts);
  json::object ending_json(std::span<const Usage> usages) const;
  std::string context_json() const;

  const AnswerEnvelope envelope_;
  const OllamaAnswer answer_;
  std::vector<TokenId> new_tokens_;  // tokens of the answer, for `context`
  std::optional<FinishReason> finish_;
  uint32_t n_calls_ = 0;
};

// Calls of streams are whole (CompletionCall::holds_calls).
OllamaOutput OllamaWriter::output_of(const std::string& text,
                                     const std::vector<AnswerPart>& parts) {
  OllamaOutput out;
  if (!answer_.has_parts) out.text = text;
  for (const AnswerPart& part : parts) {
    if (part.kind == Part::kText) out.text += part.text;
    if (part.kind == Part::kReasoning) out.thinking += part.text;
    if (part.kind != Part::kCall) continue;
    if (!out.calls.empty()) out.calls += ',';
    const json::object function{{"index", n_calls_++}, {"name", part.name}};
    out.calls += opened({{"id", call_id(part, "call_")}}) + ",\"function\":" + opened(function) +
                 ",\"arguments\":" + one_line(part.text) + "}}";
  }
  return out;
}

void OllamaWriter::whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) {
  body.once([this, answer](std::string& out) {
    const CompletionChoice& choice = answer->choices.front();
    finish_ = choice.finish;
    out += begin_answer(answer_, output_of(choice.text, choice.parts));
  });
  if (envelope_.wants_logprobs) {
    body.text(",\"logprobs\":[");
    body.each(answer->choices.front().logprobs.size(), [answer](size_t i, std::string& out) {
      out += json::serialize(token_json(answer->choices.front().logprobs[i]));
    });
    body.text("]");
  }
  if (answer_.context) {
    body.once([this, answer](std::string& out) {
      new_tokens_ = answer->choices.front().token_ids;
      out += context_json();
    });
  }
  body.once([this, answer](std::string& out) { out += closed(ending_json(answer->usages)); });
}

void OllamaWriter::chunk(const CompletionChunk& chunk, Events& events) {
  if (chunk.finish) finish_ = chunk.finish;
  if (answer_.context) {
    new_tokens_.insert(new_tokens_.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  }
  const OllamaOutput output = output_of(chunk.text, chunk.parts);
  const bool has_logprobs = envelope_.wants_logprobs && !chunk.logprobs.empty();
  if (output.empty() && !has_logprobs) return;
  json::object rest{{"done", false}};
  if (has_logprobs) {
    json::array logprobs;
    for (const ChunkLogprob& logprob : chunk.logprobs) logprobs.emplace_back(token_json(logprob));
    rest["logprobs"] = std::move(logprobs);
  }
  events.push_back(begin_answer(answer_, output) + closed(rest) + '\n');
}

void OllamaWriter::end(std::span<const Usage> usages, Events& events) {
  std::string line = begin_answer(answer_, {});
  if (answer_.context) line += context_json();
  line += closed(ending_json(usages));
  events.push_back(std::move(line) + '\n');
}

// Returns the fields after the output: counts, and times in nanoseconds. The model is loaded, so
// that load_duration is the time in the queue.
json::object OllamaWriter::ending_json(std::span<const Usage> usages) const {
  const Usage usage = sum_of(usages);
  const Usage times = usages.empty() ? Usage() : usages.front();
  json::object kvik{{"cached_tokens", usage.cached_tokens}};
  if (envelope_.prices) kvik["cost"] = envelope_.prices->cost_of(usage);
  if (envelope_.explain_cache) {
    kvik["cache"] = explanation_json(usages, *envelope_.explain_cache, envelope_.find_text);
  }
  return {{"done", true},
          {"done_reason", finish_ == FinishReason::kLength ? "length" : "stop"},
          {"total_duration", to_ns(std::chrono::steady_clock::now() - answer_.began)},
          {"load_duration", to_ns(times.queue_time)},
          {"prompt_eval_count", usage.prompt_tokens},
          {"prompt_eval_duration", to_ns(times.ttft - times.queue_time)},
          {"eval_count", usage.completion_tokens},
          {"eval_duration", to_ns(times.decode_time)},
          {"kvik", std::move(kvik)}};
}

// Returns the tokens of prompt and answer as a further field of an object.
std::string OllamaWriter::context_json() const {
  std::string out = ",\"context\":[";
  const auto add = [&](const std::vector<TokenId>& ids) {
    for (const TokenId id : ids)
      fmt::format_to(std::back_inserter(out), "{}{}", out.back() == '[' ? "" : ",", id);
  };
  add(*answer_.context);
  add(new_tokens_);
  return out + ']';
}

}  // namespace

std::unique_ptr<AnswerWriter> make_ollama_writer(AnswerEnvelope envelope, OllamaAnswer answer) {
  return std::make_unique<OllamaWriter>(std::move(envelope), std::move(answer));
}

std::string empty_answer_json(const OllamaAnswer& answer, std::string_view done_reason) {
  return begin_answer(answer, {}) + closed({{"done", true}, {"done_reason", done_reason}});
}

int64_t to_ns(Duration duration) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return std::max<int64_t>(ns, 0);
}

std::string json_line(const json::object& object) { return json::serialize(object) + '\n'; }

}  // namespace kvik
