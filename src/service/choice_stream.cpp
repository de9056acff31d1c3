#include "service/choice_stream.h"

#include "engine/sampler.h"

namespace kvik {

ChoiceStream::ChoiceStream(const Tokenizer& tokenizer, std::shared_ptr<CompletionState> state,
                           Options options)
    : tokenizer_(tokenizer),
      state_(std::move(state)),
      options_(std::move(options)),
      detokenizer_(tokenizer, Detokenizer::Position::kContinuation, Tokenizer::Special::kHide),
      stops_(options_.stop) {
  pending_.choice = options_.choice;
  echo_prompt();
}

void ChoiceStream::echo_prompt() {
  if (options_.echoed.empty()) return;
  Detokenizer prompt(tokenizer_, Detokenizer::Position::kStart, Tokenizer::Special::kHide);
  for (const TokenId id : options_.echoed) {
    if (options_.with_logprobs) echo_offsets_.push_back(static_cast<uint32_t>(echo_.size()));
    echo_ += prompt.push(id);
  }
  echo_ += prompt.finish();
  text_bytes_ = static_cast<uint32_t>(echo_.size());
  if (options_.return_token_ids) pending_.token_ids = options_.echoed;
  // The first token has nothing before it that could make it likely.
  if (options_.with_logprobs) to_chunk({options_.echoed.front(), 0}, {}, 0);
}

// Logits behind prompt token `position` say how likely the next prompt token was.
void ChoiceStream::on_logits(uint32_t position, std::span<const float> logits) {
  if (position + 1 >= options_.echoed.size()) return;
  const TokenId id = options_.echoed[position + 1];
  to_chunk(logprob_of(logits, id), top_logprobs(logits, options_.n_top_logprobs),
           echo_offsets_[position + 1]);
}

void ChoiceStream::to_chunk(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top,
                            uint32_t text_offset) {
  // A token may hold a part of a character: as text that is U+FFFD.
  const auto text_of = [&](TokenId id) {
    Detokenizer alone(tokenizer_, Detokenizer::Position::kContinuation, Tokenizer::Special::kShow);
    const std::string whole = alone.push(id);
    return whole + alone.finish();
  };
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
  if (options_.choice == 0 && !state_->abandoned) state_->sink->on_trace(trace);
}

EventSink::Verdict ChoiceStream::on_token(const TokenEvent& event) {
  ++state_->usage.completion_tokens;
  if (options_.return_token_ids) pending_.token_ids.push_back(event.id);
  if (event.chosen) to_chunk(*event.chosen, event.top, text_bytes_);
  const std::string whole = detokenizer_.push(event.id);
  text_bytes_ += static_cast<uint32_t>(whole.size());
  std::string text = stops_.push(whole);
  if (!text.empty()) send(std::move(text), std::nullopt);
  return stops_.matched() ? Verdict::kStop : Verdict::kContinue;
}

void ChoiceStream::on_finish(FinishReason reason, const Usage& usage) {
  std::string text;
  if (!stops_.matched()) {
    text = stops_.push(detokenizer_.finish());
    if (!stops_.matched()) text += stops_.finish();
  }
  pending_.stop_string = stops_.matched();
  send(std::move(text), stops_.matched() ? FinishReason::kStop : reason);

  Usage& all = state_->usage;
  all.prompt_tokens = usage.prompt_tokens;
  if (options_.choice == 0) {
    all.cached_tokens = usage.cached_tokens;
    all.cache = usage.cache;
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

void ChoiceStream::send(std::string text, std::optional<FinishReason> finish) {
  pending_.text = std::exchange(echo_, {}) + text;
  pending_.finish = finish;
  if (!state_->abandoned) state_->sink->on_chunk(pending_);
  pending_ = CompletionChunk{};
  pending_.choice = options_.choice;
}

}  // namespace kvik
