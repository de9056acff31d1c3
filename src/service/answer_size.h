#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "service/service_api.h"

namespace kvik {

// The total size of the answer that a call requests. Prompts, choices and log probabilities
// multiply, so a small body could request an answer too large for any memory.
struct AnswerSize {
  uint64_t n_sequences = 0;      // number of prompts times choices
  uint64_t n_prompt_copies = 0;  // prompt tokens times choices
  uint64_t n_echoed = 0;         // echoed prompt tokens times choices
  uint64_t n_entries = 0;        // log probability entries of prompt tokens and new tokens

  AnswerSize& operator+=(const AnswerSize& more);
};

// The fields of a request that determine the size of its answer.
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

// Returns the size of the answer to one prompt if each choice has up to new_tokens new tokens.
AnswerSize answer_size(const AnswerShape& shape, uint64_t prompt_tokens, uint64_t new_tokens);

// Checks the size against RequestBounds. Errors: kInvalidArgument, with the field that exceeds its
// bound in `param`.
Result<void> check_answer_size(const AnswerSize& size, const AnswerShape& shape);

// Returns the number of new tokens per choice whose log probability entries fit the bound, for a
// call with n_prompts prompts; UINT64_MAX if the request has no `logprobs`. It is the default of
// max_tokens for answers that are not streamed.
uint64_t tokens_with_logprobs(const CompletionRequest& request, uint64_t n_prompts);

}  // namespace kvik
