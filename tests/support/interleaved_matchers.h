#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "constrain/front/gbnf.h"
#include "constrain/grammar_matcher.h"

namespace kvik::constrain {

// Interleaved matchers of one random grammar whose limits are small enough to be met. The test
// checks that each matcher gives the same answers as it does alone.
//
// The tokens of a text and the reason why it ended.
struct Transcript {
  enum class End : uint8_t { kOpen, kStuck, kExhausted };
  std::vector<TokenId> tokens = {};
  End end = End::kOpen;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

inline std::shared_ptr<const VocabularyTrie> matcher_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> tokens = {"ab", "aaaa", "ba", "xa", "xx", "abc", "\xC3\xA9"};
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<const VocabularyTrie>(std::move(tokens));
  }();
  return vocabulary;
}

// Drives a matcher as the engine does: it tries the small effort first. Tokens are drawn from the
// seed given to the constructor.
class Walker {
 public:
  Walker(const CompiledGrammar& compiled, uint32_t seed)
      : matcher_(compiled.start()), mask_(compiled.vocabulary().n_vocab()), seed_(seed) {}

  // Returns false once the text has ended.
  bool step() {
    if (transcript_.end != Transcript::End::kOpen) return false;
    if (!attempt(&Walker::look)) return end(Transcript::End::kExhausted);
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < mask_.n_tokens(); ++token) {
      if (mask_.allows(token)) allowed.push_back(token);
    }
    if (allowed.empty()) return end(Transcript::End::kStuck);
    seed_ = seed_ * 1'664'525 + 1'013'904'223;
    next_ = allowed[(seed_ >> 16) % allowed.size()];
    if (!attempt(&Walker::take)) return end(Transcript::End::kExhausted);
    CHECK(is_taken_);  // the matcher accepts each token that its mask allows
    transcript_.tokens.push_back(next_);
    return true;
  }
  const Transcript& transcript() const { return transcript_; }

 private:
  bool end(Transcript::End end) {
    transcript_.end = end;
    return false;
  }
  bool attempt(bool (Walker::*part)()) {
    matcher_.set_effort(GrammarMatcher::Effort::kSmall);
    if ((this->*part)()) return true;
    if (matcher_.has_failed()) return false;
    matcher_.set_effort(GrammarMatcher::Effort::kFull);
    return (this->*part)();
  }
  bool look() {
    return matcher_.forced_bytes(32) && matcher_.is_complete() && matcher_.next_bytes() &&
           matcher_.mask(mask_);
  }
  bool take() {
    const auto taken = matcher_.accept(next_);
    is_taken_ = taken && *taken;
    return taken.has_value();
  }

  GrammarMatcher matcher_;
  TokenBitmask mask_;
  uint32_t seed_;
  TokenId next_ = 0;
  bool is_taken_ = false;
  Transcript transcript_;
};

// Returns a hostile grammar: nested repetitions, alternatives and recursion.
inline std::string random_grammar(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  static constexpr const char* kLeaves[] = {"[a-z ]", "[ab]", "\"ab\"", "[^x]", "(\"a\" | \"ab\")"};
  const uint32_t depth = 1 + below(4);
  std::string text;
  for (uint32_t i = 0; i < depth; ++i) {
    const uint32_t n_max = 1 + below(i % 2 == 0 ? 30 : 10);
    const std::string part =
        i + 1 == depth ? kLeaves[below(std::size(kLeaves))] : fmt::format("r{}", i + 1);
    text += fmt::format("{} ::= {}{{{},{}}}", i == 0 ? "root" : fmt::format("r{}", i), part,
                        below(2) + (i == 0), n_max + 1);
    if (i > 0 && below(3) == 0) text += fmt::format(" | \"x\" r{}", 1 + below(i));
    if (below(4) == 0) text += fmt::format(" | {}{{3}}", kLeaves[below(std::size(kLeaves))]);
    text += "\n";
  }
  return text;
}

inline Limits random_limits(std::mt19937& random) {
  Limits limits{.max_expressions = 20'000,
                .max_nodes = 20'000,
                .max_live_expressions = 20'000,
                .max_threads = 16u << random() % 5};
  limits.max_work_per_token = uint64_t{500} << random() % 8;
  limits.max_matching_bytes = size_t{64 << 10} << random() % 4;
  return limits;
}

struct InterleavedMatchers {
  uint32_t seed = 0;
  uint32_t n_matchers = 1;
  uint32_t n_steps = 6;  // average number of steps of each matcher
};

// Returns whether at least one matcher met a limit. Checks that each interleaved matcher gives the
// same answers as it does alone.
inline bool try_interleaved(const Grammar& grammar, const InterleavedMatchers& company,
                            std::mt19937& random) {
  const auto compiled = CompiledGrammar::make(grammar, matcher_vocabulary());
  std::vector<Walker> matchers;
  for (uint32_t i = 0; i < company.n_matchers; ++i) {
    matchers.emplace_back(*compiled, company.seed + i);
  }
  for (uint32_t step = 0; step < company.n_steps * company.n_matchers; ++step) {
    matchers[random() % company.n_matchers].step();
  }
  bool has_met_limit = false;
  for (uint32_t i = 0; i < company.n_matchers; ++i) {
    Walker alone(*CompiledGrammar::make(grammar, matcher_vocabulary()), company.seed + i);
    const Transcript& interleaved = matchers[i].transcript();
    while (alone.transcript().tokens.size() < interleaved.tokens.size() && alone.step()) {
    }
    if (interleaved.end != Transcript::End::kOpen) alone.step();
    CHECK(alone.transcript() == interleaved);
    has_met_limit |= interleaved.end == Transcript::End::kExhausted;
  }
  return has_met_limit;
}

// Does the same with a random grammar.
inline bool try_interleaved(const InterleavedMatchers& company) {
  std::mt19937 random(company.seed);
  const std::string text = random_grammar(random);
  const auto grammar = parse_gbnf(text, random_limits(random));
  return grammar && try_interleaved(*grammar, company, random);
}

}  // namespace kvik::constrain
