#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

const StepPlan& Scheduler::plan() {
  plan_.entries.clear();
  tokens_left_ = options_.max_step_tokens;
  admit();
  plan_decodes();
  plan_prompts();
  return plan_;
}

// Takes waiting sequences in their order; the first that does not fit holds up those behind it.
void Scheduler::admit() {
  while (!waiting_.empty() && running_.size() < options_.max_running && admit_next()) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::admit_next() {
  Sequence& sequence = *waiting_.front();
  const auto found =
      kv_.open(sequence.table, sequence.root, sequence.findable_tokens(), sequence.n_tokens());
  if (!found) return false;
  if (!running_.empty() && kv_.n_available() == 0) {  // no room for the next token of anybody
    sequence.table.clear();
    return false;
  }
  count_found(sequence, *found);
  return true;
}

// The first n_cached tokens have K and V: those that had none were found, not computed.
void Scheduler::count_found(Sequence& sequence, uint32_t n_cached) {
  if (sequence.n_generated() == 0) {
    sequence.usage.cached_tokens += n_cached - sequence.n_cached;
    n_found_tokens_ += n_cached - sequence.n_cached;
  }
  sequence.n_cached = n_cached;
}

// Ends its leases. What was computed stays findable.
void Scheduler::let_go(Sequence& sequence) {
  if (sequence.uses_cache()) kv_.close(sequence.table, sequence.root, sequence.cached_tokens());
  sequence.table.clear();
  sequence.n_cached = 0;
}

void Scheduler::plan_decodes() {
  // By index: a preemption takes sequences from the back while this walks from the front.
  for (size_t i = 0; i < running_.size() && tokens_left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (!sequence.is_decoding()) continue;
    if (!grow_or_preempt(sequence, sequence.n_tokens())) return;
    plan_.entries.push_back({&sequence, 1});
    --tokens_left_;
  }
}

void Scheduler::plan_prompts() {
  for (size_t i = 0; i < running_.size() && tokens_left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.is_decoding()) continue;
    if (!grow_or_preempt(sequence, sequence.n_tokens())) return;
    adopt(sequence);
    if (is_computed_by_an_older(sequence)) continue;
    uint32_t n = std::min({sequence.n_pending(), tokens_left_, sequence.request.max_chunk});
    n = kv_.make_room(sequence.table, sequence.n_cached, n);
    plan_.entries.push_back({&sequence, n});
    tokens_left_ -= n;
  }
}

// What others computed since the last step need not be computed here.
void Scheduler::adopt(Sequence& sequence) {
  const auto tokens = sequence.findable_tokens();
  if (tokens.size() < sequence.n_cached) return;
  const uint32_t n_known = kv_.adopt(sequence.table, sequence.root, tokens);
  if (n_known > sequence.n_cached) count_found(sequence, n_known);
  adopt_filling_page(sequence, tokens);
}

// Nor what others computed of the page that they are still filling: choices of one request share
// their prompt to its last token.
void Scheduler::adopt_filling_page(Sequence& sequence, std::span<const TokenId> tokens) {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  if (tokens.size() <= std::max<size_t>(begin, sequence.n_cached)) return;
  const auto own = tokens.subspan(begin);
  for (const auto& other : running_) {
    if (other.get() == &sequence || other->n_cached <= sequence.n_cached) continue;
    if (!other->uses_cache() || other->root != sequence.root ||
        other->table.n_sealed() != sequence.table.n_sealed() ||
        other->table.last_key() != sequence.table.last_key()) {
      continue;
    }
    auto computed = other->cached_tokens().subspan(begin);
    computed = computed.first(std::min<size_t>(computed.size(), kPageTokens));
    const auto n_known = static_cast<uint32_t>(begin) + common_prefix(computed, own);
    if (n_known <= sequence.n_cached) continue;
    if (kv_.copy_filling_page(sequence.table, other->table)) count_found(sequence, n_known);
  }
}

// Whether the sequence's next page is one that an older prompt computes too, with the same tokens
// in all pages before.
bool Scheduler::is_computed_by_an_older(const Sequence& sequence) const {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  const auto page_of = [&](std::span<const TokenId> tokens) {
    const auto rest = tokens.subspan(std::min(begin, tokens.size()));
    return rest.first(std::min<size_t>(kPageTokens, rest.size()));
  };
  const auto own = page_of(sequence.findable_tokens());
  if (own.empty() || begin + own.size() <= sequence.n_cached) return false;
  for (const auto& older : running_) {
    if (older.get() == &sequence) return false;
    if (!older->is_decoding() && older->uses_cache() && older->root == sequence.root &&
        older->table.last_key() == sequence.table.last_key() &&
        common_prefix(page_of(older->tokens), own) == own.size()) {
      return true;
    }
  }
  return false;
}

// Makes room for n_tokens by preempting from the youngest on. False where `sequence` itself had to
// go: it was the youngest left.
bool Scheduler::grow_or_preempt(Sequence& sequence, uint32_t n_tokens) {
  while (!kv_.grow(sequence.table, n_tokens)) {
    Sequence* victim = running_.back().get();
    const bool is_itself = victim == &sequence;
    // What could not finish alone was refused at submission.
    CHECK(!is_itself || running_.size() > 1);
    std::erase_if(plan_.entries, [&](const auto& entry) { return entry.sequence == victim; });
    let_go(*victim);
    waiting_.push_front(std::move(running_.back()));
    running_.pop_back();
    ++n_preemptions_;
    if (is_itself) return false;
  }
  return true;
}

Sequence* Scheduler::find(RequestId id) {
  for (const auto& sequence : running_) {
    if (sequence->id == id) return sequence.get();
  }
  for (const auto& sequence : waiting_) {
    if (sequence->id == id) return sequence.get();
  }
  return nullptr;
}

Sequence* Scheduler::any() {
  if (!running_.empty()) return running_.front().get();
  return waiting_.empty() ? nullptr : waiting_.front().get();
}

void Scheduler::remove(Sequence& sequence) {
  let_go(sequence);
  const auto is_it = [&](const auto& candidate) { return candidate.get() == &sequence; };
  if (std::erase_if(running_, is_it) == 0) std::erase_if(waiting_, is_it);
}

}  // namespace kvik
