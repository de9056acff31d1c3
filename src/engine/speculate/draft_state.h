#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "engine/speculate/draft_token.h"
#include "engine/speculate/speculation_counters.h"
#include "engine/speculate/suffix_index.h"
#include "kv/page_table.h"

namespace kvik {

// The state of a sequence in a draft model.
struct DraftModelState {
  PageTable table;
  uint32_t n_cached = 0;         // tokens with K and V, including draft tokens
  uint32_t n_then = 0;           // tokens of the sequence at the last begin_step()
  std::vector<TokenId> drafted;  // draft tokens that follow the first n_then tokens
  Draft draft;                   // the same tokens, with their kinds
  bool is_open = false;
};

// The drafters' state of one sequence, from its first decoding step on.
struct DraftState {
  // n_tokens is the expected length of the sequence.
  explicit DraftState(uint64_t n_tokens) : index(n_tokens) {
    for (Draft& proposal : proposals) proposal.reserve(kMaxDraftTokens);
  }

  Acceptance acceptance;
  // Proposals of each source after the newest token, verified or not. The tokens that follow show
  // how good they were.
  std::array<Draft, kDraftSources> proposals;
  DraftSource chosen = DraftSource::kSuffix;

  DraftModelState model;
  float model_share = 0.6f;  // share of the draft model's tokens that were right recently

  SuffixIndex index;
  SuffixMatch copy;     // match that the last proposal of kSuffix copied
  uint32_t n_then = 0;  // tokens of the sequence at that time
  // Position at which the answer stopped following a copy, and number of tokens at that time.
  // left_at is 0 if there is none.
  uint32_t left_at = 0, left_when = 0;
};

}  // namespace kvik
