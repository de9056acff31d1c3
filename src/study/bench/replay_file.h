#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "text/tokenizer.h"

namespace kvik {

// A prompt with a recorded answer.
struct ReplayTurn {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;
};

// Parses JSON lines of {"prompt": …, "answer": …}. Error: kCorrupt with the number of a line that
// is something else or has an empty text.
Result<std::vector<ReplayTurn>> parse_replay(std::string_view lines, const Tokenizer& tokenizer);

Result<std::vector<ReplayTurn>> read_replay(const std::string& path, const Tokenizer& tokenizer);

}  // namespace kvik
