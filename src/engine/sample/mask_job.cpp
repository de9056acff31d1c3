#include "engine/sample/mask_job.h"

#include <new>

namespace kvik {
namespace {

// Number of tokens: as many as a draft of one sequence has in one step, plus one.
constexpr uint32_t kMaxForced = 32;

}  // namespace

bool MaskJob::record(Constraint::Outcome outcome, Constraint::Effort effort, bool& is_made) {
  is_made = outcome == Constraint::Outcome::kDone;
  if (outcome == Constraint::Outcome::kExhausted) failure = Failure::kExhausted;
  was_heavy = effort == Constraint::Effort::kFull;
  return outcome != Constraint::Outcome::kUnfinished;
}

// If there is no memory, only this answer fails.
bool MaskJob::advance(Constraint::Effort effort) {
  if (is_advanced || failure != Failure::kNone) return true;
  try {
    return record(constraint->try_advance(effort, token, next, kMaxForced), effort, is_advanced);
  } catch (const std::bad_alloc&) {
    failure = Failure::kNoMemory;
    return true;
  }
}

bool MaskJob::make_mask(Constraint::Effort effort) {
  if (is_done()) return true;
  try {
    return record(constraint->try_mask(effort, mask), effort, has_mask);
  } catch (const std::bad_alloc&) {
    failure = Failure::kNoMemory;
    return true;
  }
}

}  // namespace kvik
