#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request/request.h"
#include "service/answer_parts.h"
#include "service/history/answer_memory.h"
#include "service/service_api.h"
#include "service/stop_matcher.h"
#include "text/detokenizer.h"

namespace kvik {

// State shared by the choices of one completion: their sink and the number that are still running.
// Engine thread only, except for `abandoned`.
struct CompletionState {
  std::shared_ptr<CompletionSink> sink;
  uint32_t n_running = 0;
  Usage usage;                          // sum over all choices; the prompt is counted once
  bool has_cached_tokens = false;       // usage.cached_tokens has been set by a choice
  std::atomic<bool> abandoned = false;  // the completion's handle was destroyed
};

// Turns one choice's tokens into text: detokenizes them, detects stop strings, and sends chunks of
// whole characters, split into answer parts if requested. Engine thread only.
class ChoiceStream final : public EventSink {
 public:
  // The text of a prompt and the byte offset of each of its tokens.
  struct Echo {
    std::string text;
    std::vector<uint32_t> offsets;
  };
  static Echo echo_of(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt);

  struct Options {
    uint32_t choice = 0;
    std::shared_ptr<const OutputOptions> output;  // shared by all choices; never null
    std::optional<uint32_t> n_logprobs = {};      // Request::n_logprobs
    // set if this choice reports the prompt's text or log probabilities
    std::vector<TokenId> prompt = {};
    // prompt text shared by all choices; null: computed here
    std::shared_ptr<const Echo> echoed = {};
    // Remembers the answer; null: it is not remembered.
    std::shared_ptr<AnswerMemory> memory = {};
    AnswerOrigin origin = {};
    // Set if OutputOptions::attests is: hash_of() the AttestedRequest.
    std::optional<Hash128> attested = {};
  };
  // Borrows the tokenizer.
  ChoiceStream(const Tokenizer& tokenizer, std::shared_ptr<CompletionState> state, Options options);

  Verdict on_token(const TokenEvent& event) override;
  void on_finish(FinishReason reason, const Usage& usage) override;
  void on_no_memory() override { state_->sink->on_no_memory(); }
  void on_prompt(const PromptProgress& progress) override;
  void on_logits(uint32_t position, std::span<const float> logits) override;
  void on_trace(const TokenTrace& trace) override;

 private:
  const OutputOptions& output() const { return *options_.output; }
  // Only the first choice reports the prompt's log probabilities.
  bool reports_prompt_logprobs() const {
    return output().n_prompt_logprobs && options_.choice == 0;
  }
  void to_chunk(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top,
                uint32_t text_offset);
  void prompt_to_chunk(TokenId id, std::span<const float> logits);
  std::string text_of(TokenId id) const;
  std::string said(TokenId id);
  bool tells_token(const TokenEvent& event) const;
  void echo_prompt();
  void send(std::string text, std::optional<FinishReason> finish);
  uint32_t n_reasoning_tokens() const;
  void keep_allowed_calls(std::vector<AnswerPart>& parts);
  void remember(FinishReason reason);
  bool ends_after_call();

  const Tokenizer& tokenizer_;
  std::shared_ptr<CompletionState> state_;
  Options options_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<AnswerSplitter> parts_;
  // end of each token in the text, recorded while reasoning may follow
  std::vector<uint32_t> token_ends_;
  uint32_t n_begun_calls_ = 0;
  uint32_t n_after_calls_ = 0;      // tokens after the last call that is allowed
  bool is_ended_by_calls_ = false;  // the last allowed call ended the choice
  bool is_cut_in_calls_ = false;    // its text ends inside calls
  bool has_dropped_parts_ = false;  // text or calls came after the last allowed call
  // The answer so far, if it is to be remembered.
  std::vector<TokenId> ids_;
  std::vector<AnswerPart> all_parts_;
  std::optional<LogitsChain> chain_;
  CompletionChunk pending_;             // ids and logprobs whose text has not been sent
  std::string echo_;                    // prompt text that has not been sent
  std::vector<uint32_t> echo_offsets_;  // offset of each echoed token, for logprobs
  uint32_t text_bytes_ = 0;             // length of all text so far, stop strings included
};

}  // namespace kvik
