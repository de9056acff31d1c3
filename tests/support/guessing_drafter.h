#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "engine/sequence.h"
#include "engine/speculate/drafter.h"

namespace kvik {

// A drafter that knows the answers and is sometimes wrong: its drafts have any length, a correct
// beginning and possibly an incorrect rest.
class ScriptedDrafter final : public Drafter {
 public:
  ScriptedDrafter(uint32_t n_vocab, uint32_t seed) : n_vocab_(n_vocab), random_(seed) {}

  // Adds the prompt and the answer of a sequence that the drafter will be called for.
  void know(std::vector<TokenId> tokens) { known_.push_back(std::move(tokens)); }

  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override {
    const uint32_t n = random_() % (n_max + 1);
    const uint32_t n_right = random_() % 12;
    const std::vector<TokenId>* tokens = continuation_of(sequence.tokens);
    for (uint32_t i = 0; i < n; ++i) {
      const size_t at = sequence.tokens.size() + i;
      const bool is_right = tokens && at < tokens->size() && i < n_right;
      draft.push_back({is_right ? (*tokens)[at] : static_cast<TokenId>(random_() % n_vocab_),
                       {DraftSource::kModel, DraftKind::kLevels - 1}});
    }
  }

 private:
  const std::vector<TokenId>* continuation_of(const std::vector<TokenId>& tokens) const {
    for (const auto& known : known_) {
      if (known.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), known.begin()))
        return &known;
    }
    return nullptr;
  }

  uint32_t n_vocab_;
  std::mt19937 random_;
  std::vector<std::vector<TokenId>> known_;
};

}  // namespace kvik
