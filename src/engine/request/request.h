#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/token_id.h"
#include "kv/cache_report.h"
#include "kv/pin.h"

namespace kvik {

class Adapter;
class Constraint;

enum class RequestId : uint64_t {};

// How the next token is picked. The defaults leave the model's distribution as it is.
struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy
  uint32_t top_k = 0;               // 0: off
  float top_p = 1.0f;               // in (0, 1]
  float min_p = 0.0f;               // in [0, 1], relative to the most likely token
  float repetition_penalty = 1.0f;  // > 0; over prompt and answer (Keskar et al. 2019)
  float presence_penalty = 0.0f;    // over the answer, as OpenAI defines it
  float frequency_penalty = 0.0f;
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  uint64_t seed = 0;          // the same seed gives the same tokens, in whatever company
  uint32_t choice_index = 0;  // of `n`: choices of one seed differ
};

// What the cache knows of a tenant.
inline uint64_t tenant_hash(const std::string& tenant) { return std::hash<std::string>()(tenant); }

struct Request {
  std::vector<TokenId> prompt;  // at least one
  SamplingParams sampling;
  uint32_t max_tokens = 16;
  uint32_t min_tokens = 0;             // stop tokens are masked before
  std::vector<TokenId> stop_tokens;    // end the answer and are not part of it
  std::optional<uint32_t> n_logprobs;  // also report the chosen token's and the n most likely ones'
  // Null: none. Shared, because all choices of a completion begin at its state.
  std::shared_ptr<const Constraint> constraint;
  // Null: the model as it is. Shared, because it may be unloaded while the request goes on.
  std::shared_ptr<const Adapter> adapter;
  std::string adapter_name = {};                        // what it is called, for a PageLog
  enum class Cache { kUse, kOff } cache = Cache::kUse;  // kOff recomputes all at each step
  enum class Speculate { kOn, kOff } speculate = Speculate::kOn;  // kOff: no tokens are guessed
  std::vector<TokenId> script;  // what the answer is made to be, whatever is sampled; for studies
  std::string cache_salt;       // pages are shared among requests of the same salt
  std::vector<Pin> pins;        // prefixes of the prompt that are worth keeping longer
  std::vector<uint32_t> borders = {};  // ends of messages, in tokens of the prompt
  std::string tenant;                  // whom fairness counts it for
  int32_t priority = 0;                // lower first
  // What the priority is compared with: everybody's, or that of the tenant's other requests.
  enum class Ranks : uint8_t { kAmongAll, kAmongOwn } ranks = Ranks::kAmongAll;
  // kHiddenStates: no answer; the whole prompt is computed, and handed to EventSink::on_hidden.
  enum class Wants { kAnswer, kHiddenStates } wants = Wants::kAnswer;
  enum class Logits { kNone, kLast, kAll } logits = Logits::kNone;  // hand to EventSink::on_logits
  uint32_t max_chunk = UINT32_MAX;                     // prompt tokens computed in one step at most
  enum class Trace { kOff, kOn } trace = Trace::kOff;  // tell EventSink::on_trace of each token
};

// How a token came to be, for those who explain it.
struct TokenTrace {
  TokenId id = 0;
  TimePoint began;                // of the request's first step
  TimePoint at;                   // when the token's logits were there
  uint32_t position = 0;          // of the last token that they were made of
  uint64_t kv_rows = 0;           // tokens whose K and V were computed for this request so far
  uint64_t kv_bytes = 0;          // of the pages that it holds
  uint32_t n_beside = 0;          // other sequences in the step
  std::span<const float> logits;  // raw; borrowed for the call
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct TokenEvent {
  TokenId id = 0;
  std::optional<TokenLogprob> chosen;  // where logprobs were asked for
  std::vector<TokenLogprob> top;       // most likely first
};

// kExhausted: the answer's constraint takes more than its limits allow.
enum class FinishReason { kStop, kLength, kCancelled, kFailed, kExhausted };
inline constexpr size_t kFinishReasons = 5;

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t completion_tokens = 0;
  uint32_t reasoning_tokens = 0;  // of these, what whoever reads the text found to be thought
  uint32_t cached_tokens = 0;     // prompt tokens whose K and V were found, not computed
  uint32_t drafted_tokens = 0;    // guessed and computed
  uint32_t accepted_tokens = 0;   // of these, those that were right
  CacheReport cache;              // where they were found, and why not more
  Duration queue_time{};
  Duration ttft{};         // submission to the first token
  Duration decode_time{};  // first token to the last
};

// How far a prompt is after a step.
struct PromptProgress {
  uint32_t n_done = 0;    // tokens with K and V
  uint32_t n_all = 0;     // of the prompt
  uint32_t n_cached = 0;  // of those done: found, not computed
};

// Receives what happens to one request, on the engine thread; must not block. on_finish comes
// exactly once, last, also after a cancel.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // kStop ends the answer with this token: the request finishes with FinishReason::kStop at once.
  enum class Verdict { kContinue, kStop };
  virtual Verdict on_token(const TokenEvent& event) = 0;
  virtual void on_finish(FinishReason reason, const Usage& usage) = 0;
  // Called where on_finish() threw std::bad_alloc: nothing more follows.
  virtual void on_no_memory() {}
  virtual void on_prompt(const PromptProgress& progress) { static_cast<void>(progress); }
  // The state of the prompt's token at `position` behind the last layer and its norm, [model_dim];
  // each position once, in order. Borrowed for the call.
  virtual void on_hidden(uint32_t position, std::span<const float> state) {
    static_cast<void>(position);
    static_cast<void>(state);
  }
  // Raw logits after the token at `position`; borrowed for the call.
  virtual void on_logits(uint32_t position, std::span<const float> logits) {
    static_cast<void>(position);
    static_cast<void>(logits);
  }
  // Of each token, before on_token, where the request asks for it.
  virtual void on_trace(const TokenTrace& trace) { static_cast<void>(trace); }
};

}  // namespace kvik
