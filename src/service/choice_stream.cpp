#include "service/choice_stream.h"

#include <algorithm>
#include <utility>

#include "base/json/json.h"
#include "engine/sample/log_softmax.h"

namespace kvik {

ChoiceStream::ChoiceStream(const Tokenizer& tokenizer, std::shared_ptr<CompletionState> state,
                           Options options)
    : tokenizer_(tokenizer),
      state_(std::move(state)),
      options_(std::move(options)),
      detokenizer_(tokenizer, Detokenizer::Position::kContinuation, Tokenizer::Special::kHide),
      stops_(StopMatcher::sharing({options_.output, &output().stop})) {
  pending_.choice = options_.choice;
  if (output().answer_begin) {
    parts_.emplace(*output().answer_begin, output().answer_syntax);
  }
  if (options_.attested) chain_.emplace(*options_.attested, options_.choice);
  if (reports_prompt_logprobs()) pending_.prompt_logprobs.emplace_back();
  if (output().echo && !options_.prompt.empty()) echo_prompt();
}

ChoiceStream::Echo ChoiceStream::echo_of(const Tokenizer& tokenizer,
                                         const std::vector<TokenId>& prompt) {
  Detokenizer words(tokenizer, Detokenizer::Position::kStart, Tokenizer::Special::kHide);
  Echo echo;
  for (const TokenId id : prompt) {
    echo.offsets.push_back(static_cast<uint32_t>(echo.text.size()));
    echo.text += words.push(id);
  }
  echo.text += words.finish();
  return echo;
}

void ChoiceStream::echo_prompt() {
  const Echo echo = options_.echoed ? *options_.echoed : echo_of(tokenizer_, options_.prompt);
  echo_ = echo.text;
  if (options_.n_logprobs) echo_offsets_ = echo.offsets;
  text_bytes_ = static_cast<uint32_t>(echo_.size());
  if (output().return_token_ids) pending_.token_ids = options_.prompt;
  if (!options_.n_logprobs) return;
  to_chunk({options_.prompt.front(), 0}, {}, 0);
  pending_.logprobs.back().logprob.reset();
}

// The logits after prompt token `position` give the probability of the next prompt token.
void ChoiceStream::on_logits(uint32_t position, std::span<const float> logits) {
  if (position + 1 >= options_.prompt.size()) return;
  const TokenId id = options_.prompt[position + 1];
  if (reports_prompt_logprobs()) prompt_to_chunk(id, logits);
  if (!output().echo || !options_.n_logprobs) return;
  const LogSoftmax logprobs(logits);
  to_chunk({id, logprobs.of(id)}, logprobs.top(*options_.n_logprobs), echo_offsets_[position + 1]);
}

void ChoiceStream::prompt_to_chunk(TokenId id, std::span<const float> logits) {
  const LogSoftmax logprobs(logits);
  const auto top = logprobs.top(*output().n_prompt_logprobs);
  std::vector<PromptLogprob> all;
  all.reserve(1 + top.size());
  all.push_back({id, logprobs.of(id), rank_of(logits, id), text_of(id)});
  for (uint32_t i = 0; i < top.size(); ++i) {
    if (top[i].id != id) all.push_back({top[i].id, top[i].logprob, i + 1, text_of(top[i].id)});
  }
  pending_.prompt_logprobs.push_back(std::move(all));
}

// Returns the text of a single token. A token may contain a part of a character, which becomes
// U+FFFD.
std::string ChoiceStream::text_of(TokenId id) const {
  Detokenizer alone(tokenizer_, Detokenizer::Position::kContinuation, Tokenizer::Special::kShow);
  const std::string whole = alone.push(id);
  return whole + alone.finish();
}

void ChoiceStream::to_chunk(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top,
                            uint32_t text_offset) {
  ChunkLogprob out{.token = text_of(chosen.id),
                   .bytes = tokenizer_.piece(chosen.id, Tokenizer::Special::kHide),
                   .logprob = chosen.logprob,
                   .text_offset = text_offset,
                   .top = {}};
  for (const TokenLogprob& t : top) out.top.emplace_back(text_of(t.id), t.logprob);
  pending_.logprobs.push_back(std::move(out));
}

void ChoiceStream::on_prompt(const PromptProgress& progress) {
  if (options_.choice == 0 && !state_->abandoned) state_->sink->on_prompt(progress);
}

void ChoiceStream::on_trace(const TokenTrace& trace) {
  if (chain_) pending_.links.push_back(chain_->add(trace.id, trace.logits));
  if (options_.choice == 0 && !state_->abandoned) state_->sink->on_trace(trace);
}

// Returns the text that a token adds. Special tokens are visible only if they are marks of the
// answer's syntax.
std::string ChoiceStream::said(TokenId id) {
  if (!std::ranges::binary_search(output().answer_syntax.shown_tokens, id)) {
    return detokenizer_.push(id);
  }
  return detokenizer_.finish() + tokenizer_.piece(id, Tokenizer::Special::kShow);
}

EventSink::Verdict ChoiceStream::on_token(const TokenEvent& event) {
  ++state_->usage.completion_tokens;
  if (output().return_token_ids) pending_.token_ids.push_back(event.id);
  if (options_.memory) ids_.push_back(event.id);
  if (event.chosen) to_chunk(*event.chosen, event.top, text_bytes_);
  const std::string whole = said(event.id);
  text_bytes_ += static_cast<uint32_t>(whole.size());
  if (parts_ && parts_->may_reason()) token_ends_.push_back(text_bytes_);
  std::string text = stops_.push(whole);
  if (!text.empty() || tells_token(event)) send(std::move(text), std::nullopt);
  return stops_.matched() || ends_after_call() ? Verdict::kStop : Verdict::kContinue;
}

// Returns whether a token without text has a chunk of its own: if the client asked for ids or
// log probabilities and no earlier text is held back, which would come after it.
bool ChoiceStream::tells_token(const TokenEvent& event) const {
  const bool is_asked_for = output().return_token_ids || event.chosen;
  const bool is_holding = detokenizer_.is_holding() || !stops_.held().empty();
  return is_asked_for && !is_holding && !stops_.matched();
}

// Returns whether the choice ends after the last call that is allowed: once its closing marks are
// there, so that the tokens continue a conversation, or something else comes.
bool ChoiceStream::ends_after_call() {
  constexpr uint32_t kMaxClosing = 16;
  if (!output().max_calls || !parts_ || parts_->n_calls() < *output().max_calls) return false;
  is_ended_by_calls_ = !parts_->is_closing_call() || ++n_after_calls_ > kMaxClosing;
  is_cut_in_calls_ = parts_->is_in_calls();
  return is_ended_by_calls_;
}

// Tokens of a stop string count as well.
uint32_t ChoiceStream::n_reasoning_tokens() const {
  if (!parts_) return 0;
  AnswerSplitter all = *parts_;
  all.push(stops_.held());
  return count_reasoning_tokens(all.reasoning(), token_ends_);
}

void ChoiceStream::on_finish(FinishReason reason, const Usage& usage) {
  state_->usage.reasoning_tokens += n_reasoning_tokens();
  std::string text;
  if (!stops_.matched()) {
    text = stops_.push(detokenizer_.finish());
    if (!stops_.matched()) text += stops_.finish();
  }
  pending_.stop_string = stops_.matched();
  pending_.ended_itself = reason == FinishReason::kStop && !stops_.matched() && !is_ended_by_calls_;
  if (chain_) pending_.end_link = chain_->end(pending_.ended_itself);
  // The last call is complete, although its closing marks are missing.
  const bool is_complete = stops_.matched() || (reason == FinishReason::kLength && n_after_calls_);
  send(std::move(text), is_complete ? FinishReason::kStop : reason);
  if (options_.memory && !state_->abandoned) remember(reason);

  Usage& all = state_->usage;
  all.prompt_tokens = usage.prompt_tokens;
  all.drafted_tokens += usage.drafted_tokens;
  all.accepted_tokens += usage.accepted_tokens;
  // The first choice reports the tokens that were cached before the request. Later choices may also
  // hit pages that it computed, so the minimum is used.
  const bool is_whole = reason != FinishReason::kCancelled && reason != FinishReason::kFailed;
  const bool is_first = !std::exchange(state_->has_cached_tokens, true);
  if (is_first || (is_whole && usage.cached_tokens < all.cached_tokens)) {
    all.cached_tokens = usage.cached_tokens;
    all.cache = usage.cache;
  }
  if (options_.choice == 0) {
    all.queue_time = usage.queue_time;
    all.ttft = usage.ttft;
    all.decode_time = usage.decode_time;
  }
  if (--state_->n_running > 0) return;
  if (state_->abandoned)
    state_->sink->on_abandoned(all);
  else
    state_->sink->on_done(all);
}

// Drops calls beyond max_calls, and text after the last one that is allowed. Calls without markup
// are recognized only at the end of an answer, so there may be more than were allowed.
void ChoiceStream::keep_allowed_calls(std::vector<AnswerPart>& parts) {
  if (!output().max_calls) return;
  using Kind = AnswerPart::Kind;
  const auto n_dropped = std::erase_if(parts, [this](const AnswerPart& part) {
    if (part.kind == Kind::kReasoning) return false;
    if (part.kind == Kind::kCall) ++n_begun_calls_;
    const bool is_text = part.kind == Kind::kText;
    const bool is_extra = n_begun_calls_ >= *output().max_calls + (is_text ? 0 : 1);
    if (part.kind == Kind::kBroken) --n_begun_calls_;
    return is_extra;
  });
  has_dropped_parts_ = has_dropped_parts_ || n_dropped > 0;
}

// Remembers an answer of which the client received everything. One that was cut may end in a part
// of a call. Calls without markup are not remembered: templates write them with it, and a model
// that finds its own form in the prompt repeats it.
void ChoiceStream::remember(FinishReason reason) {
  const bool has_calls = std::ranges::count(all_parts_, AnswerPart::Kind::kCall, &AnswerPart::kind);
  const bool may_call = has_calls || output().answer_syntax.tools;
  const bool is_whole = reason == FinishReason::kStop ||
                        (reason == FinishReason::kLength && !may_call) ||
                        (reason == FinishReason::kExhausted && !may_call);
  const bool is_cut = stops_.matched() || is_cut_in_calls_ || has_dropped_parts_;
  if (!is_whole || is_cut || (parts_ && parts_->has_bare_calls())) return;
  Message message = text_message("assistant", kvik::text_of(all_parts_, AnswerPart::Kind::kText));
  for (const AnswerPart& part : all_parts_) {
    if (part.kind != AnswerPart::Kind::kCall) continue;
    auto arguments = parse_json(part.text);
    message.parts.push_back(
        ToolCall{.id = {},
                 .name = part.name,
                 .arguments = arguments ? std::move(*arguments) : Json{part.text}});
  }
  // One without text and calls may end in its reasoning.
  if (kvik::text_of(message).empty() && !has_calls) return;
  const auto is_end = [this](TokenId id) {
    return std::ranges::count(tokenizer_.end_tokens(), id) > 0 ||
           std::ranges::count(output().answer_syntax.end_tokens, id) > 0;
  };
  while (!ids_.empty() && is_end(ids_.back())) ids_.pop_back();
  options_.memory->remember(options_.origin.client,
                            with_message(options_.origin.conversation, message),
                            {.ids = std::move(ids_),
                             .opening = options_.origin.opening,
                             .reasoning = kvik::text_of(all_parts_, AnswerPart::Kind::kReasoning)});
}

void ChoiceStream::send(std::string text, std::optional<FinishReason> finish) {
  pending_.text = std::exchange(echo_, {}) + text;
  if (parts_) {
    pending_.parts = finish ? parts_->push_last(pending_.text) : parts_->push(pending_.text);
    keep_allowed_calls(pending_.parts);
    if (options_.memory) {
      for (const AnswerPart& part : pending_.parts) append(all_parts_, part);
    }
  }
  pending_.finish = finish;
  CompletionChunk chunk = std::exchange(pending_, {});
  if (!state_->abandoned) state_->sink->on_chunk(std::move(chunk));
  pending_.choice = options_.choice;
}

}  // namespace kvik
