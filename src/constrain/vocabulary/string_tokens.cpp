#include "constrain/vocabulary/string_tokens.h"

#include <algorithm>
#include <map>

#include "constrain/string_cursor.h"

namespace kvik::constrain {
namespace {

struct Reading {
  enum class Kind { kNotInString, kInside, kEnds } kind;
  uint32_t n_characters = 0;
  size_t n_read = 0;  // number of bytes including the quote
};

Reading read(std::string_view token) {
  using Kind = CharacterCursor::Kind;
  Reading reading{Reading::Kind::kInside};
  uint32_t partial = 0;
  for (const char c : token) {
    const auto step = CharacterCursor::step_string(partial, static_cast<uint8_t>(c));
    ++reading.n_read;
    partial = step.partial;
    if (step.kind == Kind::kInvalid) return {Reading::Kind::kNotInString};
    if (step.kind == Kind::kCharacter) ++reading.n_characters;
    if (step.kind != Kind::kQuote) continue;
    reading.kind = Reading::Kind::kEnds;
    return reading;
  }
  if (partial != 0) ++reading.n_characters;
  return reading;
}

}  // namespace

StringTokens::StringTokens(const std::vector<std::string>& tokens) {
  inside_.assign(kMaxMasks + 1, TokenBitmask(static_cast<uint32_t>(tokens.size())));
  std::map<std::string, std::vector<Ending>, std::less<>> by_tail;
  by_tail[""];
  for (TokenId id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) continue;
    const auto [kind, n_characters, n_read] = read(tokens[id]);
    if (kind == Reading::Kind::kInside) {
      inside_[std::min(n_characters, kMaxMasks)].allow(id);
      if (n_characters >= kMaxMasks) long_.push_back({id, n_characters});
    } else if (kind == Reading::Kind::kEnds) {
      by_tail[tokens[id].substr(n_read)].push_back({id, n_characters});
    }
  }
  for (size_t n = 1; n < inside_.size(); ++n) inside_[n].allow_too(inside_[n - 1]);
  std::ranges::sort(long_, {}, &Inside::n_characters);
  std::vector<std::string> texts;
  std::vector<TokenId> ids;
  for (auto& [text, endings] : by_tail) {
    first_.push_back(static_cast<uint32_t>(endings_.size()));
    endings_.insert(endings_.end(), endings.begin(), endings.end());
    if (!text.empty()) ids.push_back(static_cast<TokenId>(texts.size()));
    texts.push_back(text);
  }
  first_.push_back(static_cast<uint32_t>(endings_.size()));
  tails_ = TokenTree::make(std::move(ids), texts);
}

void StringTokens::copy_inside(uint32_t max_characters, TokenBitmask& allowed) const {
  const bool all = max_characters >= (long_.empty() ? kMaxMasks : long_.back().n_characters);
  const uint32_t n = all ? kMaxMasks : std::min(max_characters, kMaxMasks - 1);
  allowed.allow_those_of(inside_[n]);
  if (all) return;
  for (const auto& [token, n_characters] : long_) {
    if (n_characters > max_characters) break;
    allowed.allow(token);
  }
}

}  // namespace kvik::constrain
