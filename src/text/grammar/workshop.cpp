#include "text/grammar/workshop.h"

#include <algorithm>

namespace kvik::grammar {
namespace {

void set_bit(std::span<uint64_t> words, TokenId id) { words[id / 64] |= uint64_t{1} << (id % 64); }
void clear_bit(std::span<uint64_t> words, TokenId id) {
  words[id / 64] &= ~(uint64_t{1} << (id % 64));
}

bool has_byte(const Machine::ByteSet& set, uint8_t byte) {
  return (set[byte / 64] >> (byte % 64) & 1) != 0;
}

// Subtrees of fewer tokens are walked rather than asked about.
constexpr size_t kFewTokens = 8;

}  // namespace

void Workshop::make_mask(State state, std::span<uint64_t> allowed) {
  // What a token cannot reach the end of is one for all masks.
  State alike = machine.within(state, vocabulary_->max_token_bytes());
  if (machine.exhausted()) alike = state;
  if (const auto found = masks_.find(static_cast<uint32_t>(alike)); found != masks_.end()) {
    const Mask& mask = found->second;
    if (!mask.words.empty()) {
      std::ranges::copy(mask.words, allowed.begin());
      return;
    }
    if (mask.plain) {
      std::ranges::copy(vocabulary_->plain_mask(), allowed.begin());
    } else {
      std::ranges::fill(allowed, 0);
    }
    for (const TokenId id : mask.tokens) set_bit(allowed, id);
    return;
  }
  machine.forget_asking();
  fill(alike, allowed);
  if (!machine.asked_for_forgotten()) {
    if (!machine.exhausted()) keep(alike, allowed);
    return;
  }
  machine.forget_asking();
  fill(state, allowed);
}

void Workshop::fill(State state, std::span<uint64_t> allowed) {
  std::ranges::fill(allowed, 0);
  if (is_free(state)) {
    std::ranges::copy(vocabulary_->plain_mask(), allowed.begin());
  } else {
    walk_plain(state, allowed);
  }
  const VocabularyTrie::Tree& other = vocabulary_->other();
  walk(other, state, allowed);
}

bool Workshop::is_free(State state) {
  const auto [found, is_new] = free_.try_emplace(static_cast<uint32_t>(state), false);
  if (is_new) {
    found->second = machine.runs_free(state, VocabularyTrie::plain_characters(),
                                      VocabularyTrie::kMaxPlainCharacters);
  }
  return found->second;
}

// Where most first characters lead to where all others are free, as in a key that may be anything
// but some, the others are taken away from the mask of all.
void Workshop::walk_plain(State state, std::span<uint64_t> allowed) {
  const VocabularyTrie::Tree& plain = vocabulary_->plain();
  const Machine::ByteSet first = machine.first_bytes(state);
  size_t n_free = 0;
  std::vector<std::pair<uint32_t, State>> roots;
  for (uint32_t at = 0; at < plain.nodes.size(); at = plain.nodes[at].end) {
    const State to = has_byte(first, plain.nodes[at].byte)
                         ? machine.step(state, plain.nodes[at].byte)
                         : State::kDead;
    roots.emplace_back(at, to);
    if (to != State::kDead && is_free(to)) n_free += plain.tokens_below(at).size();
  }
  const bool most = n_free > plain.tokens.size() / 2;
  if (most) std::ranges::copy(vocabulary_->plain_mask(), allowed.begin());
  for (const auto& [at, to] : roots) {
    const bool whole = to != State::kDead && is_free(to);
    if (whole && most) continue;
    if (most) {
      for (const TokenId id : plain.tokens_below(at)) clear_bit(allowed, id);
    }
    if (to != State::kDead) walk_below(plain, at, plain.nodes[at].end, state, allowed);
  }
}

void Workshop::walk(const VocabularyTrie::Tree& tree, State state, std::span<uint64_t> allowed) {
  const Machine::ByteSet first = machine.first_bytes(state);
  for (uint32_t at = 0; at < tree.nodes.size(); at = tree.nodes[at].end) {
    if (!has_byte(first, tree.nodes[at].byte)) continue;
    walk_below(tree, at, tree.nodes[at].end, state, allowed);
  }
}

void Workshop::walk_below(const VocabularyTrie::Tree& tree, uint32_t begin, uint32_t end,
                          State state, std::span<uint64_t> allowed) {
  struct Level {
    State state;
    uint32_t end;
  };
  std::vector<Level> levels = {{state, end}};
  const bool is_plain = &tree == &vocabulary_->plain();
  for (uint32_t at = begin; at < end && !machine.exhausted();) {
    while (levels.back().end <= at) levels.pop_back();
    const VocabularyTrie::Node& node = tree.nodes[at];
    const State to = machine.step(levels.back().state, node.byte);
    if (to == State::kDead) {
      at = node.end;
      continue;
    }
    const auto below = tree.tokens_below(at);
    if (is_plain && below.size() > kFewTokens && is_free(to)) {
      for (const TokenId id : below) set_bit(allowed, id);
      at = node.end;
      continue;
    }
    for (const TokenId id : below.first(node.n_tokens)) set_bit(allowed, id);
    levels.push_back({to, node.end});
    ++at;
  }
}

void Workshop::keep(State state, std::span<const uint64_t> allowed) {
  Mask mask;
  const auto plain = vocabulary_->plain_mask();
  mask.plain = is_free(state);
  for (size_t w = 0; w < allowed.size(); ++w) {
    uint64_t rest = mask.plain ? allowed[w] & ~plain[w] : allowed[w];
    for (; rest != 0; rest &= rest - 1) {
      mask.tokens.push_back(static_cast<TokenId>(w * 64) +
                            static_cast<TokenId>(__builtin_ctzll(rest)));
    }
  }
  if (mask.tokens.size() > allowed.size()) {
    mask.words.assign(allowed.begin(), allowed.end());
    mask.tokens.clear();
  }
  mask.tokens.shrink_to_fit();
  mask_bytes_ += mask.tokens.size() * sizeof(TokenId) + mask.words.size() * sizeof(uint64_t) + 96;
  masks_.emplace(static_cast<uint32_t>(state), std::move(mask));
}

}  // namespace kvik::grammar
