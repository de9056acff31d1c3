#include "service/structured_output/grammar_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "constrain/front/gbnf.h"
#include "constrain/front/lark.h"
#include "constrain/front/plain_forms.h"
#include "constrain/json_schema.h"
#include "service/structured_output/grammar_builder.h"

namespace kvik {
namespace {

using Kind = StructuredOutput::Kind;

struct Made {
  constrain::Grammar grammar;
  std::vector<std::string> relaxed = {};
};

constrain::Whitespace whitespace_of(JsonStyle::Whitespace whitespace) {
  // as deep as hand-written indentation
  constexpr uint32_t kFlexibleBlanks = 64;
  switch (whitespace) {
    case JsonStyle::Whitespace::kCompact:
      return {};
    case JsonStyle::Whitespace::kFlexible:
      return {.max_run = kFlexibleBlanks};
    case JsonStyle::Whitespace::kSpaced:
      break;
  }
  return constrain::Whitespace::spaced();
}

constrain::SchemaOptions schema_options(const StructuredOutput& form,
                                        JsonStyle::Language by_default,
                                        const constrain::Limits& limits) {
  using Options = constrain::SchemaOptions;
  const bool is_relaxed = form.strictness == StructuredOutput::Strictness::kRelaxed;
  const bool is_full = form.style.language.value_or(by_default) == JsonStyle::Language::kFull;
  return {.limits = limits,
          .whitespace = whitespace_of(form.style.whitespace),
          .strictness = is_relaxed ? Options::Strictness::kRelaxed : Options::Strictness::kStrict,
          .language = is_full ? Options::Language::kFull : Options::Language::kCanonical};
}

Result<Made> make(const StructuredOutput& form, JsonStyle::Language language,
                  const constrain::Limits& limits) {
  const constrain::SchemaOptions options = schema_options(form, language, limits);
  const auto made = [](Result<constrain::Grammar> grammar) -> Result<Made> {
    TRY_ASSIGN(constrain::Grammar all, std::move(grammar));
    return Made{std::move(all)};
  };
  switch (form.kind) {
    case Kind::kJsonObject:
      return made(constrain::compile_json_object(options));
    case Kind::kRegex:
      return made(constrain::regex_grammar(form.text, options.limits));
    case Kind::kChoice:
      return made(constrain::choice_grammar(form.choices, options.limits));
    case Kind::kGbnf:
      return made(constrain::parse_gbnf(form.text, options.limits));
    case Kind::kLark:
      return made(constrain::parse_lark(form.text, options));
    case Kind::kRules:
      return made(build_grammar(form.rules, options));
    case Kind::kJsonSchema:
      break;
  }
  TRY_ASSIGN(constrain::SchemaGrammar schema, constrain::compile_json_schema(form.text, options));
  return Made{std::move(schema.grammar), std::move(schema.left_out)};
}

size_t bytes_of(const StructuredOutput& form) {
  return sizeof(form) + form.text.size() + n_bytes(form.rules) + form.choices.n_bytes() +
         form.choices.size() * sizeof(size_t);
}

// Returns whether two forms are the same, ignoring the request field that they came from.
bool is_same(const StructuredOutput& a, const StructuredOutput& b) {
  return a.kind == b.kind && a.strictness == b.strictness && a.style == b.style &&
         a.text == b.text && a.choices == b.choices && a.rules == b.rules && a.marks == b.marks;
}

}  // namespace

const GrammarCompiler::Kept* GrammarCompiler::find(const StructuredOutput& form,
                                                   const Owner& owner) const {
  for (const Kept& kept : kept_) {
    if (kept.owner == owner && is_same(kept.form, form)) return &kept;
  }
  return nullptr;
}

bool GrammarCompiler::knows(const StructuredOutput& form, const Owner& owner) const {
  const MutexLock lock(mutex_);
  return find(form, owner) != nullptr;
}

GrammarMemory GrammarCompiler::memory() const {
  return {.compiled_bytes = meter_->bytes(),
          .matching_bytes = static_cast<size_t>(std::max<int64_t>(0, *meter_->matching())),
          .max_compiled_bytes = max_bytes_};
}

std::shared_ptr<const GrammarVocabulary> GrammarCompiler::vocabulary(
    const std::vector<TokenId>& marks) {
  {
    const MutexLock lock(mutex_);
    const auto known = vocabularies_.find(marks);
    if (known != vocabularies_.end()) return known->second;
  }
  // Two threads may create it at the same time; one of the two is used.
  auto made = std::make_shared<const GrammarVocabulary>(tokenizer_, marks);
  const MutexLock lock(mutex_);
  // forms hold references to theirs
  if (vocabularies_.size() >= kMaxVocabularies) vocabularies_.clear();
  return vocabularies_.try_emplace(marks, std::move(made)).first->second;
}

// Returns the least recently used grammar that no answer uses, of the tenant with the most memory.
// A tenant with many grammars therefore does not evict those of others.
GrammarCompiler::KeptList::iterator GrammarCompiler::min_needed(const Owner* only) {
  auto worst = kept_.end();
  size_t most = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->compiled.grammar.use_count() > 1) continue;
    if (only && it->owner.tenant != only->tenant) continue;
    const size_t bytes = meter_->bytes_of(it->owner.tenant);
    if (bytes < most) continue;
    most = bytes;
    worst = it;
  }
  return worst;
}

