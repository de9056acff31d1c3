#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request/request.h"
#include "service/answer_parts.h"
#include "service/service_api.h"
#include "service/stop_matcher.h"
#include "text/detokenizer.h"

namespace kvik {

// What the choices of one completion share: where their news go, and how many still run.
// Engine thread only, but for `abandoned`.
struct CompletionState {
  std::shared_ptr<CompletionSink> sink;
  uint32_t n_running = 0;
  Usage usage;                          // of all choices together, the prompt counted once
  bool has_found = false;               // usage.cached_tokens is that of a choice
  std::atomic<bool> abandoned = false;  // nobody listens any more
};

// Turns one choice's tokens into text: detokenizes, watches for stop strings, and sends chunks of
// whole characters, where asked for in parts too. Engine thread only.
class ChoiceStream final : public EventSink {
 public:
  // The text of a prompt, and where each of its tokens begins.
  struct Echo {
    std::string text;
    std::vector<uint32_t> offsets;
  };
  static Echo echo_of(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt);

  struct Options {
    uint32_t choice = 0;
    std::shared_ptr<const OutputOptions> output;  // of all choices, never null
    std::optional<uint32_t> n_logprobs = {};      // Request::n_logprobs
    std::vector<TokenId> prompt = {};             // if it is echoed or has logprobs here
    std::shared_ptr<const Echo> echoed = {};  // the prompt's text, of all choices; null: made here
  };
  // The tokenizer outlives this.
  ChoiceStream(const Tokenizer& tokenizer, std::shared_ptr<CompletionState> state, Options options);

  Verdict on_token(const TokenEvent& event) override;
  void on_finish(FinishReason reason, const Usage& usage) override;
  void on_no_memory() override { state_->sink->on_no_memory(); }
  void on_prompt(const PromptProgress& progress) override;
  void on_logits(uint32_t position, std::span<const float> logits) override;
  void on_trace(const TokenTrace& trace) override;

 private:
  const OutputOptions& output() const { return *options_.output; }
  // The first choice tells the prompt's log probabilities.
  bool tells_prompt() const { return output().n_prompt_logprobs && options_.choice == 0; }
  void to_chunk(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top,
                uint32_t text_offset);
  void prompt_to_chunk(TokenId id, std::span<const float> logits);
  std::string text_of(TokenId id) const;
  std::string said(TokenId id);
  void echo_prompt();
  void send(std::string text, std::optional<FinishReason> finish);
  uint32_t n_reasoning_tokens() const;
  void keep_allowed_calls(std::vector<AnswerPart>& parts);
  bool has_called_enough() const {
    return output().max_calls && parts_ && parts_->n_calls() >= *output().max_calls;
  }

  const Tokenizer& tokenizer_;
  std::shared_ptr<CompletionState> state_;
  Options options_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<AnswerSplitter> parts_;
  std::vector<uint32_t> token_ends_;  // in the text, as long as reasoning may come
  uint32_t n_begun_calls_ = 0;
  CompletionChunk pending_;             // ids and logprobs that wait for their text
  std::string echo_;                    // text of the prompt, until it is sent
  std::vector<uint32_t> echo_offsets_;  // where each echoed token begins, for logprobs
  uint32_t text_bytes_ = 0;             // of what the tokens so far say, stop strings included
};

}  // namespace kvik
