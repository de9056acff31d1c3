#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "engine/speculate/guess.h"
#include "engine/speculate/speculation_counters.h"
#include "engine/speculate/suffix_index.h"
#include "kv/page_table.h"

namespace kvik {

// A sequence as a draft model has it.
struct DraftLane {
  PageTable table;
  uint32_t n_cached = 0;         // tokens with K and V, guesses among them
  uint32_t n_then = 0;           // tokens that the sequence had when it was asked about last
  std::vector<TokenId> guessed;  // behind these
  Draft draft;                   // the same, with how sure it is
  bool is_open = false;
};

// What drafters know of one sequence, from its first decoding step on.
struct DraftState {
  // For a sequence that will have about so many tokens.
  explicit DraftState(uint64_t n_tokens) : index(n_tokens) {
    for (Draft& proposal : proposals) proposal.reserve(kMostGuesses);
  }

  Acceptance acceptance;
  // What each source proposes behind the newest token, computed or not: what comes next tells how
  // good it was.
  std::array<Draft, kGuessSources> proposals;
  GuessSource chosen = GuessSource::kSuffix;

  DraftLane model;
  float model_share = 0.6f;  // of a draft model's guesses that came true lately

  SuffixIndex index;
  SuffixMatch copy;     // that the last proposal of kSuffix went by
  uint32_t n_then = 0;  // tokens that the sequence had then
  // Where in the tokens a copy was left, and how many tokens there were then; 0: nowhere.
  uint32_t left_at = 0, left_when = 0;
};

}  // namespace kvik
