#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/dialects/cache_explanation.h"
#include "server/dialects/json_body.h"
#include "server/dialects/prices.h"
#include "service/service_api.h"

namespace kvik {

// What all JSON of one answer has in common, whatever the dialect.
struct AnswerEnvelope {
  std::string id;  // "cmpl-…", "chatcmpl-…", "msg_…"
  std::string request_id;
  std::string model;
  int64_t created_s = 0;
  bool wants_logprobs = false;
  bool wants_prompt_logprobs = false;
  bool wants_token_ids = false;
  bool include_usage = false;
  bool names_function_call = false;
  std::optional<CacheReach> explain_cache;  // where asked for
  FindText find_text;                       // of the prompts, for that
  std::optional<Prices> prices;
  uint32_t n_marked = 0;  // prompt tokens up to the last mark of cache_control
};

// One choice of a whole answer, put together from its chunks. An event of a stream is the same
// thing with one chunk in it.
struct CompletionChoice {
  std::string text;
  std::vector<AnswerPart> parts;  // of the answer to a chat
  std::vector<TokenId> token_ids;
  std::vector<ChunkLogprob> logprobs;
  std::vector<std::vector<PromptLogprob>> prompt_logprobs;  // of a prompt's first choice
  std::optional<FinishReason> finish;
  std::optional<std::string> stop_string;

  void append(CompletionChunk chunk);
};

struct WholeAnswer {
  std::vector<CompletionChoice> choices;  // choices[i] has index i
  std::vector<Usage> usages;              // usages[i] is prompt i's
};

// How a dialect writes one answer, whole or as the events of a stream. Network thread,
// but for the pieces of a whole one.
class AnswerWriter {
 public:
  using Events = std::deque<std::string>;  // each is written for itself

  virtual ~AnswerWriter() = default;

  // The body of an answer that does not stream. Its parts keep the answer, shared, and borrow this.
  virtual void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) = 0;

  // A stream: begin() comes before the first chunk, when the first prompt is computed; end() behind
  // the last one. error() takes the place of all that would follow, and may come at any time.
  virtual void begin(const PromptProgress& prompt, Events& events) {
    static_cast<void>(prompt);
    static_cast<void>(events);
  }
  virtual void chunk(const CompletionChunk& chunk, Events& events) = 0;
  virtual void end(std::span<const Usage> usages, Events& events) = 0;
  virtual std::string error(const Error& error) const = 0;
  virtual std::string_view heartbeat() const { return ": keep-alive\n\n"; }
};

// Of several prompts together.
Usage sum_of(std::span<const Usage> usages);

}  // namespace kvik
