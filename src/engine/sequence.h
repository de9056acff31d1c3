#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/sample/sampler.h"
#include "engine/schedule/queued_request.h"
#include "engine/schedule/snapshot_policy.h"
#include "engine/schedule/tenants.h"
#include "engine/speculate/draft_state.h"
#include "kv/page_table.h"
#include "tier/tier_link.h"

namespace kvik {

// The state of a sequence in the admission queue, kept while it runs. Written by AdmissionQueue.
struct QueueState {
  uint64_t arrival = 0;  // arrival number of the sequence
  // Position in the queue: time of submission and arrival number. If priorities within a tenant
  // exchanged positions, those of another sequence of the tenant.
  struct Place {
    TimePoint since;
    uint64_t arrival = 0;
  };
  Place place;
  // Due time and arrival number by which it is admitted in this step, after exchanges by priority.
  std::pair<TimePoint, uint64_t> turn;
  double prompt_ms = 0;  // time to compute its prompt alone, as of the last lookup
  TimePoint due;         // arrival plus prompt_ms; plus three times prompt_ms until it is admitted
  FoundPrefix found;     // cached prefix as of the last lookup
  std::unique_ptr<PageFetch> fetch;  // pages being fetched from a tier, or null
  bool was_tier_asked = false;       // since it entered the queue
  bool was_fetched_twice = false;    // since it entered the queue
  bool was_preempted = false;
  // Written by WorkingSet.
  enum class Hold : uint8_t { kNone, kHeld, kOverdue };  // kOverdue: held longest, may run now
  Hold hold = Hold::kNone;
};

// Written by RunningSet.
struct RunState {
  uint64_t preemption_order = 0;  // place in the order of preemption, among equal priorities
  uint64_t admitted_step = 0;
};

// Written by CachedTokenCounter.
struct ReuseState {
  uint32_t n_pages_found = 0;
  uint32_t n_cached_before = 0;  // largest n_cached at any preemption so far
};

// Written by Speculator and its drafters.
struct SpeculationState {
  std::vector<TokenId> draft;          // draft tokens that this step verifies
  std::unique_ptr<DraftState> drafts;  // null before the first decoding step, and without drafters
};

// Written by SnapshotPlanner.
struct SnapshotState {
  std::vector<SnapshotMark> marks = {};  // positions at which its state is kept, ascending
  std::optional<FoundPrefix::Snapshot> resumed = {};  // snapshot that it resumed from
  uint32_t n_kept = 0;                                // number of tokens at its last state snapshot
};

// A request in progress: its tokens so far, the number of cached ones, and the pages that hold
// their K and V. Engine thread only.
//
//   waiting ──admitted──▶ running (prefill, then decode) ──▶ finished
//      ▲────preempted─────────┘
struct Sequence {
  explicit Sequence(QueuedRequest queued)
      : id(queued.id),
        request(std::move(queued.request)),
        sink(std::move(queued.sink)),
        queue_place(std::move(queued.place)),
        submitted(queued.submitted) {
    tokens = request.prompt;
    tokens.reserve(request.prompt.size() + request.max_tokens);
    for (const TokenId token : tokens) counts.add_prompt(token);
    usage.prompt_tokens = static_cast<uint32_t>(tokens.size());
    mirostat_mu = 2 * request.sampling.mirostat.tau;
  }

  RequestId id;
  Request request;
  std::shared_ptr<EventSink> sink;

  std::vector<TokenId> tokens;  // prompt, then answer
  uint32_t n_cached = 0;        // number of tokens whose K and V are in `table`
  PageTable table;
  TokenCounts counts;
  float mirostat_mu = 0;                  // bound of the surprise of the next token, in bits
  std::optional<NextTokens> next_tokens;  // state of the constraint; absent without one
  // Logits of the newest token, [n_vocab], held while the mask of the next token is not ready. The
  // sequence skips steps meanwhile. Empty if the sequence is not held.
  std::vector<float> held_logits;

