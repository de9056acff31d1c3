#include "service/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>

#include "engine/request/adapter_digest.h"
#include "service/adapters/adapter_registry.h"
#include "service/answer_size.h"
#include "service/attest/choice_count.h"
#include "service/check_request.h"
#include "service/choice_stream.h"
#include "service/encode/pair_prompt.h"
#include "service/encode/prepare_embedding.h"
#include "service/pooling_stream.h"
#include "service/structured_output/answer_constraint.h"
#include "service/structured_output/reasoning_budget.h"

namespace kvik {
namespace {

// The requests of a completion; destroying it cancels them.
class Running : public Completion {
 public:
  Running(EngineThread& engine, size_t prompt_tokens)
      : engine_(engine), prompt_tokens_(static_cast<uint32_t>(prompt_tokens)) {}
  ~Running() override {
    for (const RequestId id : ids_) engine_.cancel(id);
  }

  void add(RequestId id) { ids_.push_back(id); }
  uint32_t prompt_tokens() const override { return prompt_tokens_; }

 private:
  EngineThread& engine_;
  uint32_t prompt_tokens_;
  std::vector<RequestId> ids_;
};

class RunningCompletion final : public Running {
 public:
  RunningCompletion(EngineThread& engine, size_t prompt_tokens,
                    std::shared_ptr<CompletionState> state, std::vector<std::string> relaxed)
      : Running(engine, prompt_tokens), relaxed_(std::move(relaxed)), state_(std::move(state)) {}
  ~RunningCompletion() override { state_->abandoned = true; }
  std::vector<std::string> relaxed() const override { return relaxed_; }
  std::shared_ptr<const AttestedRequest> attested() const override { return attested_; }
  void attest(AttestedRequest request) {
    attested_ = std::make_shared<const AttestedRequest>(std::move(request));
  }

