#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/token_id.h"
#include "engine/sample/constraint.h"

namespace kvik {

// Constraint state of one sequence, with what it says about the next token: made in two parts (the
// token so far is taken, then the mask is made), each by the engine's thread or one of MaskMaker's.
//
// While is_queued, the thread of the MaskMaker that took it from the queue is the only one to touch
// it; otherwise the engine's thread is.
struct MaskJob {
  enum class Failure : uint8_t { kNone, kExhausted, kNoMemory };

  MaskJob(std::unique_ptr<Constraint> its_constraint, std::string its_tenant, uint32_t n_vocab)
      : constraint(std::move(its_constraint)), tenant(std::move(its_tenant)), mask(n_vocab) {}

  std::unique_ptr<Constraint> constraint;
  const std::string tenant;      // that is charged for the work
  std::optional<TokenId> token;  // the next to be taken
  Constraint::Next next;         // what follows it
  TokenBitmask mask;             // of the token after that
  bool is_advanced = false;      // `next` is known
  bool has_mask = false;         // so is `mask`
  bool was_heavy = false;        // the last part needed Effort::kFull
  Failure failure = Failure::kNone;
  std::atomic<bool> is_queued = false;
  std::atomic<bool> is_abandoned = false;  // its sequence is gone

  bool is_done() const { return failure != Failure::kNone || (is_advanced && has_mask); }

  // Do what is missing. Return false where kSmall did not suffice.
  bool advance(Constraint::Effort effort);
  bool make_mask(Constraint::Effort effort);

 private:
  bool record(Constraint::Outcome outcome, Constraint::Effort effort, bool& is_made);
};

}  // namespace kvik
