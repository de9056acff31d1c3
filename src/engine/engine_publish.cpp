// Sampling and publishing of Engine: picks tokens from the logits of a step and passes them to the
// sinks. The step itself is in engine.cpp.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace kvik {
namespace {

// Returns the reason why the sequence must end if its constraint has failed.
std::optional<FinishReason> failure_of(const Sequence& sequence) {
  if (!sequence.next_tokens || !sequence.next_tokens->knows_end()) return std::nullopt;
  switch (sequence.next_tokens->failure()) {
    case MaskJob::Failure::kNone:
      return std::nullopt;
    case MaskJob::Failure::kExhausted:
      return FinishReason::kExhausted;
    case MaskJob::Failure::kNoMemory:
      break;
  }
  return FinishReason::kFailed;
}

// Returns the reason to end the sequence before another token is sampled, if there is one.
std::optional<FinishReason> end_without_token(const Sequence& sequence) {
  if (sequence.wants_hidden()) return FinishReason::kStop;
  if (const auto failed = failure_of(sequence)) return failed;
  // The constraint allows no further token.
  if (sequence.must_end()) return FinishReason::kStop;
  if (sequence.n_generated() >= sequence.request.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

}  // namespace

// --- sampling ---

void Engine::sample(const StepPlan& plan) {
  sampled_.clear();
  outcomes_.assign(plan.entries.size(), {});
  accepted_.clear();
  size_t n_rows = 0;
  size_t picked_end = 0;  // end of the rows considered by pick_rows()
  size_t next_pick = 0;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const StepPlan::Entry& entry = plan.entries[i];
    n_rows += entry.n_wanted;
    if (entry.n_new < entry.sequence->n_pending()) {
      accepted_.push_back(entry.n_new);
      continue;
    }
    const uint32_t n_sampled = 1 + entry.n_draft_tokens();
    const size_t first_row = n_rows - n_sampled;
    if (entry.sequence->is_waiting_for_mask()) {
      accepted_.push_back(entry.n_own());
      hold(entry, first_row);
      continue;
    }
    if (first_row >= picked_end) {
      picked_end = pick_rows(std::span(plan.entries).subspan(i), first_row);
      next_pick = 0;
    }
    TokenPick first{.sequence = entry.sequence};
    if (next_pick < picks_.size() && picks_[next_pick].sequence == entry.sequence) {
      first = std::move(picks_[next_pick++]);
    }
    outcomes_[i] = sample_rows(entry, first_row, std::move(first));
    // A row at which the answer ended without a token is accepted, too.
    const uint32_t n_stand = outcomes_[i].n_tokens + (outcomes_[i].last ? 0 : 1);
    accepted_.push_back(entry.n_new - n_sampled + n_stand);
  }
}

// Picks the first tokens of those entries whose logits are available together with those of `row`,
// the first sampled row of the first entry. Returns the end of these rows.
size_t Engine::pick_rows(std::span<const StepPlan::Entry> entries, size_t row) {
  picks_.clear();
  const size_t end = decoder_.logits_end(row);
  size_t n_rows = row + 1 + entries.front().n_draft_tokens() - entries.front().n_wanted;
  for (const StepPlan::Entry& entry : entries) {
    n_rows += entry.n_wanted;
    if (entry.n_new < entry.sequence->n_pending()) continue;
    const size_t first_row = n_rows - 1 - entry.n_draft_tokens();
    if (first_row >= end) break;
    Sequence& sequence = *entry.sequence;
    if (sequence.is_waiting_for_mask() || end_without_token(sequence)) continue;
    picks_.push_back(pick_at(sequence, {.decoder_row = first_row}));
  }
  step_sampler_.make(picks_);
  return end;
}

// Keeps the logits until the sequence's mask is ready, so that no row is computed again.
void Engine::hold(const StepPlan::Entry& entry, size_t row) {
  const std::span<const float> logits = decoder_.logits(row);
  entry.sequence->held_logits.assign(logits.begin(), logits.end());
}

// Samples from the held sequences whose masks are ready now. Returns false if there are none.
bool Engine::sample_held() {
  ready_.clear();
  for (const auto& sequence : scheduler_.running()) {
    if (sequence->is_held() && sequence->next_tokens->is_ready()) ready_.push_back(sequence->id);
  }
  if (ready_.empty()) return false;
  step_end_ = clock_.now();
  for (const RequestId id : ready_) {
    if (Sequence* sequence = scheduler_.find(id)) sample_held(*sequence);
  }
  return true;
}

void Engine::sample_held(Sequence& sequence) {
  const std::vector<float> logits = std::exchange(sequence.held_logits, {});
  const LogitsRow row{.held = logits};
  Outcome outcome;
  const auto token = sample_token({.sequence = &sequence}, row, outcome);
  if (token) {
    outcome.last = token->id;
    if (has_penalties(sequence.request.sampling)) sequence.counts.add_answer(token->id);
    const PublishedRow published{.logits = row, .position = sequence.n_tokens() - 1};
    if (publish_token({&sequence, 0, 0}, *token, published) != EventSink::Verdict::kContinue) {
      outcome.end = FinishReason::kStop;
    }
  }
  settle(sequence, outcome);
}

// Samples from the rows of an entry, starting at the decoder's row first_row. All tokens of the
// sequence itself are computed. While a sampled token equals the next draft token, the following
// row is valid, as if it had been computed in a step of its own, and is sampled as well. Appends
// all sampled tokens but the last one to the sequence. `first` is the pick from the first row,
// which may have been made.
Engine::Outcome Engine::sample_rows(const StepPlan::Entry& entry, size_t first_row,
                                    TokenPick first) {
  Sequence& sequence = *entry.sequence;
  Outcome outcome{.first_token = sampled_.size(), .n_tokens = 0, .last = {}, .end = {}};
  TokenPick pick = std::move(first);
  for (size_t r = 0;; ++r) {
    auto token = sample_token(std::move(pick), {.decoder_row = first_row + r}, outcome);
    if (!token) return outcome;
    const TokenId id = token->id;
    sampled_.push_back(std::move(*token));
    ++outcome.n_tokens;
    if (has_penalties(sequence.request.sampling)) sequence.counts.add_answer(id);
    const bool is_right =
        r < sequence.speculation.draft.size() && sequence.speculation.draft[r] == id;
    auto& next_tokens = sequence.next_tokens;
    if (!is_right || (next_tokens && !mask_maker_.make_now(*next_tokens)) || sequence.must_end()) {
      outcome.last = id;
      return outcome;
    }
    sequence.tokens.push_back(id);
    pick = {.sequence = &sequence};
  }
}

// Returns the token that follows the sequence's last token, sampled from `row` unless the pick has
// been made. Returns std::nullopt and sets outcome.end if the answer ends instead.
std::optional<TokenEvent> Engine::sample_token(TokenPick pick, const LogitsRow& row,
                                               Outcome& outcome) {
  const auto end = [&](FinishReason reason) {
    outcome.end = reason;
    return std::nullopt;
  };
  Sequence& sequence = *pick.sequence;
  if (const auto reason = end_without_token(sequence)) return end(*reason);
  if (!pick.is_made) {
    pick = pick_at(sequence, row);
    step_sampler_.make(pick);
  }
  if (!pick.event) return end(FinishReason::kFailed);
  const TokenId token = pick.event->id;
  if (std::ranges::count(sequence.request.stop_tokens, token) > 0) {
    return end(FinishReason::kStop);
  }
  if (sequence.next_tokens) {
    sequence.next_tokens->advance(token);
    mask_maker_.advance(*sequence.next_tokens);
  }
  return std::move(pick.event);
}

std::span<const float> Engine::logits_of(const LogitsRow& row) {
  return row.held.empty() ? decoder_.logits(row.decoder_row) : row.held;
}

// Returns a pick to be made from the row. That of a plain greedy sequence needs no logits.
TokenPick Engine::pick_at(Sequence& sequence, const LogitsRow& row) {
  if (sequence.next_tokens && sequence.next_tokens->is_free()) sequence.next_tokens.reset();
  if (!sequence.is_plain_greedy()) return {.sequence = &sequence, .logits = logits_of(row)};
  return {.sequence = &sequence, .argmax = decoder_.argmax(row.decoder_row)};
}

// --- publishing ---

// Passes the results to the sinks. A sink may end the answer with any token; later rows are then
// not accepted.
void Engine::publish(const StepPlan& plan) {
  size_t n_rows = 0;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const StepPlan::Entry& entry = plan.entries[i];
    publish_progress(entry, accepted_[i]);
    accepted_[i] = publish_rows(i, entry, n_rows);
    n_rows += entry.n_wanted;
  }
}

