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

// Tries texts on grammars, as an answer of a model would be: token by token, a mask before each.
// One thread.
class Trial {
 public:
  Trial(const Tokenizer& tokenizer, SchemaOptions options);

  struct Outcome {
    bool accepted = false;
    size_t n_bytes = 0;        // that were accepted
    size_t n_tokens = 0;       // that had a mask
    std::string allowed = {};  // the bytes that might have followed; empty where accepted
    bool could_end = false;
  };
  // Calls time(nanoseconds) of each mask.
  template <class Time>
  Result<Outcome> run(CompiledGrammar& compiled, std::string_view text, const Time& time) const;
  Result<Outcome> run(CompiledGrammar& compiled, std::string_view text) const;

  std::shared_ptr<CompiledGrammar> compile(Grammar grammar) const {
    return CompiledGrammar::make(std::move(grammar), vocabulary_);
  }

  // {"id", "schema", "tests": [{"valid", "data"}]} in a line becomes a line of {"id", "compiled",
  // "error", "compile_us", "tests", "mask_us", "tokens"}. Errors: not such a line.
  Result<std::string> run_line(std::string_view line);

  // What all lines so far took, in a sentence.
  std::string times();

 private:
  const Tokenizer& tokenizer_;
  SchemaOptions options_;
  std::shared_ptr<const VocabularyTrie> vocabulary_;  // shared with what is compiled
  std::vector<double> compile_us_, mask_us_;          // of all lines
};

}  // namespace kvik::constrain
