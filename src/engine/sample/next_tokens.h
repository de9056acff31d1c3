#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/token_id.h"
#include "engine/sample/mask_job.h"

namespace kvik {

// Which tokens may come next in one sequence with a constraint, those that end the answer among
// them. The work is done by a MaskMaker; until it is done, nothing can be sampled. Engine thread
// only.
class NextTokens {
 public:
  struct Owner {
    std::string tenant = {};             // that is charged
    std::span<const TokenId> ends = {};  // tokens that end the answer; borrowed
    uint32_t n_vocab = 0;
  };

  // Continues from the state of `from`.
  NextTokens(const Constraint& from, const Owner& owner)
      : job_(std::make_shared<MaskJob>(from.fork(), owner.tenant, owner.n_vocab)),
        ends_(owner.ends) {}
  ~NextTokens() {
    if (job_) job_->is_abandoned = true;
  }
  NextTokens(NextTokens&&) = default;
  NextTokens& operator=(NextTokens&&) = delete;

  const std::shared_ptr<MaskJob>& job() const { return job_; }
  bool is_queued() const { return job_->is_queued.load(std::memory_order_acquire); }

  // Returns whether the constraint has decided if the answer may end here.
  bool knows_end() const {
    return !is_queued() && (job_->is_advanced || job_->failure != MaskJob::Failure::kNone);
  }
  // Returns whether the mask is made, too, or has failed.
  bool is_ready() const { return !is_queued() && job_->is_done(); }

  // Once knows_end().
  MaskJob::Failure failure() const { return job_->failure; }
  bool may_end() const { return job_->next.end != Constraint::End::kNotYet; }
  bool must_end() const { return knows_end() && job_->next.end == Constraint::End::kMust; }

  // Once is_ready(): the bits of the next token. Tokens that end the answer are allowed where the
  // constraint is complete and nowhere else, whatever text they may stand for.
  const TokenBitmask& mask();
  bool allows(TokenId token);

  // The tokens that must come next, as far as that is known.
  std::span<const TokenId> forced() const;

  // Takes a token of the answer, once is_ready(); not one that ends it.
  void advance(TokenId token);

 private:
  std::shared_ptr<MaskJob> job_;  // shared with the thread that works on it
  std::span<const TokenId> ends_;
};

}  // namespace kvik
