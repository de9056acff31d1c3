#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace kvik {

inline constexpr TokenId kEnd = 300, kWord = 400;

// Each byte is a token, "ab" is one token as well, and the template's "<e>" is a control token,
// which ends answers.
class ToyTokenizer final : public Tokenizer {
 public:
  explicit ToyTokenizer(std::string chat_template) : template_(std::move(chat_template)) {}

  std::vector<TokenId> tokenize(std::string_view text, const TokenizeOptions&) const override {
    return tokenize_chat(text, {});
  }
  std::vector<TokenId> tokenize_chat(std::string_view text,
                                     std::span<const TextRange> trusted) const override {
    std::vector<TokenId> ids;
    for (size_t at = 0; at < text.size();) {
      const bool is_trusted = std::ranges::any_of(
          trusted, [at](const TextRange& r) { return r.begin <= at && at + 3 <= r.end; });
      const std::string_view rest = text.substr(at);
      const bool is_end = is_trusted && rest.starts_with("<e>");
      const bool is_word = rest.starts_with("ab");
      ids.push_back(is_end ? kEnd : is_word ? kWord : static_cast<unsigned char>(rest[0]));
      at += is_end ? 3 : is_word ? 2 : 1;
    }
    return ids;
  }
  std::string piece(TokenId id, Special special) const override {
    if (id == kEnd) return special == Special::kShow ? "<e>" : "";
    return id == kWord ? "ab" : std::string(1, static_cast<char>(id));
  }
  bool strips_leading_space() const override { return false; }
  uint32_t n_vocab() const override { return 500; }
  TokenKind kind(TokenId id) const override {
    return id == kEnd ? TokenKind::kControl : TokenKind::kNormal;
  }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool adds_bos() const override { return false; }
  std::span<const TokenId> end_tokens() const override { return std::span(&kEnd, 1); }
  std::string_view chat_template() const override { return template_; }
  std::string describe() const override { return "toy"; }

 private:
  const std::string template_;
};

}  // namespace kvik
