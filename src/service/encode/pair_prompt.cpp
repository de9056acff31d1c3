#include "service/encode/pair_prompt.h"

#include <algorithm>
#include <string>
#include <vector>

namespace kvik {
namespace {

constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

// A text whose `trusted` ranges are those of the prompt.
struct Filled {
  std::string text;
  std::vector<TextRange> trusted;

  void add_prompt(std::string_view part) {
    if (!part.empty()) trusted.push_back({text.size(), text.size() + part.size()});
    text += part;
  }
  std::vector<TokenId> tokens(const Tokenizer& tokenizer) const {
    return tokenizer.tokenize_chat(text, trusted);
  }
};

}  // namespace

PairPrompt make_pair_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                            std::string_view query, std::string_view document) {
  Filled all, before, after;  // the whole, and what precedes and follows the last document
  std::string_view rest = prompt;
  while (true) {
    const size_t at = std::min(rest.find(kQuery), rest.find(kDocument));
    for (Filled* part : {&all, &after}) part->add_prompt(rest.substr(0, at));
    if (at == std::string_view::npos) break;
    const bool is_query = rest.substr(at).starts_with(kQuery);
    rest.remove_prefix(at + (is_query ? kQuery : kDocument).size());
    if (is_query) {
      for (Filled* part : {&all, &after}) part->text += query;
    } else {
      before = all;
      all.text += document;
      after = {};
    }
  }
  PairPrompt pair;
  pair.ids = all.tokens(tokenizer);
  const size_t n_before = before.tokens(tokenizer).size(), n_after = after.tokens(tokenizer).size();
  pair.second_segment = static_cast<uint32_t>(std::min(n_before, pair.ids.size()));
  pair.n_end_tokens =
      static_cast<uint32_t>(std::min(n_after, pair.ids.size() - pair.second_segment));
  return pair;
}

}  // namespace kvik
