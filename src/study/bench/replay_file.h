#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "text/tokenizer.h"

namespace kvik {

// An answer that somebody gave to a prompt.
struct ReplayTurn {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;
};

// Reads lines of {"prompt": …, "answer": …}, each a text. kCorrupt with the number of a line that
// is something else, or of which a text is empty.
Result<std::vector<ReplayTurn>> parse_replay(std::string_view lines, const Tokenizer& tokenizer);

Result<std::vector<ReplayTurn>> read_replay(const std::string& path, const Tokenizer& tokenizer);

}  // namespace kvik
