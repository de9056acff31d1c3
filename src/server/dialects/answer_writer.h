#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/dialects/cache/cache_explanation.h"
#include "server/dialects/json_body.h"
#include "server/dialects/prices.h"
#include "server/http/pending_reply.h"
#include "service/service_api.h"

namespace kvik {

// The inputs of an answer, from which `kvik verify` can compute it again.
struct Attestation {
  std::string model, numerics, kv_type;                          // as in AttestedAnswer
  std::vector<std::shared_ptr<const AttestedRequest>> requests;  // one per prompt
};

// Fields common to all JSON of one answer, whatever the dialect.
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
  std::optional<CacheReach> explain_cache;  // present if an explanation is requested
  FindText find_text;                       // text of the prompts, for the explanation
  std::optional<Prices> prices;
  uint32_t n_marked = 0;                   // prompt tokens up to the last cache_control mark
  std::optional<Attestation> attestation;  // present if one is requested
};

// One choice of a whole answer, assembled from its chunks. An event of a stream is the same with a
// single chunk.
struct CompletionChoice {
  std::string text;
  std::vector<AnswerPart> parts;  // only for answers to chats
  std::vector<TokenId> token_ids;
  std::vector<LogitsChain::Link> links;
  std::vector<ChunkLogprob> logprobs;
  std::vector<std::vector<PromptLogprob>> prompt_logprobs;  // only in the first choice of a prompt
  std::optional<FinishReason> finish;
  std::optional<std::string> stop_string;
  bool ended_itself = false;  // a stop token ended it
  LogitsChain::Link end_link = 0;

  void append(CompletionChunk chunk);
};

// All choices of an answer that is not streamed.
struct WholeAnswer {
  std::vector<CompletionChoice> choices;  // choices[i] has index i
  std::vector<Usage> usages;              // usages[i] belongs to prompt i
};

// Writes one answer in a dialect, as a whole or as the events of a stream. Network thread, except
// for the pieces of a whole answer.
class AnswerWriter {
 public:
  using Events = std::deque<std::string>;  // each is written separately

  virtual ~AnswerWriter() = default;

  // Writes the body of an answer that is not streamed. Its parts share the answer and borrow this
  // writer.
  virtual void whole(const std::shared_ptr<const WholeAnswer>& answer, JsonBody& body) = 0;

  // A stream: begin() is called before the first chunk, when the first prompt is computed; end()
  // after the last chunk. error() replaces everything that would follow, and may be called at any
  // time.
  virtual void begin(const PromptProgress& prompt, Events& events) {
    static_cast<void>(prompt);
    static_cast<void>(events);
  }
  virtual void chunk(const CompletionChunk& chunk, Events& events) = 0;
  virtual void end(std::span<const Usage> usages, Events& events) = 0;
  virtual std::string error(const Error& error) const = 0;
  virtual std::string_view heartbeat() const { return ": keep-alive\n\n"; }
  virtual HttpResponse stream_head() const { return event_stream(); }
};

// Returns the sum over several prompts.
Usage sum_of(std::span<const Usage> usages);

}  // namespace kvik
