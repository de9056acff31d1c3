#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/token_id.h"
#include "engine/sample/mask_job.h"

namespace kvik {

// The tokens that may come next in a sequence with a constraint, including those that end the
// answer. A MaskMaker does the work; nothing can be sampled until it is done. Engine thread only.
class NextTokens {
 public:
  struct Owner {
    std::string tenant = {};             // charged for the work
    std::span<const TokenId> ends = {};  // tokens that end the answer; borrowed
    uint32_t n_vocab = 0;
  };

  // Starts from the state of `from`.
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
  // Returns whether the mask is also ready, or the constraint has failed.
  bool is_ready() const { return !is_queued() && job_->is_done(); }

  // Valid only if knows_end().
  MaskJob::Failure failure() const { return job_->failure; }
  bool may_end() const { return job_->next.end != Constraint::End::kNotYet; }
  bool must_end() const { return knows_end() && job_->next.end == Constraint::End::kMust; }
  // Returns whether the constraint is known to allow every continuation from here on.
  bool is_free() const { return knows_end() && job_->next.is_free; }

  // Return the mask of the next token, or one bit of it. Call only if is_ready(). Tokens that end
  // the answer are allowed if the constraint is complete, whatever text they stand for, or if it
  // allows nothing but their text.
  const TokenBitmask& mask();
  bool allows(TokenId token);

  // Returns the forced next tokens, as far as they are known.
  std::span<const TokenId> forced() const;

  // Appends a token of the answer, not one that ends it. Call only if is_ready().
  void advance(TokenId token);

 private:
  std::shared_ptr<MaskJob> job_;  // shared with the thread that works on it
  std::span<const TokenId> ends_;
};

}  // namespace kvik