// Evicts grammars until `bytes` fit. No tenant may use more than half, so there is always memory
// for others.
Result<void> GrammarCompiler::make_room(size_t bytes, const Owner& owner) {
  for (;;) {
    const bool is_own_share_full = meter_->bytes_of(owner.tenant) + bytes > max_bytes_ / 2;
    const bool is_full = meter_->bytes() + bytes > max_bytes_ || kept_.size() >= kMaxKept;
    if (!is_full && !is_own_share_full) return {};
    const auto place = min_needed(is_own_share_full ? &owner : nullptr);
    if (place == kept_.end()) {
      return fail(
          ErrorCode::kExhausted,
          fmt::format("the grammars of answers in progress leave no room for one of {} KiB: "
                      "all together may take {} MiB, half of it for one key",
                      bytes >> 10, max_bytes_ >> 20));
    }
    kept_.erase(place);
  }
}

Result<bool> GrammarCompiler::try_compile(const StructuredOutput& form, const Owner& owner) {
  {
    const MutexLock lock(mutex_);
    const TimePoint now = std::chrono::steady_clock::now();
    if (attempts_.left(owner.tenant, now) <= Duration{}) return find(form, owner) != nullptr;
  }
  const Duration begin = thread_time();
  bool is_out_of_work = false;
  auto compiled = compile(form, owner, {.max_work = kSmallWork, .is_out_of_work = &is_out_of_work});
  const Duration took = thread_time() - begin;
  const MutexLock lock(mutex_);
  attempts_.charge(owner.tenant, took, std::chrono::steady_clock::now());
  if (compiled) return true;
  if (is_out_of_work) return false;
  return std::unexpected(std::move(compiled.error()));
}

Result<CompiledOutputGrammar> GrammarCompiler::compile(const StructuredOutput& form,
                                                       const Owner& owner,
                                                       const constrain::Limits& limits) {
  {
    const MutexLock lock(mutex_);
    const auto place = std::ranges::find_if(
        kept_, [&](const Kept& kept) { return kept.owner == owner && is_same(kept.form, form); });
    if (place != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, place);
      return place->compiled;
    }
  }
  auto made = make(form, language_, limits);
  if (!made) return fail(made.error().code, std::move(made.error().message), form.param);
  CompiledOutputGrammar compiled{vocabulary(form.marks), nullptr, std::move(made->relaxed)};
  auto grammar = constrain::CompiledGrammar::make(std::move(made->grammar),
                                                  compiled.vocabulary->trie(), meter_->matching());
  const size_t bytes = grammar->bytes() + bytes_of(form);
  const MutexLock lock(mutex_);
  // compiled by another thread meanwhile
  if (const Kept* meanwhile = find(form, owner)) return meanwhile->compiled;
  TRY(make_room(bytes, owner));
  compiled.grammar = meter_->count(std::move(grammar), bytes, owner.tenant);
  kept_.push_front({form, owner, compiled});
  return compiled;
}

}  // namespace kvik
