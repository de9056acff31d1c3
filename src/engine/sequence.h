#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/request/request.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/queue_limit.h"
#include "engine/schedule/snapshot_policy.h"
#include "engine/schedule/tenants.h"
#include "engine/speculate/draft_state.h"
#include "kv/page_table.h"
#include "tier/tier_link.h"

namespace kvik {

// The state of a sequence in the admission queue, kept while it runs. Written by AdmissionQueue.
struct QueueState {
  uint64_t arrival = 0;  // in what order it came
  // Its place among those that wait: when it came and as which; or, by priority, the place of
  // another sequence of its tenant.
  struct Place {
    TimePoint since;
    uint64_t arrival = 0;
  };
  Place place;
  std::pair<TimePoint, uint64_t> turn;
  double prompt_ms = 0;              // time of its prompt alone, when it was looked up last
  TimePoint due;                     // arrival plus that; three times that until it is admitted
  FoundPrefix found;                 // what the cache had of it when it was looked up last
  std::unique_ptr<PageFetch> fetch;  // while it waits for pages of a slower tier
  bool was_tier_asked = false;       // since it waits
  bool was_preempted = false;
};

// Written by RunningSet.
struct RunState {
  uint64_t seat = 0;  // its place in the order of preemption, among equal priorities
  uint64_t admitted_step = 0;
};

// Written by ReuseCounter.
struct ReuseState {
  uint32_t n_pages_found = 0;
  uint32_t n_cached_before = 0;  // the most tokens that it had when it was preempted
};

// Written by Speculator and its drafters.
struct SpeculationState {
  std::vector<TokenId> draft;          // tokens that this step verifies after the known ones
  std::unique_ptr<DraftState> drafts;  // null before the first decoding step, and without drafters
};

// Written by SnapshotPlanner.
struct SnapshotState {
  std::vector<SnapshotMark> marks = {};               // where its prompt's state is kept, ascending
  std::optional<FoundPrefix::Snapshot> resumed = {};  // the snapshot that it began with
  uint32_t n_kept = 0;  // the number of tokens whose state was kept last
};

// One request on its way: its tokens so far, how many of them have K and V, and the pages that hold
// them. Engine thread only.
//
//   waiting ──admitted──▶ running (prefill, then decode) ──▶ finished
//      ▲────preempted─────────┘
struct Sequence {
  Sequence(RequestId request_id, Request from, std::shared_ptr<EventSink> events, TimePoint now)
      : id(request_id), request(std::move(from)), sink(std::move(events)), submitted(now) {
    tokens = request.prompt;
    tokens.reserve(request.prompt.size() + request.max_tokens);
    for (const TokenId token : tokens) counts.add_prompt(token);
    usage.prompt_tokens = static_cast<uint32_t>(tokens.size());
  }

  RequestId id;
  Request request;
  std::shared_ptr<EventSink> sink;

  std::vector<TokenId> tokens;  // prompt, then answer
  uint32_t n_cached = 0;        // tokens whose K and V are in `table`
  PageTable table;
  TokenCounts counts;
  std::optional<NextTokens> next_tokens;  // as far as its answer goes
  // Logits of the newest token, [n_vocab], kept while its constraint is not ready for the next one:
  // the sequence sits steps out. Empty where it does not.
  std::vector<float> held_logits;

  uint64_t n_kv_rows = 0;  // tokens whose K and V were computed, each time that they were

  // Positions handed to on_logits or on_hidden: none twice, preempted or not.
  uint32_t n_rows_sent = 0;

  Tenant* tenant = nullptr;
  QueueState queue;
  RunState run;
  ReuseState reuse;
  SpeculationState speculation;
  SnapshotState snapshots;
  uint64_t last_served_step = 0;  // written by StepPlanner

  QueuePlace queue_place;  // until its first step

  TimePoint submitted;
  std::optional<TimePoint> started;  // its first step
  TimePoint first_token;
  TimePoint last_token;
  Usage usage;

  uint32_t n_tokens() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t n_generated() const { return n_tokens() - usage.prompt_tokens; }
  uint32_t n_pending() const { return n_tokens() - n_cached; }
  // Only the newest token lacks K and V: the next step makes another.
  bool is_decoding() const { return n_pending() == 1 && n_tokens() > request.prompt.size(); }
  bool is_held() const { return !held_logits.empty(); }
  // The answer satisfies its constraint, and nothing can follow.
  bool must_end() const { return next_tokens && next_tokens->must_end(); }
  int32_t priority_among_all() const {
    return request.ranks == Request::Ranks::kAmongAll ? request.priority : 0;
  }
  int32_t priority_among_own() const {
    return request.ranks == Request::Ranks::kAmongOwn ? request.priority : 0;
  }
  // Tokens behind those that it has, up to the next mark; all where there is none.
  uint32_t n_to_mark() const {
    const auto next =
        std::ranges::upper_bound(snapshots.marks, n_cached, {}, &SnapshotMark::n_tokens);
    return next == snapshots.marks.end() ? UINT32_MAX : next->n_tokens - n_cached;
  }
  const PageKey& root() const { return table.root(); }
  bool uses_cache() const { return request.cache == Request::Cache::kUse; }
  std::span<const TokenId> cached_tokens() const { return std::span(tokens).first(n_cached); }
  // What it asks the cache for.
  PrefixQuery query() const {
    return {root(), findable_tokens(), table.owner.tenant, table.owner.adapter};
  }
  // Its next token is the likeliest one by the model's logits as they are, and nobody asks for
  // them.
  bool takes_likeliest() const {
    const SamplingParams& p = request.sampling;
    const bool masks = n_generated() < request.min_tokens && !request.stop_tokens.empty();
    return p.temperature == 0 && p.logit_bias.empty() && !has_penalties(p) && !masks &&
           !next_tokens && !request.n_logprobs;
  }
  bool wants_hidden() const { return request.wants == Request::Wants::kHiddenStates; }
  // The logits, or hidden states, of all of its tokens, not of the last one alone.
  bool wants_all_rows() const { return request.logits == Request::Logits::kAll || wants_hidden(); }
  // Tokens whose K and V may come from others' pages. The last one is always computed: its logits
  // are wanted.
  std::span<const TokenId> findable_tokens() const {
    const bool is_findable = uses_cache() && !wants_all_rows();
    return std::span(tokens).first(is_findable ? n_tokens() - 1 : 0);
  }
};

}  // namespace kvik
