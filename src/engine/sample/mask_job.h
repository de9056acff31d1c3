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

// The constraint of one sequence and its result for the next token. The work has two parts,
// appending the last token and making the mask. Each is done by the engine thread or by a thread of
// MaskMaker.
//
// While is_queued is set, only the MaskMaker thread that took the job from the queue accesses it;
// otherwise only the engine thread does.
struct MaskJob {
  enum class Failure : uint8_t { kNone, kExhausted, kNoMemory };

  MaskJob(std::unique_ptr<Constraint> its_constraint, std::string its_tenant, uint32_t n_vocab)
      : constraint(std::move(its_constraint)), tenant(std::move(its_tenant)), mask(n_vocab) {}

  std::unique_ptr<Constraint> constraint;
  const std::string tenant;      // charged for the work
  std::optional<TokenId> token;  // token to append next
  Constraint::Next next;         // what follows `token`
  TokenBitmask mask;             // mask of the token after `token`
  bool is_advanced = false;      // `next` is valid
  bool has_mask = false;         // `mask` is valid
  bool was_heavy = false;        // the last part was too large for the engine thread
  Failure failure = Failure::kNone;
  std::atomic<bool> is_queued = false;
  std::atomic<bool> is_abandoned = false;  // the sequence has ended

  bool is_done() const { return failure != Failure::kNone || (is_advanced && has_mask); }

  // Do the missing part. Return false if kSmall was not enough.
  bool advance(Constraint::Effort effort);
  bool make_mask(Constraint::Effort effort);

 private:
  bool record(Constraint::Outcome outcome, Constraint::Effort effort, bool& is_made);
};

}  // namespace kvik
