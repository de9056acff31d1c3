#include "constrain/mask_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace kvik::constrain {
namespace {

bool has_byte(const Machine::ByteSet& set, uint8_t byte) {
  return (set[byte / 64] >> (byte % 64) & 1) != 0;
}

}  // namespace

bool MaskCache::copy_states(const MaskCache& from, std::span<uint32_t> states) {
  machine.allow(from.machine.limits().max_work_per_token, from.machine.limits().max_matching_bytes);
  uint32_t before = 0, made = 0;  // the previous pair: adjacent states are often equal
  for (uint32_t& state : states) {
    if (state != before) {
      made = static_cast<uint32_t>(machine.copy_state(from.machine, State{state}));
      before = state;
    }
    state = made;
  }
  return !machine.exhausted();
}

void MaskCache::make_mask(State state, TokenBitmask& allowed) {
  // States that differ only beyond the length of the longest token share a mask.
  State alike = machine.within(state, vocabulary_->max_token_bytes());
  if (machine.exhausted()) alike = state;
  undecided_.clear();
  machine.clear_depends_on_forgotten();
  if (!copy_kept(alike, allowed)) fill_new(alike, allowed);
  settle(state, allowed);
}

// Returns whether the last result depends on a text that within() dropped, and resets the flag.
bool MaskCache::asked() {
  const bool has_asked = machine.depends_on_forgotten();
  machine.clear_depends_on_forgotten();
  return has_asked;
}

// Decides the tokens that depend on dropped text by reading each of them in the exact state.
void MaskCache::settle(State state, TokenBitmask& allowed) {
  for (const TokenId id : undecided_) {
    State to = state;
    for (const char c : vocabulary_->bytes(id)) {
      to = machine.step(to, static_cast<uint8_t>(c));
      if (to == State::kDead) break;
    }
    allowed.set(id, to != State::kDead);
  }
}

bool MaskCache::copy_kept(State state, TokenBitmask& allowed) {
  const auto found = masks_.find(static_cast<uint32_t>(state));
  if (found == masks_.end()) return false;
  const Mask& mask = found->second;
  undecided_.insert(undecided_.end(), mask.undecided.begin(), mask.undecided.end());
  if (mask.bits) {
    allowed.allow_those_of(*mask.bits);
    return true;
  }
  if (mask.plain) {
    allowed.allow_those_of(vocabulary_->plain_mask());
  } else {
    allowed.allow_none();
  }
  for (const TokenId id : mask.tokens) allowed.allow(id);
  return true;
}

// Computes the mask of a state for which none is cached.
void MaskCache::fill_new(State state, TokenBitmask& allowed) {
  if (const auto place = machine.any_string(state)) return fill_any_string(*place, allowed);
  const std::vector<TokenId> before = std::exchange(undecided_, {});
  if (machine.threads(state).size() > 1) {
    fill_by_threads(state, allowed);
  } else if (!fill_string(state, allowed)) {
    fill(state, allowed);
  }
  if (!machine.exhausted()) keep(state, allowed);
  undecided_.insert(undecided_.end(), before.begin(), before.end());
}

void MaskCache::fill_by_threads(State state, TokenBitmask& allowed) {
  const std::span<const Thread> stored = machine.threads(state);
  const std::vector<Thread> threads(stored.begin(), stored.end());
  std::vector<Thread> rest;
  std::vector<State> strings;
  for (const Thread& thread : threads) {
    const bool in_string = thread.kind == Thread::kString || thread.kind == Thread::kKey;
    const State alone = in_string ? machine.part_of({&thread, 1}) : State::kDead;
    if (alone != State::kDead && (machine.any_string(alone) || machine.usual_state(alone))) {
      strings.push_back(alone);
    } else {
      rest.push_back(thread);
    }
  }
  if (strings.empty()) return fill(state, allowed);
  allowed.allow_none();
  if (!rest.empty()) fill(machine.part_of(rest), allowed);
  TokenBitmask more(allowed.n_tokens());
  for (const State string : strings) {
    if (!copy_kept(string, more)) fill_new(string, more);
    allowed.allow_too(more);
  }
}

void MaskCache::fill_any_string(const Machine::AnyString& place, TokenBitmask& allowed) {
  const StringTokens& tokens = vocabulary_->in_strings();
  machine.clear_depends_on_forgotten();
  tokens.copy_inside(place.max, allowed);
  const Tails& tails = tails_of(place.after_quote);
  const auto fits = [&](uint32_t n) { return n >= place.min && n <= place.max; };
  for (const StringTokens::Tail tail : tails.sure) {
    for (const auto& [token, n_characters] : tokens.with_tail(tail)) {
      if (fits(n_characters)) allowed.allow(token);
    }
  }
  for (const StringTokens::Tail tail : tails.undecided) {
    for (const auto& [token, n_characters] : tokens.with_tail(tail)) {
      if (fits(n_characters)) undecided_.push_back(token);
    }
  }
}

