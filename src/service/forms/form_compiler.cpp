#include "service/forms/form_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/grammar/front/gbnf.h"
#include "text/grammar/front/lark.h"
#include "text/grammar/front/plain_forms.h"
#include "text/grammar/json_schema.h"

namespace kvik {
namespace {

using Kind = AnswerForm::Kind;

// What people put between the words of JSON, deep as it may be indented.
constexpr uint32_t kFlexibleBlanks = 64;

struct Made {
  grammar::Grammar grammar;
  std::vector<std::string> relaxed = {};
};

Result<Made> make(const AnswerForm& form) {
  const grammar::Limits limits;
  const grammar::Whitespace whitespace{
      form.whitespace == AnswerForm::Whitespace::kFlexible ? kFlexibleBlanks : 0};
  using Strictness = grammar::SchemaOptions::Strictness;
  const bool is_relaxed = form.strictness == AnswerForm::Strictness::kRelaxed;
  const auto made = [](Result<grammar::Grammar> grammar) -> Result<Made> {
    TRY_ASSIGN(grammar::Grammar all, std::move(grammar));
    return Made{std::move(all)};
  };
  switch (form.kind) {
    case Kind::kJsonObject:
      return made(grammar::compile_json_object({.limits = limits, .whitespace = whitespace}));
    case Kind::kRegex:
      return made(grammar::regex_grammar(form.text, limits));
    case Kind::kChoice:
      return made(grammar::choice_grammar(form.choices, limits));
    case Kind::kGbnf:
      return made(grammar::parse_gbnf(form.text, limits));
    case Kind::kLark:
      return made(grammar::parse_lark(
          form.text, {.limits = limits,
                      .whitespace = whitespace,
                      .strictness = is_relaxed ? Strictness::kRelaxed : Strictness::kStrict}));
    case Kind::kJsonSchema:
      break;
  }
  TRY_ASSIGN(
      grammar::SchemaGrammar schema,
      grammar::compile_json_schema(
          form.text, {.limits = limits,
                      .whitespace = whitespace,
                      .strictness = is_relaxed ? Strictness::kRelaxed : Strictness::kStrict}));
  return Made{std::move(schema.grammar), std::move(schema.left_out)};
}

// The same form, whatever field it came in.
bool is_same(const AnswerForm& a, const AnswerForm& b) {
  return a.kind == b.kind && a.strictness == b.strictness && a.whitespace == b.whitespace &&
         a.text == b.text && a.choices == b.choices && a.marks == b.marks;
}

}  // namespace

const CompiledForm* FormCompiler::find(const AnswerForm& form) const {
  for (const Kept& kept : kept_) {
    if (is_same(kept.form, form)) return &kept.compiled;
  }
  return nullptr;
}

bool FormCompiler::knows(const AnswerForm& form) const {
  const MutexLock lock(mutex_);
  return find(form) != nullptr;
}

std::shared_ptr<const FormVocabulary> FormCompiler::vocabulary(const std::vector<TokenId>& marks) {
  {
    const MutexLock lock(mutex_);
    const auto known = vocabularies_.find(marks);
    if (known != vocabularies_.end()) return known->second;
  }
  // Two threads may make it at the same time: one of the two is kept.
  auto made = std::make_shared<const FormVocabulary>(tokenizer_, marks);
  const MutexLock lock(mutex_);
  if (vocabularies_.size() >= kMaxVocabularies) vocabularies_.clear();  // forms keep their own
  return vocabularies_.try_emplace(marks, std::move(made)).first->second;
}

Result<CompiledForm> FormCompiler::compile(const AnswerForm& form) {
  {
    const MutexLock lock(mutex_);
    const auto place =
        std::ranges::find_if(kept_, [&](const Kept& kept) { return is_same(kept.form, form); });
    if (place != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, place);
      return place->compiled;
    }
  }
  auto made = make(form);
  if (!made) return fail(made.error().code, std::move(made.error().message), form.param);
  CompiledForm compiled{vocabulary(form.marks), nullptr, std::move(made->relaxed)};
  compiled.grammar =
      grammar::Constraint::make(std::move(made->grammar), compiled.vocabulary->trie());
  const MutexLock lock(mutex_);
  if (const CompiledForm* meanwhile = find(form)) return *meanwhile;  // by another thread
  kept_.push_front({form, compiled});
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return compiled;
}

}  // namespace kvik
