#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/grammar_matcher.h"
#include "engine/sample/constraint.h"
#include "service/structured_output/grammar_vocabulary.h"
#include "service/structured_output/mark_tokens.h"

namespace kvik {

// Constrains an answer to a grammar. If the answer begins with reasoning, the reasoning may be any
// text up to its end mark, and the text after it must match the grammar. Either the template opens
// the reasoning, or the model may choose to.
//
// Text that the grammar forces must use the tokens that the tokenizer would produce for it; no
// other tokens are allowed in its place. If matching exceeds its limits, no token is allowed, and
// the answer ends with an error.
class AnswerConstraint final : public Constraint {
 public:
  AnswerConstraint(std::shared_ptr<const GrammarVocabulary> vocabulary,
                   std::shared_ptr<const constrain::CompiledGrammar> form,
                   AnswerPreamble preamble = {});

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
  using Tokens = std::shared_ptr<const std::vector<TokenId>>;  // shared by states and forks

  // The part of the answer that the next token belongs to. Parts that the preamble does not have
  // are skipped.
  enum class Place : uint8_t {
    kOpening,    // tokens that open the reasoning; they are forced
    kOffer,      // the form begins here, unless the model opens reasoning
    kReasoning,  // any text up to the end mark
    kClosing,    // tokens between the end mark and the form; they are forced
    kForm,       // text of the grammar
  };

  // The state that changes with each token, in addition to the matcher's.
  struct State {
    Place place = Place::kForm;
    bool has_failed = false;
    bool has_looked = false;  // forced text was computed for this state
    uint32_t n_read = 0;      // number of tokens that the matcher has read
    size_t next_forced = 0;   // index into `forced`
    Tokens forced = {};       // null: none. In the opening and the closing, all of their tokens.
    MarkSearch search = {};   // for the end mark of the reasoning
  };

  State& now() { return states_.back(); }
  // Returns the forced next token, if there is one.
  std::optional<TokenId> must_come();
  bool is_readable(std::string_view text);
  bool grammar_allows(TokenId token);
  bool is_offered(TokenId token) const;
  void fill_grammar_mask(TokenBitmask& mask);
  void fill_reasoning_mask(TokenBitmask& mask);
  void advance_reasoning(TokenId token);
  void enter(Place place);
  void fail();
  void drop_old_states();
  // Executes a step, and undoes it if it needs more than the small effort and `effort` does not
  // allow more.
  template <class Step>
  Outcome attempt(Effort effort, const Step& step);

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::shared_ptr<const AnswerPreamble> preamble_;  // shared with forks
  // counted in GrammarMemory while an answer uses it
  std::shared_ptr<const constrain::CompiledGrammar> form_;
  constrain::GrammarMatcher matcher_;
  // states before each of the newest tokens; the last is the current one
  std::vector<State> states_;
  bool was_small_tried_ = false;  // the small effort was insufficient for the next step
};

}  // namespace kvik