// Reports the progress of a prompt after n_accepted further tokens.
void Engine::publish_progress(const StepPlan::Entry& entry, uint32_t n_accepted) {
  const Sequence& sequence = *entry.sequence;
  const uint32_t n_prompt = sequence.usage.prompt_tokens;
  if (sequence.n_cached >= n_prompt) return;
  sequence.sink->on_prompt({.n_done = std::min(sequence.n_cached + n_accepted, n_prompt),
                            .n_all = n_prompt,
                            .n_cached = sequence.usage.cached_tokens});
}

// Publishes the logits of the rows of an entry that are both wanted and accepted, and the tokens
// sampled from them. The wanted rows begin at the decoder's row first_row. Returns the final number
// of accepted rows.
uint32_t Engine::publish_rows(size_t index, const StepPlan::Entry& entry, size_t first_row) {
  Outcome& outcome = outcomes_[index];
  const uint32_t first_wanted = entry.n_new - entry.n_wanted;
  const uint32_t first_sampled = entry.n_own() - 1;
  for (uint32_t row = first_wanted; row < accepted_[index]; ++row) {
    const PublishedRow published{.logits = {.decoder_row = first_row + row - first_wanted},
                                 .position = entry.sequence->n_cached + row};
    publish_logits(*entry.sequence, published);
    const uint32_t r = row - first_sampled;
    if (row < first_sampled || r >= outcome.n_tokens) continue;
    const TokenEvent& token = sampled_[outcome.first_token + r];
    if (publish_token(entry, token, published) == EventSink::Verdict::kContinue) continue;
    entry.sequence->tokens.resize(published.position + 1);
    outcome.last = token.id;
    outcome.end = FinishReason::kStop;
    return row + 1;
  }
  return accepted_[index];
}