  uint64_t n_kv_rows = 0;  // rows whose K and V were computed, repeated and rejected ones included

  // Number of positions passed to on_logits or on_hidden. Preemption does not repeat any.
  uint32_t n_rows_sent = 0;

  Tenant* tenant = nullptr;
  QueueState queue;
  RunState run;
  ReuseState reuse;
  std::unique_ptr<PageLoad> load;  // pages that are loaded while the prompt is computed, or null
  uint32_t n_loaded = 0;           // cached tokens that it brought
  SpeculationState speculation;
  SnapshotState snapshots;
  uint64_t last_served_step = 0;  // written by StepPlanner

  QueuePlace queue_place;  // released at the first step

  TimePoint submitted;
  std::optional<TimePoint> started;  // start of its first step
  TimePoint first_token;
  TimePoint last_token;
  Usage usage;

  uint32_t n_tokens() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t n_generated() const { return n_tokens() - usage.prompt_tokens; }
  TokenHistory history() const {
    return {.counts = counts, .tokens = tokens, .n_prompt = usage.prompt_tokens};
  }
  uint32_t n_pending() const { return n_tokens() - n_cached; }
  // Returns true if only the newest token lacks K and V: the next step yields another token.
  bool is_decoding() const { return n_pending() == 1 && n_tokens() > request.prompt.size(); }
  bool is_held() const { return !held_logits.empty(); }
  bool is_waiting_for_mask() const { return next_tokens && !next_tokens->is_ready(); }
  // Returns true if the answer satisfies its constraint and nothing can follow.
  bool must_end() const { return next_tokens && next_tokens->must_end(); }
  int32_t priority_among_all() const {
    return request.ranks == Request::PriorityScope::kAllTenants ? request.priority : 0;
  }
  int32_t priority_among_own() const {
    return request.ranks == Request::PriorityScope::kOwnTenant ? request.priority : 0;
  }
  // Returns the number of tokens from n_cached to the next snapshot mark, or UINT32_MAX if there is
  // none.
  uint32_t n_to_mark() const {
    const auto next =
        std::ranges::upper_bound(snapshots.marks, n_cached, {}, &SnapshotMark::n_tokens);
    return next == snapshots.marks.end() ? UINT32_MAX : next->n_tokens - n_cached;
  }
  const PageKey& root() const { return table.root(); }
  bool uses_cache() const { return request.cache == Request::Cache::kUse; }
  std::span<const TokenId> cached_tokens() const { return std::span(tokens).first(n_cached); }
  // Returns the query to look up this sequence in the prefix cache.
  PrefixQuery query() const {
    return {root(), cacheable_tokens(), table.owner.tenant, table.owner.adapter};
  }
  // Returns true if the next token is the most likely one by the model's unchanged logits, and the
  // logits themselves are not needed.
  bool is_plain_greedy() const {
    const SamplingParams& p = request.sampling;
    const bool masks = n_generated() < request.min_tokens && !request.stop_tokens.empty();
    return p.temperature == 0 && keeps_argmax(p) && !masks && !next_tokens && !request.n_logprobs;
  }
  bool wants_hidden() const {
    return request.wants == Request::Wants::kHiddenStates ||
           request.wants == Request::Wants::kLastState;
  }
  // Returns the position of the first token whose logits or hidden state is needed: usually the
  // last one.
  uint32_t first_wanted_row() const {
    const uint32_t last = n_tokens() - 1;
    if (request.wants == Request::Wants::kHiddenStates) return 0;
    return request.logits == Request::Logits::kAll ? std::min(request.first_logits, last) : last;
  }
  // Returns the tokens whose K and V may come from the prefix cache. The last token is always
  // computed, because its logits are needed.
  std::span<const TokenId> cacheable_tokens() const {
    return std::span(tokens).first(uses_cache() ? first_wanted_row() : 0);
  }
};

}  // namespace kvik
