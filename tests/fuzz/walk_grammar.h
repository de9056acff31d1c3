#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "constrain/grammar_matcher.h"

namespace kvik::constrain {

// Limits for the grammars of a fuzz target: small, so that a run tries many.
inline Limits small_limits() {
  return {.max_expressions = 5'000,
          .max_nodes = 5'000,
          .max_live_expressions = 20'000,
          .max_threads = 64};
}

// Goes a few tokens along some text of the grammar: what a mask allows is accepted, what it does
// not is refused, and taking tokens back leads to the same masks.
inline void walk(Grammar grammar, uint32_t seed) {
  static const auto vocabulary = [] {
    std::vector<std::string> tokens = {"\":", "},", "ab", "aaaa", "\"}", "{\"", "true", "\xC3\xA9"};
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<VocabularyTrie>(std::move(tokens));
  }();
  const auto compiled = CompiledGrammar::make(std::move(grammar), vocabulary);
  GrammarMatcher matcher = compiled->start();
  TokenBitmask before(vocabulary->n_vocab());
  TokenBitmask mask(vocabulary->n_vocab());
  for (int step = 0; step < 12; ++step) {
    if (!matcher.mask(mask)) return;  // beyond the limits
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < vocabulary->n_vocab(); ++token) {
      if (mask.allows(token)) allowed.push_back(token);
    }
    if (allowed.empty()) return;
    seed = seed * 1'664'525 + 1'013'904'223;
    const TokenId token = allowed[(seed >> 16) % allowed.size()];
    const auto is_allowed = matcher.allows(token);
    const auto is_taken = matcher.accept(token);
    if (!is_allowed || !is_taken) return;
    CHECK(*is_allowed && *is_taken);
    matcher.roll_back(1);
    if (!matcher.mask(before)) return;
    CHECK(before == mask);
    const auto is_taken_again = matcher.accept(token);
    if (!is_taken_again) return;
    CHECK(*is_taken_again);
  }
}

}  // namespace kvik::constrain