// Publishes each position once.
void Engine::publish_logits(Sequence& sequence, const PublishedRow& row) {
  const bool is_hidden = sequence.wants_hidden();
  if (!is_hidden && sequence.request.logits == Request::Logits::kNone) return;
  if (row.position < sequence.n_rows_sent) return;
  sequence.n_rows_sent = row.position + 1;
  if (is_hidden) {
    sequence.sink->on_hidden(row.position, decoder_.hidden(row.logits.decoder_row));
  } else {
    sequence.sink->on_logits(row.position, logits_of(row.logits));
  }
}

// `row` is the row that the token was sampled from.
EventSink::Verdict Engine::publish_token(const StepPlan::Entry& entry, const TokenEvent& token,
                                         const PublishedRow& row) {
  Sequence& sequence = *entry.sequence;
  record_token_time(sequence);
  if (sequence.request.trace == Request::Trace::kOn) publish_trace(entry, token.id, row);
  ++counters_.generated_tokens;
  return sequence.sink->on_token(token);
}

void Engine::publish_trace(const StepPlan::Entry& entry, TokenId token, const PublishedRow& row) {
  const Sequence& sequence = *entry.sequence;
  uint64_t n_pages = 0;
  for (uint32_t g = 0; g < sequence.table.n_groups(); ++g) {
    n_pages += sequence.table.n_pages(g) - sequence.table.n_slid(g);
  }
  sequence.sink->on_trace({.id = token,
                           .began = *sequence.started,
                           .at = step_end_,
                           .position = row.position,
                           .kv_rows = sequence.n_kv_rows + entry.n_new,
                           .kv_bytes = n_pages * kv_.page_bytes(),
                           .n_other_sequences = counters_.last_step.n_sequences - 1,
                           .logits = logits_of(row.logits)});
}

// The time of a token is the time of its logits; the work after that takes microseconds. All tokens
// of a step have the same time.
void Engine::record_token_time(Sequence& sequence) {
  EngineHistograms& histograms = counters_.histograms;
  if (sequence.n_generated() > 0) {
    histograms.itl_s.record(to_s(step_end_ - sequence.last_token));
  } else {
    sequence.first_token = step_end_;
    histograms.ttft_s.record(to_s(step_end_ - sequence.submitted));
    histograms.prefill_s.record(to_s(step_end_ - *sequence.started));
  }
  sequence.last_token = step_end_;
}

// Call before the commit.
void Engine::count_drafts(const StepPlan& plan) {
  SpeculationCounters& all = counters_.speculation;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const uint32_t n_drafted = plan.entries[i].n_draft_tokens();
    if (n_drafted == 0) continue;
    const uint32_t n_accepted = plan.entries[i].n_accepted_drafts(accepted_[i]);
    ++all.drafts;
    all.drafted_tokens += n_drafted;
    all.accepted_tokens += n_accepted;
    for (uint32_t place = 0; place < n_accepted; ++place) ++all.accepted_at[place];
    counters_.last_step.n_drafted += n_drafted;
    counters_.last_step.n_accepted += n_accepted;
  }
}

// --- settling ---

// After the commit: appends to each sequence the sampled token whose K and V are not computed yet,
// or ends the sequence.
void Engine::settle(const StepPlan& plan) {
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    settle(*plan.entries[i].sequence, outcomes_[i]);
  }
}

// If the constraint has not decided yet whether the answer ends, the next step finds out. The
// finish reason therefore does not depend on how long the constraint takes.
void Engine::settle(Sequence& sequence, const Outcome& outcome) {
  if (outcome.last) scheduler_.append(sequence, *outcome.last);
  if (outcome.end) return finish(sequence, *outcome.end);
  if (!outcome.last) return;
  if (sequence.next_tokens && !sequence.next_tokens->knows_end()) return;
  if (const auto failed = failure_of(sequence)) return finish(sequence, *failed);
  if (sequence.must_end()) return finish(sequence, FinishReason::kStop);
  if (sequence.n_generated() == sequence.request.max_tokens) {
    finish(sequence, FinishReason::kLength);
  }
}

}  // namespace kvik