const MaskCache::Tails& MaskCache::tails_of(State after_quote) {
  const auto key = static_cast<uint32_t>(after_quote);
  if (const auto found = tails_.find(key); found != tails_.end()) return found->second;
  Tails tails;
  const TokenTree& tree = vocabulary_->in_strings().tails();
  if (after_quote != State::kDead) tails.sure.push_back(StringTokens::kNoTail);
  std::vector<std::pair<State, uint32_t>> levels = {
      {after_quote, static_cast<uint32_t>(tree.nodes.size())}};
  for (uint32_t at = 0; at < tree.nodes.size() && after_quote != State::kDead;) {
    while (levels.back().second <= at) levels.pop_back();
    const State state = levels.back().first;
    const TokenTree::Node& node = tree.nodes[at];
    const bool may_be = has_byte(machine.first_bytes(state), node.byte);
    const State to = may_be ? machine.step(state, node.byte) : State::kDead;
    if (asked()) {
      const auto below = tree.tokens_below(at);
      tails.undecided.insert(tails.undecided.end(), below.begin(), below.end());
      at = node.end;
      continue;
    }
    if (to == State::kDead) {
      at = node.end;
      continue;
    }
    if (node.n_tokens > 0) tails.sure.push_back(tree.tokens[node.first_token]);
    levels.emplace_back(to, node.end);
    ++at;
  }
  mask_bytes_ += (tails.sure.size() + tails.undecided.size()) * sizeof(StringTokens::Tail) + 128;
  return tails_.emplace(key, std::move(tails)).first->second;
}

bool MaskCache::fill_string(State state, TokenBitmask& allowed) {
  const auto usual = machine.usual_state(state);
  if (!usual) return false;
  const auto place = machine.any_string(usual->to);
  if (!place) return false;
  fill_any_string(*place, allowed);
  fill_exceptions(state, usual->to, 0, static_cast<uint32_t>(vocabulary_->all().nodes.size()),
                  allowed);
  return true;
}

// Corrects `allowed`, the mask of the state to which most characters lead, by following the
// characters that lead elsewhere.
void MaskCache::fill_exceptions(State state, State usual, uint32_t begin, uint32_t end,
                                TokenBitmask& allowed) {
  const TokenTree& tree = vocabulary_->all();
  const Machine::ByteSet others = machine.exceptional_bytes(state, usual);
  const bool is_between = machine.is_between(state);
  for (uint32_t at = begin; at < end && !machine.exhausted(); at = tree.nodes[at].end) {
    const TokenTree::Node& node = tree.nodes[at];
    // JSON strings contain no control characters.
    if (node.byte < 0x20 || !has_byte(others, node.byte)) continue;
    const State to = machine.step(state, node.byte);
    const bool is_end = is_between && node.byte == '"';
    const auto below = tree.tokens_below(at);
    if (asked()) {
      undecided_.insert(undecided_.end(), below.begin(), below.end());
      continue;
    }
    if (to == usual) continue;
    if (to == State::kDead || is_end) {
      for (const TokenId id : below) allowed.forbid(id);
    }
    if (to == State::kDead) continue;
    for (const TokenId id : below.first(node.n_tokens)) allowed.allow(id);
    if (is_end) {
      walk_below(tree, at + 1, node.end, to, allowed);
    } else {
      fill_exceptions(to, usual, at + 1, node.end, allowed);
    }
  }
}

void MaskCache::fill(State state, TokenBitmask& allowed) {
  allowed.allow_none();
  if (is_free(state)) {
    allowed.allow_those_of(vocabulary_->plain_mask());
  } else {
    walk_plain(state, allowed);
  }
  walk(vocabulary_->other(), state, allowed);
}

bool MaskCache::is_free(State state) {
  const auto [found, is_new] = free_.try_emplace(static_cast<uint32_t>(state), false);
  if (is_new) {
    found->second = machine.runs_free(state, VocabularyTrie::plain_characters(),
                                      VocabularyTrie::kMaxPlainCharacters);
  }
  return found->second;
}

