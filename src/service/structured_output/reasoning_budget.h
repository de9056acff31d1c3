#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sample/constraint.h"
#include "service/service_api.h"
#include "service/structured_output/mark_tokens.h"
#include "text/tokenizer.h"

namespace kvik {

// Limits the number of reasoning tokens of an answer. When it is reached, the tokens that end the
// reasoning are forced, and the answer follows. Wraps the constraint of the answer, if there is
// one; otherwise all text outside of the forced tokens is allowed, the answer may end anywhere
// else, and the constraint is free once the reasoning has ended or the answer has begun without
// any.
//
//   before ─▶ reasoning ─▶ ending (forced) ─▶ after
//     └───────────┴───────────────────────────▲
class ReasoningBudget final : public Constraint {
 public:
  struct Rules {
    std::string_view begin_mark;  // points into a static table
    std::string_view end_mark;
    AnswerBegin begin = AnswerBegin::kText;  // kReasoning: the answer begins inside the reasoning
    uint64_t n_max = 0;                      // reasoning tokens between the marks
    std::vector<TokenId> ending = {};        // forced at the limit; not empty
    std::vector<TokenId> shown = {};         // special tokens that are marks, ascending
  };

  // Borrows the tokenizer. `inner`: the constraint of the answer; null: none.
  ReasoningBudget(const Tokenizer& tokenizer, Rules rules,
                  std::shared_ptr<const Constraint> inner = nullptr);

  ReasoningBudget(const ReasoningBudget& other);

  std::unique_ptr<Constraint> fork() const override;
  void fill_mask(TokenBitmask& mask) override;
  bool allows(TokenId token) override;
  void advance(TokenId token) override;
  void roll_back(uint32_t n) override;
  End end() override;
  void forced(uint32_t n_max, std::vector<TokenId>& tokens) override;
  Outcome try_advance(Effort effort, std::optional<TokenId> token, Next& next,
                      uint32_t n_max) override;
  Outcome try_mask(Effort effort, TokenBitmask& mask) override;

 private:
  enum class Place : uint8_t { kBefore, kReasoning, kEnding, kAfter };

  struct State {
    Place place = Place::kBefore;
    uint64_t n_reasoning = 0;  // reasoning tokens so far
    uint32_t n_forced = 0;     // tokens of the ending so far
    std::string start = {};    // before: the text of the answer so far
    MarkSearch search = {};    // reasoning: for its end mark
  };

  State& now() { return states_.back(); }
  bool is_ending() const { return states_.back().place == Place::kEnding; }
  TokenId next_of_ending() const { return rules_->ending[states_.back().n_forced]; }
  void append(TokenId token);
  void read_before(TokenId token);
  void read_reasoning(TokenId token);
  void enter_reasoning();
  End end_after(End inner) const;
  void append_ending(uint32_t n_max, std::vector<TokenId>& tokens) const;

  const Tokenizer& tokenizer_;
  const std::shared_ptr<const Rules> rules_;  // shared with forks
  const std::unique_ptr<Constraint> inner_;   // null: none
  // states before each of the newest tokens; the last is the current one
  std::vector<State> states_;
};

// The end of reasoning at the limit.
struct ReasoningEnding {
  std::string_view message = {};  // forced before the end mark
  bool is_constrained = false;    // the answer has a constraint, which forces what follows the mark
};

// Returns the rules for an answer with these options. `answer_begin` and `reasoning_budget` must be
// set. In harmony the ending also opens the final message, unless the answer is constrained or
// may call tools.
ReasoningBudget::Rules reasoning_rules(const Tokenizer& tokenizer, const OutputOptions& output,
                                       const ReasoningEnding& ending);

}  // namespace kvik
