#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "service/service_api.h"

namespace kvik {

// What a call asks for all in all. Prompts, choices and log probabilities multiply: a small body
// could ask for an answer that no memory holds.
struct AnswerSize {
  uint64_t n_sequences = 0;      // prompts times choices
  uint64_t n_prompt_copies = 0;  // tokens of prompts, times choices
  uint64_t n_echoed = 0;         // of them, where they are echoed
  uint64_t n_entries = 0;        // log probabilities, of prompts and of what is said anew

  AnswerSize& operator+=(const AnswerSize& more);
};

// The fields of a request that the size of its answer depends on.
struct AnswerShape {
  AnswerShape(const CompletionRequest& request)
      : n(request.n),
        echo(request.output.echo),
        n_logprobs(request.engine.n_logprobs),
        n_prompt_logprobs(request.output.n_prompt_logprobs) {}

  uint32_t n;
  bool echo;
  std::optional<uint32_t> n_logprobs;
  std::optional<uint32_t> n_prompt_logprobs;
};

// Returns the size of the answer to one prompt, if each choice may have so many new tokens.
AnswerSize answer_size(const AnswerShape& shape, uint64_t prompt_tokens, uint64_t new_tokens);

// Errors: kInvalidArgument, with the field that is too many in `param`.
Result<void> check_answer_size(const AnswerSize& size, const AnswerShape& shape);

// New tokens of each choice for which there are entries, where a call of so many prompts does not
// say how many it wants.
uint64_t tokens_with_logprobs(const CompletionRequest& request, uint64_t n_prompts);

}  // namespace kvik
