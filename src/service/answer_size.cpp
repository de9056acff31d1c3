#include "service/answer_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "service/request_bounds.h"

namespace kvik {
namespace {

using Bounds = RequestBounds;

uint64_t entries_of(const std::optional<uint32_t>& n_top) {
  return n_top ? uint64_t{*n_top} + 1 : 0;
}

Result<void> check_bound(std::string_view param, std::string_view what, uint64_t n, uint64_t most) {
  if (n <= most) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the request asks for {} {}, expected at most {}", n, what, most),
              std::string(param));
}

}  // namespace

AnswerSize& AnswerSize::operator+=(const AnswerSize& more) {
  n_sequences += more.n_sequences;
  n_prompt_copies += more.n_prompt_copies;
  n_echoed += more.n_echoed;
  n_entries += more.n_entries;
  return *this;
}

AnswerSize answer_size(const AnswerShape& shape, uint64_t prompt_tokens, uint64_t new_tokens) {
  const uint64_t n = shape.n;
  const uint64_t n_echoed = shape.echo ? prompt_tokens : 0;
  // The prompt's entries are repeated for every choice.
  const uint64_t n_each = (n_echoed + new_tokens) * entries_of(shape.n_logprobs) +
                          prompt_tokens * entries_of(shape.n_prompt_logprobs);
  return {.n_sequences = n,
          .n_prompt_copies = prompt_tokens * n,
          .n_echoed = n_echoed * n,
          .n_entries = n_each * n};
}

Result<void> check_answer_size(const AnswerSize& size, const AnswerShape& shape) {
  TRY(check_bound("n", "sequences (prompts times n)", size.n_sequences, Bounds::kSequences));
  TRY(check_bound("n", "prompt tokens (of all prompts, times n)", size.n_prompt_copies,
                  Bounds::kPromptCopies));
  TRY(check_bound("echo", "echoed tokens (of all prompts, times n)", size.n_echoed,
                  Bounds::kEchoedTokens));
  return check_bound(shape.n_prompt_logprobs ? "prompt_logprobs" : "logprobs",
                     "log probabilities (of all tokens, times n)", size.n_entries,
                     Bounds::kLogprobEntries);
}

uint64_t tokens_with_logprobs(const CompletionRequest& request, uint64_t n_prompts) {
  const uint64_t n_each =
      entries_of(request.engine.n_logprobs) * std::max(1u, request.n) * n_prompts;
  return n_each == 0 ? UINT64_MAX : std::max<uint64_t>(1, Bounds::kLogprobEntries / n_each);
}

}  // namespace kvik
