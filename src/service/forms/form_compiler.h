#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "service/forms/answer_form.h"
#include "service/forms/form_vocabulary.h"
#include "text/grammar/matcher.h"

namespace kvik {

// A form, ready for answers of one vocabulary.
struct CompiledForm {
  std::shared_ptr<const FormVocabulary> vocabulary;
  std::shared_ptr<grammar::Constraint> grammar;  // with all masks that were made so far
  std::vector<std::string> relaxed;              // paths of what it does not keep
};

// Compiles forms, and keeps those that were used last: a schema mostly comes again. Any thread;
// compiling takes the thread of whoever asks.
class FormCompiler {
 public:
  // The tokenizer is borrowed.
  explicit FormCompiler(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Errors: kInvalidArgument, kUnsupported, with the form's field in `param` and the place within
  // it in the sentence.
  Result<CompiledForm> compile(const AnswerForm& form);

  // Compiled, and still kept.
  bool knows(const AnswerForm& form) const;

 private:
  static constexpr size_t kMaxKept = 32;
  static constexpr size_t kMaxVocabularies = 8;

  struct Kept {
    AnswerForm form;
    CompiledForm compiled;
  };

  std::shared_ptr<const FormVocabulary> vocabulary(const std::vector<TokenId>& marks);
  const CompiledForm* find(const AnswerForm& form) const REQUIRES(mutex_);

  const Tokenizer& tokenizer_;
  mutable Mutex mutex_;
  std::list<Kept> kept_ GUARDED_BY(mutex_);  // that was used last comes first
  // By marks, with the first form that has them. A template has a handful of sets of them.
  std::map<std::vector<TokenId>, std::shared_ptr<const FormVocabulary>> vocabularies_
      GUARDED_BY(mutex_);
};

}  // namespace kvik
