#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constrain/grammar_matcher.h"
#include "constrain/json_schema.h"
#include "text/tokenizer.h"

namespace kvik::constrain {

// Tests texts against grammars like the answers of a model: token by token, with a mask computed
// before each token. Not thread-safe.
class Trial {
 public:
  Trial(const Tokenizer& tokenizer, SchemaOptions options);

  struct Outcome {
    bool accepted = false;
    size_t n_bytes = 0;        // number of accepted bytes
    size_t n_tokens = 0;       // number of tokens for which a mask was computed
    std::string allowed = {};  // bytes allowed at the rejected position; empty if accepted
    bool could_end = false;
  };
  // Calls time(microseconds) for each mask.
  template <class Time>
  Result<Outcome> run(CompiledGrammar& compiled, std::string_view text, const Time& time) const;
  Result<Outcome> run(CompiledGrammar& compiled, std::string_view text) const;

  std::shared_ptr<CompiledGrammar> compile(Grammar grammar) const {
    return CompiledGrammar::make(std::move(grammar), vocabulary_);
  }

  // Tests one line {"id", "schema", "tests": [{"valid", "data"}]} and returns a line {"id",
  // "compiled", "error", "compile_us", "tests", "mask_us", "tokens"}. Error: kInvalidArgument for
  // any other line.
  Result<std::string> run_line(std::string_view line);

  // Returns a summary of the times of all lines so far.
  std::string times();

 private:
  const Tokenizer& tokenizer_;
  SchemaOptions options_;
  std::shared_ptr<const VocabularyTrie> vocabulary_;  // shared with the compiled grammars
  std::vector<double> compile_us_, mask_us_;          // one entry per schema; one entry per mask
};

}  // namespace kvik::constrain
