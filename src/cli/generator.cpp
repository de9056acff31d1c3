#include "cli/generator.h"

#include <utility>

namespace kvik {

Result<Generator::Running> LocalGenerator::answer(const ChatRequest& chat,
                                                  CompletionRequest request,
                                                  std::shared_ptr<CompletionSink> sink) {
  TRY_ASSIGN(ChatPrompt prompt, service_.chat_prompt(chat));
  request.prompt = prompt.ids;
  request.output.answer_begin = prompt.answer_begin;
  request.output.answer_syntax = prompt.answer_syntax;
  request.output.reasoning_budget = prompt.reasoning_budget;
  if (prompt.last_message_end) request.engine.message_ends = {*prompt.last_message_end};
  TRY_ASSIGN(auto completion, service_.complete(std::move(request), std::move(sink)));
  return Running{.completion = std::move(completion),
                 .prompt = {.text = std::move(prompt.text), .ids = std::move(prompt.ids)}};
}

Result<size_t> LocalGenerator::count_tokens(const ChatRequest& chat) const {
  TRY_ASSIGN(const ChatPrompt prompt, service_.chat_prompt(chat));
  return prompt.ids.size();
}

}  // namespace kvik
