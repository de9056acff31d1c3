#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/sample/constraint.h"

namespace kvik {

// A constraint for tests without text: the n-th token of an answer must be congruent to n modulo 3.
// Counts the calls that it receives.
class CountingConstraint final : public Constraint {
 public:
  struct Options {
    uint32_t n_vocab = 260;
    uint32_t may_end_at = UINT32_MAX;  // in tokens
    uint32_t must_end_at = UINT32_MAX;
  };
  struct Counts {
    std::atomic<int> masks = 0;
    std::atomic<int> tokens_tried = 0;
  };

  explicit CountingConstraint(const Options& options) : options_(options) {}

  std::unique_ptr<Constraint> fork() const override {
    return std::make_unique<CountingConstraint>(*this);
  }
  void fill_mask(TokenBitmask& mask) override {
    ++counts_->masks;
    mask.allow_none();
    for (TokenId id = 0; id < options_.n_vocab; ++id) {
      if (fits(id)) mask.allow(id);
    }
  }
  bool allows(TokenId token) override {
    ++counts_->tokens_tried;
    return fits(token);
  }
  void advance(TokenId token) override {
    CHECK(fits(token));
    ++n_;
  }
  void roll_back(uint32_t n) override { n_ -= n; }
  End end() override {
    return n_ >= options_.must_end_at  ? End::kMust
           : n_ >= options_.may_end_at ? End::kMay
                                       : End::kNotYet;
  }
  void forced(uint32_t, std::vector<TokenId>&) override {}

  const Counts& counts() const { return *counts_; }

 private:
  bool fits(TokenId token) const { return n_ < options_.must_end_at && token % 3 == n_ % 3; }

  Options options_;
  uint32_t n_ = 0;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();  // shared by all forks
};

}  // namespace kvik
