#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/process/processor_budget.h"
#include "base/result.h"
#include "constrain/grammar_matcher.h"
#include "service/structured_output/grammar_memory.h"
#include "service/structured_output/grammar_meter.h"
#include "service/structured_output/grammar_vocabulary.h"
#include "service/structured_output/structured_output.h"

namespace kvik {

// A form compiled for one vocabulary.
struct CompiledOutputGrammar {
  std::shared_ptr<const GrammarVocabulary> vocabulary;
  // Shared with the answers in progress; counted in GrammarMemory until the last reference is gone.
  std::shared_ptr<const constrain::CompiledGrammar> grammar;
  std::vector<std::string> relaxed;  // paths of the schema keywords that it does not enforce
};

// Compiles forms and caches the most recently used grammars, since the same schema is usually
// requested again. A cached grammar is visible only to its owner, so the latency of a request does
// not reveal which grammars other API keys use. Any thread; compilation runs on the caller's
// thread.
//
// All compiled grammars, including those of answers in progress, use at most kMaxBytes. If a new
// one does not fit, the least recently used grammar of the tenant with the most memory is evicted,
// unless an answer uses it.
class GrammarCompiler {
 public:
  // A tenant and its cache salt.
  struct Owner {
    std::string tenant;
    std::string salt;
    friend bool operator==(const Owner&, const Owner&) = default;
  };

  // Borrows the tokenizer. `language`: the default for forms that do not choose one.
  explicit GrammarCompiler(const Tokenizer& tokenizer,
                           JsonStyle::Language language = JsonStyle::Language::kCanonical,
                           size_t max_bytes = kMaxBytes)
      : tokenizer_(tokenizer), language_(language), max_bytes_(max_bytes) {}

  // Returns the compiled form. Errors: kInvalidArgument and kUnsupported, with the form's field in
  // `param` and the location within it in the message; kExhausted if the grammars in use leave no
  // memory for this one.
  Result<CompiledOutputGrammar> compile(const StructuredOutput& form, const Owner& owner = {}) {
    return compile(form, owner, constrain::Limits());
  }

  // Compiles a form within kSmallWork steps. Returns false if that is not enough, or if the tenant
  // has used up its CPU budget for such attempts; then the caller should use compile() on a thread
  // that no other work waits for. Errors: those of compile().
  Result<bool> try_compile(const StructuredOutput& form, const Owner& owner = {});

  // Returns whether the compiled form is in this owner's cache.
  bool knows(const StructuredOutput& form, const Owner& owner = {}) const;

  GrammarMemory memory() const;

  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr size_t kMaxVocabularies = 4;
  static constexpr size_t kMaxKept = 128;
  static constexpr uint64_t kSmallWork = 100'000;  // in units of constrain::Limits::max_work
  // Each tenant's CPU budget for try_compile(), which delays the engine.
  static constexpr ProcessorBudget::Rule kAttempts = {.share = 0.005,
                                                      .burst = std::chrono::milliseconds(20)};

 private:
  struct Kept {
    StructuredOutput form;
    Owner owner;
    CompiledOutputGrammar compiled;
  };
  using KeptList = std::list<Kept>;

  Result<CompiledOutputGrammar> compile(const StructuredOutput& form, const Owner& owner,
                                        const constrain::Limits& limits);
  std::shared_ptr<const GrammarVocabulary> vocabulary(const std::vector<TokenId>& marks);
  const Kept* find(const StructuredOutput& form, const Owner& owner) const REQUIRES(mutex_);
  Result<void> make_room(size_t bytes, const Owner& owner) REQUIRES(mutex_);
  KeptList::iterator min_needed(const Owner* only) REQUIRES(mutex_);

  const Tokenizer& tokenizer_;
  const JsonStyle::Language language_;
  const size_t max_bytes_;
  // grammars may outlive the compiler
  std::shared_ptr<GrammarMeter> meter_ = std::make_shared<GrammarMeter>();
  mutable Mutex mutex_;
  ProcessorBudget attempts_ GUARDED_BY(mutex_){kAttempts};
  KeptList kept_ GUARDED_BY(mutex_);  // most recently used first
  // Vocabularies by their marks, created for the first form that has these marks. A template has
  // only a few sets of marks, which do not depend on the content of requests.
  std::map<std::vector<TokenId>, std::shared_ptr<const GrammarVocabulary>> vocabularies_
      GUARDED_BY(mutex_);
};

}  // namespace kvik