 private:
  std::shared_ptr<const AttestedRequest> attested_;
  const std::vector<std::string> relaxed_;
  std::shared_ptr<CompletionState> state_;
};

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Service::Service(const Tokenizer& tokenizer, EngineThread& engine, ModelCard card,
                 const ChatFormatOptions& chat, ServiceAdapters adapters, ServiceReranker reranker)
    : tokenizer_(tokenizer),
      engine_(engine),
      card_(std::move(card)),
      answers_(std::make_shared<AnswerMemory>(chat.answer_memory_bytes)),
      chat_(tokenizer, chat, answers_.get()),
      reasoning_budget_message_(chat.reasoning_budget_message),
      grammar_compiler_(tokenizer, chat.schema_language),
      adapters_(std::move(adapters)),
      reranker_(std::move(reranker)),
      dry_breakers_(tokenizer) {
  if (!answers_->is_on() || chat.answer_folder.empty()) return;
  const std::string& fingerprint = card_.weights.digest;
  answer_file_.emplace(AnswerFile::path_in(chat.answer_folder, fingerprint),
                       AnswerFile::Model{fingerprint, card_.n_vocab}, answers_);
}

// Sets the adapter that `model` names. Errors: kNotFound if it is neither the served model nor one
// of its adapters.
Result<void> Service::choose_adapter(const std::optional<std::string>& model,
                                     Request& to_run) const {
  if (!model) {
    to_run.adapter = adapters_.by_default;
  } else if (const auto name = adapter_name(adapters_.book, card_, *model)) {
    TRY_ASSIGN(to_run.adapter, adapters_.book->take(*name));
    to_run.adapter_name = *name;
  } else {
    TRY(check_model(model, card_));
  }
  return {};
}

Result<ChatPrompt> Service::chat_prompt(const ChatRequest& request) const {
  const auto ends = engine_.limits().n_states > 0 ? ChatFormat::MessageEnds::kLast
                                                  : ChatFormat::MessageEnds::kNone;
  TRY_ASSIGN(ChatPrompt prompt, chat_.prompt(request, ends));
  if (prompt.n_restored == 0 || prompt.ids.size() < engine_.limits().n_ctx_max) return prompt;
  // Without the reasoning that the client left out, the conversation may fit.
  ChatRequest as_sent = request;
  as_sent.owner = {};
  return chat_.prompt(as_sent, ends);
}

Result<std::string> Service::apply_template(const ChatRequest& request) const {
  TRY_ASSIGN(const jinja::Text text, chat_.render(request));
  return text.bytes();
}

std::vector<TokenId> Service::tokenize(std::string_view text,
                                       const TokenizeOptions& options) const {
  return tokenizer_.tokenize(text, options);
}

Result<std::string> Service::detokenize(std::span<const TokenId> ids) const {
  TRY(check_tokens(ids, tokenizer_.n_vocab()));
  return tokenizer_.detokenize(ids, Tokenizer::Special::kShow);
}

std::vector<TokenId> Service::prompt_tokens(std::string_view text) const {
  auto ids = tokenizer_.tokenize(text, {.add_bos = true, .parse_special = true});
  const auto bos = tokenizer_.bos();
  if (ids.size() >= 2 && bos == ids[0] && bos == ids[1]) ids.erase(ids.begin());
  return ids;
}

std::vector<TokenId> Service::take_prompt(CompletionRequest& request) const {
  if (auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) return std::move(*ids);
  return prompt_tokens(std::get<std::string>(request.prompt));
}

namespace {

// Bans the tokens, and those with a bias of −∞: a constraint takes precedence over a ban.
void ban_tokens(const std::vector<TokenId>& ids, SamplingParams& sampling) {
  for (const TokenId id : ids) sampling.banned.push_back({id});
  std::erase_if(sampling.logit_bias, [&](const std::pair<TokenId, float>& bias) {
    if (bias.second != -std::numeric_limits<float>::infinity()) return false;
    sampling.banned.push_back({bias.first});
    return true;
  });
}

}  // namespace

// Fills in the engine request from the other fields.
Result<void> Service::prepare(CompletionRequest& request) {
  Request& out = request.engine;
  out.prompt = take_prompt(request);
  const uint64_t n_ctx = engine_.limits().n_ctx_max;
  // The prompt must leave room for one token; an answer ends where the context ends.
  if (out.prompt.size() + (request.max_tokens == 0 ? 0 : 1) > n_ctx) {
    return fail(
        ErrorCode::kContextLength,
        // Clients search for OpenAI's wording to fall back to another model.
        fmt::format("This model's maximum context length is {} tokens. However, your prompt has {} "
                    "tokens, and an answer needs room as well. Please shorten the prompt.",
                    n_ctx, out.prompt.size()),
        "prompt");
  }
  const uint64_t n_left = n_ctx - out.prompt.size();
  out.max_tokens = static_cast<uint32_t>(std::min(request.max_tokens.value_or(n_left), n_left));
  out.min_tokens = static_cast<uint32_t>(std::min<uint64_t>(request.min_tokens, out.max_tokens));
  if (!request.ignore_eos) {
    const auto ends = tokenizer_.end_tokens();
    out.stop_tokens.insert(out.stop_tokens.end(), ends.begin(), ends.end());
    const auto& more = request.output.answer_syntax.end_tokens;
    out.stop_tokens.insert(out.stop_tokens.end(), more.begin(), more.end());
  }
  ban_tokens(request.output.answer_syntax.forbidden_tokens, out.sampling);
  if (request.pin_ttl)
    out.pins.push_back({static_cast<uint32_t>(out.prompt.size()), *request.pin_ttl});
  out.sampling.seed = request.seed ? *request.seed : random_seed();
  TRY(add_tokens(tokenizer_, request.sampling_texts, out.sampling));
  if (out.sampling.dry.is_on()) {
    out.sampling.dry.breakers = dry_breakers_.find(request.sampling_texts.dry_breakers);
  }
  return choose_adapter(request.model, out);
}

namespace {

AttestedRequest attested(const Request& request) {
  return {.prompt = request.prompt,
          .sampling = request.sampling,
          .min_tokens = request.min_tokens,
          .stop_tokens = request.stop_tokens,
          .adapter = digest_of(request.adapter.get()),
          .is_constrained = request.constraint != nullptr};
}

AnswerPreamble lead_of(const GrammarVocabulary& vocabulary, const CompletionRequest& request) {
  const OutputOptions& output = request.output;
  if (!output.answer_begin) return {};
  return vocabulary.lead(*output.answer_begin, output.answer_syntax, request.form->includes_header);
}

}  // namespace

void Service::limit_reasoning(CompletionRequest& request) const {
  const OutputOptions& output = request.output;
  if (!output.answer_begin || !output.reasoning_budget) return;
  std::shared_ptr<const Constraint>& constraint = request.engine.constraint;
  ReasoningBudget::Rules rules = reasoning_rules(
      tokenizer_, output,
      {.message = reasoning_budget_message_, .is_constrained = constraint != nullptr});
  constraint = std::make_shared<const ReasoningBudget>(tokenizer_, std::move(rules), constraint);
}

Result<std::unique_ptr<Completion>> Service::complete(CompletionRequest request,
                                                      std::shared_ptr<CompletionSink> sink) {
  TRY(check_request(request, card_, adapters_.book));
  TRY(engine_.check_room());  // checked before the cost of tokenizing
  TRY(prepare(request));
  Request& to_run = request.engine;
  std::vector<std::string> relaxed;
  if (request.form) {
    TRY_ASSIGN(CompiledOutputGrammar form,
               grammar_compiler_.compile(*request.form, owner_of(request)));
    AnswerPreamble lead = lead_of(*form.vocabulary, request);
    // Constrained text is no reasoning, even if it looks like it.
    if (lead.end_reasoning.empty()) request.output.reasoning_budget.reset();
    to_run.constraint = std::make_shared<const AnswerConstraint>(
        form.vocabulary, std::move(form.grammar), std::move(lead));
    relaxed = std::move(form.relaxed);
  }
  if (!to_run.constraint) TRY(check_tokens_left(to_run, card_.n_vocab));
  limit_reasoning(request);
  // New tokens count only for answers that are not streamed; this is not known here, so they are
  // counted as 0.
  TRY(check_answer_size(answer_size(request, to_run.prompt.size(), 0), request));
  auto state = std::make_shared<CompletionState>();
  state->sink = std::move(sink);
  state->n_running = request.n;
  state->usage.restored_tokens = request.n_restored;
  auto completion =
      std::make_unique<RunningCompletion>(engine_, to_run.prompt.size(), state, std::move(relaxed));
  std::optional<Hash128> attested_hash;
  if (request.output.attests) {
    completion->attest(attested(to_run));
    attested_hash = with_choices(hash_of(*completion->attested()), request.n);
    to_run.trace = Request::Trace::kOn;
  }
  const auto output = std::make_shared<const OutputOptions>(std::move(request.output));
  const auto echo = output->echo ? std::make_shared<const ChoiceStream::Echo>(
                                       ChoiceStream::echo_of(tokenizer_, to_run.prompt))
                                 : nullptr;
  for (uint32_t choice = 0; choice < request.n; ++choice) {
    const bool echoes_logprobs = output->echo && to_run.n_logprobs;
    const bool reports_prompt_logprobs = output->n_prompt_logprobs && choice == 0;
    to_run.sampling.choice_index = choice;
    to_run.logits =
        echoes_logprobs || reports_prompt_logprobs ? Request::Logits::kAll : Request::Logits::kNone;
    auto stream = std::make_shared<ChoiceStream>(
        tokenizer_, state,
        ChoiceStream::Options{.choice = choice,
                              .output = output,
                              .n_logprobs = to_run.n_logprobs,
                              .prompt = output->echo || reports_prompt_logprobs
                                            ? to_run.prompt
                                            : std::vector<TokenId>(),
                              .echoed = echo,
                              .memory = request.origin ? answers_ : nullptr,
                              .origin = request.origin.value_or(AnswerOrigin{}),
                              .attested = attested_hash});
    const bool is_last = choice + 1 == request.n;
    // If one is rejected, destroying the handle cancels the earlier ones.
    TRY_ASSIGN(const RequestId id,
               engine_.submit(is_last ? std::move(to_run) : to_run, std::move(stream)));
    completion->add(id);
  }
  return completion;
}

Result<std::unique_ptr<Completion>> Service::embed(EmbeddingRequest request,
                                                   std::shared_ptr<EmbeddingSink> sink) {
  Request& to_run = request.engine;
  TRY(choose_adapter(request.model, to_run));
  TRY(prepare_embedding(request, tokenizer_, card_));
  auto stream = std::make_shared<PoolingStream>(
      PoolingStream::Options{.pooling = *request.pooling,
                             .n_dims = request.n_dims,
                             .norm = request.norm,
                             .score_weights = reranker_.score_weights},
      std::move(sink));
  auto running = std::make_unique<Running>(engine_, to_run.prompt.size());
  TRY_ASSIGN(const RequestId id, engine_.submit(std::move(to_run), std::move(stream)));
  running->add(id);
  return running;
}

Result<std::vector<PairPrompt>> Service::pair_prompts(
    std::string_view first, std::span<const std::string_view> seconds) const {
  if (reranker_.score_weights.empty()) return ServiceApi::pair_prompts(first, seconds);
  return make_pair_prompts(tokenizer_, reranker_.prompt, first, seconds);
}

}  // namespace kvik
