#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/grammar_matcher.h"
#include "engine/sample/constraint.h"
#include "service/forms/form_vocabulary.h"

namespace kvik {

// An answer that keeps to a grammar. Where it begins with a thought, that may be any text up to its
// end, and what follows keeps to the grammar. Whether it does, the template says or leaves to the
// model.
//
// Text that must come comes in the tokens that the tokenizer would cut it into: no other one is
// allowed in their place. Where the grammar takes more than its limits for an answer, nothing is
// allowed any more, and the answer ends with an error.
class AnswerMatcher final : public Constraint {
 public:
  AnswerMatcher(std::shared_ptr<const FormVocabulary> vocabulary,
                std::shared_ptr<const constrain::CompiledGrammar> form, FormLead lead = {});

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

  // kOffer: the form begins, unless the model opens a thought.
  enum class Place : uint8_t { kOpening, kOffer, kThought, kClosing, kForm };

  // What changes with each token, besides the matcher.
  struct State {
    Place place = Place::kForm;
    bool has_failed = false;
    bool has_looked = false;  // for text that must come
    uint32_t n_read = 0;      // tokens that the matcher has read
    size_t next_forced = 0;   // of `forced`
    Tokens forced = {};       // null: none; all that is left of the opening or the closing
    std::string tail = {};    // of the thought: what may be the beginning of its end
  };

  State& now() { return states_.back(); }
  // The token that must come, if one must.
  std::optional<TokenId> must_come();
  // The part of a token behind the thought's end; nothing where the thought goes on.
  std::optional<std::string_view> behind_thought(std::string_view piece) const;
  bool is_readable(std::string_view text);
  bool form_allows(TokenId token);
  bool is_offered(TokenId token) const;
  void fill_form_mask(TokenBitmask& mask);
  void fill_thought_mask(TokenBitmask& mask);
  void think(TokenId token);
  void enter(Place place);
  void fail();
  void drop_old_states();
  // Takes a step that is undone where a small effort does not suffice.
  template <class Step>
  Outcome attempt(Effort effort, const Step& step);

  std::shared_ptr<const FormVocabulary> vocabulary_;
  std::shared_ptr<const FormLead> lead_;                    // shared with forks
  std::shared_ptr<const constrain::CompiledGrammar> form_;  // counted as long as an answer uses it
  constrain::GrammarMatcher matcher_;
  std::vector<State> states_;     // before each of the newest tokens; the last one is now
  bool was_small_tried_ = false;  // for the step that comes next, and did not suffice
};

}  // namespace kvik
