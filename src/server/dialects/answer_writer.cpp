#include "server/dialects/answer_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvik {

void CompletionChoice::append(CompletionChunk chunk) {
  text += chunk.text;
  for (AnswerPart& part : chunk.parts) kvik::append(parts, std::move(part));
  token_ids.insert(token_ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  links.insert(links.end(), chunk.links.begin(), chunk.links.end());
  std::ranges::move(chunk.logprobs, std::back_inserter(logprobs));
  std::ranges::move(chunk.prompt_logprobs, std::back_inserter(prompt_logprobs));
  if (!chunk.finish) return;
  finish = chunk.finish;
  stop_string = std::move(chunk.stop_string);
  ended_itself = chunk.ended_itself;
  end_link = chunk.end_link;
}

Usage sum_of(std::span<const Usage> usages) {
  Usage sum;
  for (const Usage& usage : usages) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.completion_tokens += usage.completion_tokens;
    sum.reasoning_tokens += usage.reasoning_tokens;
    sum.cached_tokens += usage.cached_tokens;
    sum.restored_tokens += usage.restored_tokens;
    sum.drafted_tokens += usage.drafted_tokens;
    sum.accepted_tokens += usage.accepted_tokens;
  }
  return sum;
}

}  // namespace kvik