// Sets the allowed plain tokens. If most first characters lead to a state in which everything is
// allowed (for example in a key that may be anything except some names), starts with all plain
// tokens and removes the exceptions.
void MaskCache::walk_plain(State state, TokenBitmask& allowed) {
  const TokenTree& plain = vocabulary_->plain();
  const Machine::ByteSet first = machine.first_bytes(state);
  size_t n_free = 0;
  std::vector<std::pair<uint32_t, State>> roots;
  for (uint32_t at = 0; at < plain.nodes.size(); at = plain.nodes[at].end) {
    const State to = has_byte(first, plain.nodes[at].byte)
                         ? machine.step(state, plain.nodes[at].byte)
                         : State::kDead;
    if (asked()) {
      const auto below = plain.tokens_below(at);
      undecided_.insert(undecided_.end(), below.begin(), below.end());
      roots.emplace_back(at, State::kDead);
      continue;
    }
    roots.emplace_back(at, to);
    if (to != State::kDead && is_free(to)) n_free += plain.tokens_below(at).size();
  }
  const bool most = n_free > plain.tokens.size() / 2;
  if (most) allowed.allow_those_of(vocabulary_->plain_mask());
  for (const auto& [at, to] : roots) {
    const bool whole = to != State::kDead && is_free(to);
    if (whole && most) continue;
    if (most) {
      for (const TokenId id : plain.tokens_below(at)) allowed.forbid(id);
    }
    if (to != State::kDead) walk_below(plain, at, plain.nodes[at].end, state, allowed);
  }
}

void MaskCache::walk(const TokenTree& tree, State state, TokenBitmask& allowed) {
  const Machine::ByteSet first = machine.first_bytes(state);
  for (uint32_t at = 0; at < tree.nodes.size(); at = tree.nodes[at].end) {
    if (!has_byte(first, tree.nodes[at].byte)) continue;
    walk_below(tree, at, tree.nodes[at].end, state, allowed);
  }
}

void MaskCache::walk_below(const TokenTree& tree, uint32_t begin, uint32_t end, State state,
                           TokenBitmask& allowed) {
  struct Level {
    State state;
    uint32_t end;
  };
  std::vector<Level> levels = {{state, end}};
  const bool is_plain = &tree == &vocabulary_->plain();
  for (uint32_t at = begin; at < end && !machine.exhausted();) {
    while (levels.back().end <= at) levels.pop_back();
    const TokenTree::Node& node = tree.nodes[at];
    const State to = machine.step(levels.back().state, node.byte);
    if (asked()) {
      const auto undecided = tree.tokens_below(at);
      undecided_.insert(undecided_.end(), undecided.begin(), undecided.end());
      at = node.end;
      continue;
    }
    if (to == State::kDead) {
      at = node.end;
      continue;
    }
    const auto below = tree.tokens_below(at);
    if (node.byte_set != TokenTree::kNoSet &&
        ((is_plain && is_free(to)) || loops(to, tree.byte_sets[node.byte_set]))) {
      for (const TokenId id : below) allowed.allow(id);
      at = node.end;
      continue;
    }
    for (const TokenId id : below.first(node.n_tokens)) allowed.allow(id);
    levels.push_back({to, node.end});
    ++at;
  }
}

bool MaskCache::loops(State state, const Machine::ByteSet& set) {
  const auto [found, is_new] = loops_.try_emplace(static_cast<uint32_t>(state));
  if (is_new) mask_bytes_ += sizeof(Loops) + 48;
  Loops& loops = found->second;
  for (size_t w = 0; w < set.size(); ++w) {
    if ((set[w] & loops.known[w] & ~loops.loop[w]) != 0) return false;
    for (uint64_t unknown = set[w] & ~loops.known[w]; unknown != 0; unknown &= unknown - 1) {
      const uint64_t bit = unknown & -unknown;
      const auto byte = static_cast<uint8_t>(w * 64 + static_cast<size_t>(std::countr_zero(bit)));
      const State to = machine.step(state, byte);
      loops.known[w] |= bit;
      if (asked() || to != state) return false;
      loops.loop[w] |= bit;
    }
  }
  return true;
}

void MaskCache::keep(State state, const TokenBitmask& allowed) {
  Mask mask;
  const auto plain = vocabulary_->plain_mask().words();
  const auto words = allowed.words().first(plain.size());
  mask.plain = is_free(state);
  const auto rest_of = [&](size_t w) { return mask.plain ? words[w] & ~plain[w] : words[w]; };
  size_t n = 0;  // number of tokens; counting stops when there are too many
  for (size_t w = 0; w < words.size() && n <= words.size(); ++w) {
    if (const uint64_t rest = rest_of(w); rest != 0) n += static_cast<size_t>(std::popcount(rest));
  }
  if (n > words.size()) {
    mask.bits.emplace(allowed);
  } else {
    mask.tokens.reserve(n);
    for (size_t w = 0; w < words.size(); ++w) {
      for (uint64_t rest = rest_of(w); rest != 0; rest &= rest - 1) {
        mask.tokens.push_back(static_cast<TokenId>(w * TokenBitmask::kWordBits) +
                              static_cast<TokenId>(std::countr_zero(rest)));
      }
    }
  }
  mask.undecided = undecided_;
  mask_bytes_ += (mask.tokens.size() + mask.undecided.size()) * sizeof(TokenId) +
                 (mask.bits ? words.size_bytes() : 0) + 120;
  masks_.emplace(static_cast<uint32_t>(state), std::move(mask));
}

}  // namespace kvik::constrain
