#include "service/encode/pair_prompt.h"

#include <algorithm>
#include <string>
#include <vector>

namespace kvik {
namespace {

constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

// A text with the ranges that come from the prompt.
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

// Returns the prompt, or a part of it, with the texts.
Filled fill(std::string_view prompt, std::string_view query, std::string_view document) {
  Filled filled;
  while (true) {
    const size_t at = std::min(prompt.find(kQuery), prompt.find(kDocument));
    filled.add_prompt(prompt.substr(0, at));
    if (at == std::string_view::npos) return filled;
    prompt.remove_prefix(at);
    const bool is_query = prompt.starts_with(kQuery);
    filled.text += is_query ? query : document;
    prompt.remove_prefix((is_query ? kQuery : kDocument).size());
  }
}

}  // namespace

std::vector<PairPrompt> make_pair_prompts(const Tokenizer& tokenizer, std::string_view prompt,
                                          std::string_view query,
                                          std::span<const std::string_view> documents) {
  // The parts of the prompt before and after the last document.
  const size_t last = std::min(prompt.rfind(kDocument), prompt.size());
  const std::string_view before = prompt.substr(0, last);
  const std::string_view after = prompt.substr(std::min(last + kDocument.size(), prompt.size()));
  const auto n_tokens = [&](std::string_view part, std::string_view document) {
    return fill(part, query, document).tokens(tokenizer).size();
  };
  const bool is_same = !before.contains(kDocument);  // for all documents
  size_t n_before = is_same ? n_tokens(before, "") : 0;
  const size_t n_after = n_tokens(after, "");
  std::vector<PairPrompt> pairs;
  for (const std::string_view document : documents) {
    if (!is_same) n_before = n_tokens(before, document);
    PairPrompt& pair = pairs.emplace_back();
    pair.ids = fill(prompt, query, document).tokens(tokenizer);
    pair.second_segment = static_cast<uint32_t>(std::min(n_before, pair.ids.size()));
    pair.n_end_tokens =
        static_cast<uint32_t>(std::min(n_after, pair.ids.size() - pair.second_segment));
  }
  return pairs;
}

}  // namespace kvik
