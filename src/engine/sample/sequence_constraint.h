#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "engine/sample/constraint.h"
#include "engine/sample/mask_maker.h"

namespace kvik {

// A constraint as one sequence keeps to it: what its next token may be, those that end the answer
// among them. Engine thread only, but for a job, while it is being done.
class SequenceConstraint {
 public:
  // Goes on from where `from` stands. The tokens that end the answer are borrowed.
  SequenceConstraint(const Constraint& from, std::span<const TokenId> ends, uint32_t n_vocab)
      : constraint_(from.fork()), ends_(ends), mask_(mask_words(n_vocab)) {}

  // Makes the next token's mask ahead. mask() may be asked for once it is done.
  MaskMaker::Job job() {
    is_made_ = true;
    return {constraint_.get(), mask_};
  }
  bool needs_mask() const { return !is_made_; }

  // Of the next token. What ends the answer is allowed where the form is complete, else never,
  // whatever text it may stand for.
  bool allows(TokenId token);
  std::span<const uint64_t> mask();

  bool may_end() { return constraint_->end() != Constraint::End::kNotYet; }
  bool must_end() { return constraint_->end() == Constraint::End::kMust; }

  // Takes a token of the answer; none that ends it.
  void advance(TokenId token) {
    constraint_->advance(token);
    is_made_ = false;
  }

  Constraint& constraint() { return *constraint_; }

 private:
  std::unique_ptr<Constraint> constraint_;
  std::span<const TokenId> ends_;
  std::vector<uint64_t> mask_;
  bool is_made_ = false;
};

}  // namespace kvik
