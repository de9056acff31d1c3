#include "service/tools/forbid_calls.h"

#include <algorithm>
#include <span>

namespace kvik {

void forbid_calls(const Tokenizer& tokenizer, AnswerSyntax& syntax) {
  const auto is_mark = [&tokenizer](TokenId id) {
    const TokenKind kind = tokenizer.kind(id);
    return kind == TokenKind::kControl || kind == TokenKind::kUserDefined;
  };
  for (const ToolFormat* format : syntax.calls) {
    for (const CallSteps::Begin& begin : format->reading.begins) {
      const TextRange all{0, begin.mark.size()};
      const auto ids = tokenizer.tokenize_chat(begin.mark, std::span(&all, 1));
      const auto first = std::ranges::find_if(ids, is_mark);
      if (first != ids.end()) syntax.forbidden_tokens.push_back(*first);
    }
  }
  syntax.calls.clear();
  syntax.call_syntax = nullptr;
  syntax.tools.reset();
  syntax.reads_bare_calls = false;
}

}  // namespace kvik
