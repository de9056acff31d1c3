#include "service/sampling/sampling_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "service/request_bounds.h"

namespace kvik {
namespace {

constexpr size_t kMaxTailTokens = 20;  // as in llama.cpp

std::vector<TokenId> plain_tokens(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.tokenize(text, {.add_bos = false});
}

// Adds the tail, which follows `head`, unless it is there.
void add_tail(std::vector<std::vector<TokenId>>& tails, std::vector<TokenId> tail) {
  if (std::ranges::find(tails, tail) == tails.end()) tails.push_back(std::move(tail));
}

}  // namespace

Result<void> add_tokens(const Tokenizer& tokenizer, const SamplingTexts& texts,
                        SamplingParams& params) {
  for (const std::string& text : texts.banned) {
    const std::string bare = text.substr(std::min(text.find_first_not_of(' '), text.size()));
    for (const std::string& form : {text, bare, " " + bare}) {
      auto tokens = plain_tokens(tokenizer, form);
      if (tokens.empty() || std::ranges::find(params.banned, tokens) != params.banned.end())
        continue;
      params.banned.push_back(std::move(tokens));
    }
  }
  for (const auto& [text, bias] : texts.biases) {
    for (const TokenId id : plain_tokens(tokenizer, text)) {
      params.logit_bias.emplace_back(id, bias);
    }
    if (params.logit_bias.size() <= RequestBounds::kBiases) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("logit_bias has more than {} tokens", RequestBounds::kBiases),
                "logit_bias");
  }
  return {};
}

DryBreakers find_dry_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  DryBreakers breakers;
  for (TokenId id = 0; id < tokenizer.n_vocab(); ++id) {
    const std::string piece = tokenizer.piece(id, Tokenizer::Special::kShow);
    for (const std::string& text : texts) {
      if (piece.find(text) != std::string::npos) {
        add_tail(breakers[id], {});
        continue;
      }
      const size_t longest = std::min(piece.size(), text.size() - 1);
      for (size_t n = longest; n > 0; --n) {  // the piece ends with the first n bytes
        if (!piece.ends_with(std::string_view(text).substr(0, n))) continue;
        auto tail = plain_tokens(tokenizer, std::string_view(text).substr(n));
        tail.resize(std::min(tail.size(), kMaxTailTokens));
        add_tail(breakers[id], std::move(tail));
      }
    }
  }
  return breakers;
}

std::shared_ptr<const DryBreakers> DryBreakerCache::find(
    const std::optional<std::vector<std::string>>& texts) {
  static const std::vector<std::string> kDefault = {"\n", ":", "\"", "*"};
  const std::vector<std::string>& wanted = texts ? *texts : kDefault;
  {
    const MutexLock lock(mutex_);
    const auto known = std::ranges::find(last_used_, wanted, &Entry::first);
    if (known != last_used_.end()) {
      last_used_.splice(last_used_.begin(), last_used_, known);
      return known->second;
    }
  }
  auto found = std::make_shared<const DryBreakers>(find_dry_breakers(tokenizer_, wanted));
  const MutexLock lock(mutex_);
  last_used_.emplace_front(wanted, found);
  if (last_used_.size() > kLists) last_used_.pop_back();
  return found;
}

}  // namespace kvik
