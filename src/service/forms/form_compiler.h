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
#include "service/forms/answer_form.h"
#include "service/forms/form_vocabulary.h"
#include "service/forms/grammar_memory.h"
#include "service/forms/grammar_meter.h"

namespace kvik {

// A form, ready for answers of one vocabulary.
struct CompiledForm {
  std::shared_ptr<const FormVocabulary> vocabulary;
  // Shared with the answers in progress; counted in GrammarMemory until the last of them is gone.
  std::shared_ptr<const constrain::CompiledGrammar> grammar;
  std::vector<std::string> relaxed;  // paths of the keywords that it does not keep
};

// Compiles forms and keeps the compiled grammars that were used last: a schema mostly comes again.
// A grammar is found again by its owner alone, so that the time which a request takes does not tell
// one key which grammars another key uses. Any thread; compiling takes the caller's thread.
//
// All compiled grammars together, those of answers in progress included, take kMaxBytes at most.
// If a new one does not fit, the least recently used grammar of the tenant that has most is
// evicted, unless an answer uses it.
class FormCompiler {
 public:
  // A tenant and its cache salt.
  struct Owner {
    std::string tenant;
    std::string salt;
    friend bool operator==(const Owner&, const Owner&) = default;
  };

  // The tokenizer is borrowed. `language`: of schemas in forms that choose none.
  explicit FormCompiler(const Tokenizer& tokenizer,
                        JsonStyle::Language language = JsonStyle::Language::kCanonical,
                        size_t max_bytes = kMaxBytes)
      : tokenizer_(tokenizer), language_(language), max_bytes_(max_bytes) {}

  // Errors: kInvalidArgument, kUnsupported, with the form's field in `param` and the place within
  // it in the sentence; kExhausted where the grammars in use leave no memory for it.
  Result<CompiledForm> compile(const AnswerForm& form, const Owner& owner = {}) {
    return compile(form, owner, constrain::Limits());
  }

  // Compiles within kSmallWork. Returns false if that does not suffice, or if the tenant has used
  // the processor time that it has for such attempts: then compile() says what becomes of the form,
  // on a thread that nobody waits for. Errors: those of compile(), which would find the same.
  Result<bool> try_compile(const AnswerForm& form, const Owner& owner = {});

  // Returns whether it is compiled for this owner, and still kept.
  bool knows(const AnswerForm& form, const Owner& owner = {}) const;

  GrammarMemory memory() const;

  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr size_t kMaxVocabularies = 4;
  static constexpr size_t kMaxKept = 128;
  static constexpr uint64_t kSmallWork = 100'000;  // steps, as of constrain::Limits::max_work
  // Budget of each tenant for try_compile(), which delays the engine.
  static constexpr ProcessorBudget::Rule kAttempts = {.share = 0.005,
                                                      .burst = std::chrono::milliseconds(20)};

 private:
  struct Kept {
    AnswerForm form;
    Owner owner;
    CompiledForm compiled;
  };
  using KeptList = std::list<Kept>;

  Result<CompiledForm> compile(const AnswerForm& form, const Owner& owner,
                               const constrain::Limits& limits);
  std::shared_ptr<const FormVocabulary> vocabulary(const std::vector<TokenId>& marks);
  const Kept* find(const AnswerForm& form, const Owner& owner) const REQUIRES(mutex_);
  Result<void> make_room(size_t bytes, const Owner& owner) REQUIRES(mutex_);
  KeptList::iterator least_needed(const Owner* only) REQUIRES(mutex_);

  const Tokenizer& tokenizer_;
  const JsonStyle::Language language_;
  const size_t max_bytes_;
  std::shared_ptr<GrammarMeter> meter_ = std::make_shared<GrammarMeter>();  // outlived by grammars
  mutable Mutex mutex_;
  ProcessorBudget attempts_ GUARDED_BY(mutex_){kAttempts};
  KeptList kept_ GUARDED_BY(mutex_);  // most recently used first
  // By marks, with the first form that has them. A template has a handful of sets of them, which
  // depend on no request's content.
  std::map<std::vector<TokenId>, std::shared_ptr<const FormVocabulary>> vocabularies_
      GUARDED_BY(mutex_);
};

}  // namespace kvik
