#include "server/dialects/ollama/fill_in_middle.h"

#include <span>

namespace kvik {
namespace {

// The tokens before the prefix, before the suffix and before the answer.
struct MiddleTokens {
  std::string_view prefix, suffix, middle;
};

constexpr MiddleTokens kMiddleTokens[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen Coder, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},        // Refact
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},  // DeepSeek Coder
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                          // Code Llama
};

// Returns the id of a special token; std::nullopt if the vocabulary does not have it.
std::optional<TokenId> special_id(const ServiceApi& service, std::string_view text) {
  const auto ids = service.tokenize(text, {.add_bos = false, .parse_special = true});
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

}  // namespace

std::optional<TokenId> begin_token(const ServiceApi& service) {
  const auto ids = service.tokenize("", {.add_bos = true, .parse_special = false});
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

std::optional<std::vector<TokenId>> fill_in_middle_prompt(const ServiceApi& service,
                                                          std::string_view prefix,
                                                          std::string_view suffix) {
  for (const MiddleTokens& tokens : kMiddleTokens) {
    const auto before_prefix = special_id(service, tokens.prefix);
    const auto before_suffix = special_id(service, tokens.suffix);
    const auto before_middle = special_id(service, tokens.middle);
    if (!before_prefix || !before_suffix || !before_middle) continue;
    std::vector<TokenId> ids;
    if (const auto begin = begin_token(service)) ids.push_back(*begin);
    const auto add = [&](TokenId mark, std::string_view text) {
      ids.push_back(mark);
      const auto more = service.tokenize(text, {.add_bos = false, .parse_special = false});
      ids.insert(ids.end(), more.begin(), more.end());
    };
    add(*before_prefix, prefix);
    add(*before_suffix, suffix);
    ids.push_back(*before_middle);
    return ids;
  }
  return std::nullopt;
}

}  // namespace kvik
