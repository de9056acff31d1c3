#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/token_id.h"
#include "engine/sample/constraint_work.h"

namespace kvik {

// The constraint of one sequence: which tokens may come next, those that end the answer among them.
// The work is done by a MaskMaker; until it is done, nothing can be sampled. Engine thread only.
class SequenceConstraint {
 public:
  struct Owner {
    std::string tenant = {};             // that is charged
    std::span<const TokenId> ends = {};  // tokens that end the answer; borrowed
    uint32_t n_vocab = 0;
  };

  // Continues from the state of `from`.
  SequenceConstraint(const Constraint& from, const Owner& owner)
      : work_(std::make_shared<ConstraintWork>(from.fork(), owner.tenant, owner.n_vocab)),
        ends_(owner.ends) {}
  ~SequenceConstraint() {
    if (work_) work_->is_abandoned = true;
  }
  SequenceConstraint(SequenceConstraint&&) = default;
  SequenceConstraint& operator=(SequenceConstraint&&) = delete;

  const std::shared_ptr<ConstraintWork>& work() const { return work_; }
  bool is_queued() const { return work_->is_queued.load(std::memory_order_acquire); }

  // Returns whether the constraint has decided if the answer may end here.
  bool knows_end() const {
    return !is_queued() && (work_->is_advanced || work_->failure != ConstraintWork::Failure::kNone);
  }
  // Returns whether the mask is made, too, or has failed.
  bool is_ready() const { return !is_queued() && work_->is_done(); }

  // Once knows_end().
  ConstraintWork::Failure failure() const { return work_->failure; }
  bool may_end() const { return work_->next.end != Constraint::End::kNotYet; }
  bool must_end() const { return knows_end() && work_->next.end == Constraint::End::kMust; }

  // Once is_ready(): the bits of the next token. Tokens that end the answer are allowed where the
  // constraint is complete and nowhere else, whatever text they may stand for.
  std::span<const uint64_t> mask();
  bool allows(TokenId token);

  // The tokens that must come next, as far as that is known.
  std::span<const TokenId> forced() const;

  // Takes a token of the answer, once is_ready(); not one that ends it.
  void advance(TokenId token);

 private:
  std::shared_ptr<ConstraintWork> work_;  // shared with the thread that works on it
  std::span<const TokenId> ends_;
};

}  // namespace kvik
