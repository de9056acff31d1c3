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
#include "engine/request/sampling_params.h"
#include "kv/cache_report.h"
#include "kv/pin.h"

namespace kvik {

class Adapter;
class Constraint;

enum class RequestId : uint64_t {};

// Returns the number by which the cache identifies a tenant.
inline uint64_t tenant_hash(const std::string& tenant) { return std::hash<std::string>()(tenant); }

struct Request {
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  uint32_t max_tokens = 16;
  uint32_t min_tokens = 0;           // stop tokens are masked before that many tokens
  std::vector<TokenId> stop_tokens;  // end the answer and are not part of it
  // Number of most likely tokens to report, besides the chosen one, with log probabilities.
  std::optional<uint32_t> n_logprobs;
  // Constraint of the answer, or null. Shared: all choices of a completion start from its state.
  std::shared_ptr<const Constraint> constraint;
  // Low-rank adapter, or null. Shared: it may be unloaded while the request runs.
  std::shared_ptr<const Adapter> adapter;
  std::string adapter_name = {};  // name for a PageLog
  // kOff: all tokens are computed again at each step.
  enum class Cache { kUse, kOff } cache = Cache::kUse;
  enum class Speculate { kOn, kOff } speculate = Speculate::kOn;  // kOff: no draft tokens
  std::vector<TokenId> script;              // tokens that replace the sampled ones; for studies
  std::string cache_salt;                   // only requests with equal salts share pages
  std::vector<Pin> pins;                    // prefixes of the prompt to retain longer in the cache
  std::vector<uint32_t> message_ends = {};  // ends of messages, as numbers of prompt tokens
  std::string tenant;                       // tenant that fair scheduling charges
  int32_t priority = 0;                     // lower values run first
  // Set of requests with which the priority is compared: all, or those of the same tenant.
  enum class PriorityScope : uint8_t { kAllTenants, kOwnTenant } ranks = PriorityScope::kAllTenants;
  // kHiddenStates: there is no answer; the whole prompt is computed, and its hidden states are
  // passed to EventSink::on_hidden(). kLastState: only that of the last token is, and K and V of
  // the others may come from the cache. kScores: a classifier's scores, passed to on_scores();
  // encoders only.
  enum class Wants { kAnswer, kHiddenStates, kLastState, kScores } wants = Wants::kAnswer;
  // For encoders: number of prompt tokens before those of the second text of a pair; absent: there
  // is one text.
  std::optional<uint32_t> second_segment = {};
  // Rows passed to EventSink::on_logits().
  enum class Logits { kNone, kLast, kAll } logits = Logits::kNone;
  // With kAll: position of the first token whose row is needed. K and V of those before it may come
  // from the cache.
  uint32_t first_logits = 0;
  uint32_t max_chunk = UINT32_MAX;  // largest number of prompt tokens computed in one step
  enum class Trace { kOff, kOn } trace = Trace::kOff;  // call EventSink::on_trace() for each token
};

// The circumstances in which a token was computed, for `kvik explain` and similar uses.
struct TokenTrace {
  TokenId id = 0;
  TimePoint began;                 // start of the request's first step
  TimePoint at;                    // time at which the token's logits were ready
  uint32_t position = 0;           // position of the last token that the logits depend on
  uint64_t kv_rows = 0;            // rows whose K and V were computed for this request so far
  uint64_t kv_bytes = 0;           // bytes of the pages that it holds
  uint32_t n_other_sequences = 0;  // number of other sequences in the step
  std::span<const float> logits;   // raw; borrowed for the call
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct TokenEvent {
  TokenId id = 0;
  std::optional<TokenLogprob> chosen;  // only if log probabilities were requested
  std::vector<TokenLogprob> top;       // most likely first
};

// kExhausted: the answer's constraint exceeds its limits of work or memory.
enum class FinishReason { kStop, kLength, kCancelled, kFailed, kExhausted };
inline constexpr size_t kFinishReasons = 5;

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t completion_tokens = 0;
  uint32_t reasoning_tokens = 0;  // of these, the tokens of the reasoning; counted by the service
  uint32_t cached_tokens = 0;     // prompt tokens whose K and V came from the cache
  uint32_t restored_tokens = 0;   // of earlier answers, as they were generated; set by the service
  uint32_t drafted_tokens = 0;    // draft tokens that were verified
  uint32_t accepted_tokens = 0;   // draft tokens that were accepted
  CacheReport cache;              // where the cached tokens came from, and why there were not more
  Duration queue_time{};
  Duration ttft{};         // submission to the first token
  Duration decode_time{};  // first token to the last
};

// The progress of a prompt after a step.
struct PromptProgress {
  uint32_t n_done = 0;    // tokens with K and V
  uint32_t n_all = 0;     // tokens of the prompt
  uint32_t n_cached = 0;  // of n_done, the tokens from the cache
};

// Receives the events of one request, on the engine thread; must not block. on_finish() is called
// exactly once, last, also after a cancel.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // kStop ends the answer with this token: the request finishes at once with FinishReason::kStop.
  enum class Verdict { kContinue, kStop };
  virtual Verdict on_token(const TokenEvent& event) = 0;
  virtual void on_finish(FinishReason reason, const Usage& usage) = 0;
  // Called if on_finish() threw std::bad_alloc. It is then the last call.
  virtual void on_no_memory() {}
  virtual void on_prompt(const PromptProgress& progress) { static_cast<void>(progress); }
  // Receives the hidden state, [model_dim], of the prompt's token at `position` after the last
  // layer and the final norm. Each position comes once, in order; with kLastState only the last
  // one. Borrowed for the call.
  virtual void on_hidden(uint32_t position, std::span<const float> state) {
    static_cast<void>(position);
    static_cast<void>(state);
  }
  // Receives the scores of the model's classifier, [n_labels]. Borrowed for the call.
  virtual void on_scores(std::span<const float> scores) { static_cast<void>(scores); }
  // Receives the raw logits after the token at `position`, [n_vocab]. Borrowed for the call.
  virtual void on_logits(uint32_t position, std::span<const float> logits) {
    static_cast<void>(position);
    static_cast<void>(logits);
  }
  // Receives the trace of each token, before on_token(), if the request enables it.
  virtual void on_trace(const TokenTrace& trace) { static_cast<void>(trace); }
};

}  // namespace kvik
