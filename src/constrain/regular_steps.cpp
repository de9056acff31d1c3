#include <algorithm>
#include <array>

#include "constrain/regular.h"

namespace kvik::constrain {
namespace {

// maximum number of states visited by a search
constexpr size_t kMaxExplored = 30'000;

}  // namespace

void RegularPool::find_starts(Regular r, std::vector<char32_t>& starts) const {
  while (true) {
    const Expression& e = get(r);
    switch (e.kind) {
      case Kind::kNothing:
      case Kind::kEmptyText:
      case Kind::kMark:
        return;
      case Kind::kCharacters:
        for (const auto& [first, last] : set(e.a).ranges()) {
          starts.push_back(first);
          starts.push_back(last + 1);
        }
        return;
      case Kind::kSequence:
        find_starts(Regular{e.a}, starts);
        if (!get(Regular{e.a}).nullable) return;
        r = Regular{e.b};
        continue;
      case Kind::kChoice:
      case Kind::kIntersection:
        for (const uint32_t id : list(r)) find_starts(Regular{id}, starts);
        return;
      case Kind::kComplement:
      case Kind::kRepeat:
        r = Regular{e.a};
        continue;
      case Kind::kCompared:
      case Kind::kDivisible:
        for (char32_t c = '-'; c <= '9' + 1; ++c) starts.push_back(c);
        return;
    }
  }
}

RegularPool::Steps& RegularPool::steps_of(Regular r) {
  const auto [found, is_new] = steps_.try_emplace(id_of(r));
  Steps& steps = found->second;
  if (!is_new) return steps;
  steps.starts.push_back(0);
  find_starts(r, steps.starts);
  spend(2 * steps.starts.size());
  std::erase_if(steps.starts, [](char32_t c) { return c > kMaxCodePoint; });
  std::ranges::sort(steps.starts);
  steps.starts.erase(std::unique(steps.starts.begin(), steps.starts.end()), steps.starts.end());
  steps.starts.shrink_to_fit();
  steps.targets.assign(steps.starts.size(), kUnknown);
  steps_bytes_ += 160 + steps.starts.size() * (sizeof(char32_t) + sizeof(Regular));
  exhausted_ |= bytes() > max_bytes_;
  return steps;
}

Regular RegularPool::target(Regular r, Steps& steps, size_t i) {
  if (steps.targets[i] != kUnknown) return steps.targets[i];
  Regular to = derive(r, steps.starts[i]);
  if (to != Regular::kNothing && !is_alive(to)) to = Regular::kNothing;
  steps.targets[i] = to;
  return to;
}

Regular RegularPool::step(Regular r, char32_t c) {
  if (r == Regular::kNothing) return r;
  Steps& steps = steps_of(r);
  const auto following = std::ranges::upper_bound(steps.starts, c);
  return target(r, steps, static_cast<size_t>(following - steps.starts.begin()) - 1);
}

Regular RegularPool::step(Regular r, std::u32string_view text) {
  for (const char32_t c : text) r = step(r, c);
  return r;
}

bool RegularPool::any_step(Regular r, char32_t first, char32_t last) {
  if (r == Regular::kNothing) return false;
  Steps& steps = steps_of(r);
  const auto following = std::ranges::upper_bound(steps.starts, first);
  for (auto i = static_cast<size_t>(following - steps.starts.begin()) - 1; i < steps.starts.size();
       ++i) {
    if (steps.starts[i] > last) return false;
    if (target(r, steps, i) != Regular::kNothing) return true;
  }
  return false;
}

RegularPool::Next RegularPool::next(Regular r) {
  Next found;
  if (r == Regular::kNothing) return found;
  Steps& steps = steps_of(r);
  const std::vector<char32_t>& starts = steps.starts;
  for (size_t i = 0; i < starts.size() && starts[i] < 0x80; ++i) {
    if (target(r, steps, i) == Regular::kNothing) continue;
    const char32_t end = i + 1 < starts.size() ? std::min<char32_t>(starts[i + 1], 0x80) : 0x80;
    for (char32_t c = starts[i]; c < end; ++c) found.ascii[c / 64] |= uint64_t{1} << (c % 64);
  }
  found.beyond = any_step(r, 0x80, kMaxCodePoint);
  return found;
}

Regular RegularPool::derive_compared(const Expression& e, char32_t c) {
  if (c > 0x7F) return Regular::kNothing;
  const auto state = DecimalComparison::step(bound(e.a), e.b, static_cast<char>(c));
  return state ? make_compared(e.a, *state, e.c) : Regular::kNothing;
}

Regular RegularPool::derive(Regular r, char32_t c) {
  const Expression e = get(r);
  spend(1);
  if (exhausted_) return Regular::kNothing;
  switch (e.kind) {
    case Kind::kNothing:
    case Kind::kEmptyText:
    case Kind::kMark:
      return Regular::kNothing;
    case Kind::kCharacters:
      return set(e.a).contains(c) ? Regular::kEmptyText : Regular::kNothing;
    case Kind::kSequence: {
      // (ab)' = a'b, and also b' if a may be empty; iterates along the sequence instead of
      // recursing.
      std::vector<Regular> either;
      Regular rest = r;
      for (bool more = true; more;) {
        const Expression part = get(rest);
        if (part.kind != Kind::kSequence) {
          either.push_back(derive(rest, c));
          break;
        }
        either.push_back(sequence(derive(Regular{part.a}, c), Regular{part.b}));
        more = get(Regular{part.a}).nullable;
        rest = Regular{part.b};
      }
      return either.size() == 1 ? either.front() : choice(either);
    }
    case Kind::kChoice:
    case Kind::kIntersection: {
      const auto parts = list(r);
      // a copy, because deriving may reallocate the lists
      std::vector<uint32_t> ids(parts.begin(), parts.end());
      std::vector<Regular> derived;
      for (const uint32_t id : ids) {
        const Regular part = derive(Regular{id}, c);
        if (part == Regular::kNothing) {
          if (e.kind == Kind::kIntersection) return part;
          continue;
        }
        derived.push_back(part);
      }
      return e.kind == Kind::kChoice ? choice(derived) : intersection(derived);
    }
    case Kind::kComplement:
      return complement(derive(Regular{e.a}, c));
    case Kind::kRepeat: {
      const Regular rest =
          repeat(Regular{e.a}, e.b == 0 ? 0 : e.b - 1, e.c == kUnbounded ? kUnbounded : e.c - 1);
      return sequence(derive(Regular{e.a}, c), rest);
    }
    case Kind::kCompared:
      return derive_compared(e, c);
    case Kind::kDivisible: {
      const auto state =
          c > 0x7F ? std::nullopt : division(e.a).step({e.b, e.c}, static_cast<char>(c));
      return state ? make_divisible(e.a, *state) : Regular::kNothing;
    }
  }
  return Regular::kNothing;
}

RegularPool::Liveness RegularPool::known_liveness(Regular r) const {
  const Expression& e = get(r);
  if (r == Regular::kNothing) return Liveness::kDead;
  if (e.nullable || !e.may_be_dead) return Liveness::kAlive;
  if (e.kind == Kind::kComplement && get(Regular{e.a}).finite) return Liveness::kAlive;
  const auto found = liveness_.find(id_of(r));
  return found == liveness_.end() ? Liveness::kUnknown : found->second;
}

bool RegularPool::is_alive(Regular r) {
  const Liveness liveness = known_liveness(r);
  if (liveness != Liveness::kUnknown) return liveness == Liveness::kAlive;
  const Expression e = get(r);
  bool alive = false;
  if (e.kind == Kind::kSequence) {
    alive = is_alive(Regular{e.a}) && is_alive(Regular{e.b});
  } else if (e.kind == Kind::kRepeat) {
    alive = is_alive(Regular{e.a});
  } else if (e.kind == Kind::kChoice) {
    const auto parts = list(r);
    const std::vector<uint32_t> ids(parts.begin(), parts.end());
    alive = std::ranges::any_of(ids, [&](uint32_t id) { return is_alive(Regular{id}); });
  } else {
    return explore(r);
  }
  liveness_[id_of(r)] = alive ? Liveness::kAlive : Liveness::kDead;
  return alive;
}

// Searches depth-first for an accepting state. If there is none, all visited states are dead.
bool RegularPool::explore(Regular r) {
  struct Seen {
    Regular state;
    size_t from;  // index of the predecessor
  };
  std::vector<Seen> seen = {{r, 0}};
  std::unordered_map<uint32_t, bool> known = {{id_of(r), true}};
  std::vector<size_t> left = {0};
  while (!left.empty()) {
    const size_t at = left.back();
    left.pop_back();
    const Regular state = seen[at].state;
    const size_t n = steps_of(state).starts.size();
    for (size_t i = 0; i < n; ++i) {
      const Regular next = derive(state, steps_of(state).starts[i]);
      const Liveness liveness = known_liveness(next);
      if (liveness == Liveness::kAlive) {
        for (size_t back = at;; back = seen[back].from) {
          liveness_[id_of(seen[back].state)] = Liveness::kAlive;
          if (back == 0) return true;
        }
      }
      if (liveness == Liveness::kDead || !known.try_emplace(id_of(next), true).second) continue;
      seen.push_back({next, at});
      left.push_back(seen.size() - 1);
      if (seen.size() > kMaxExplored || exhausted_) {
        exhausted_ = true;
        return false;
      }
    }
  }
  for (const Seen& dead : seen) liveness_[id_of(dead.state)] = Liveness::kDead;
  return false;
}

uint32_t RegularPool::free_run(Regular r, const CodePointSet& characters) const {
  const Expression& e = get(r);
  if (e.kind == Kind::kSequence) return free_run(Regular{e.a}, characters);
  if (e.kind == Kind::kChoice) {
    uint32_t most = 0;
    for (const uint32_t id : list(r)) most = std::max(most, free_run(Regular{id}, characters));
    return most;
  }
  if (e.kind != Kind::kRepeat) return 0;
  const Expression& part = get(Regular{e.a});
  if (part.kind != Kind::kCharacters || !set(part.a).includes(characters)) return 0;
  return e.c;
}

std::optional<uint32_t> RegularPool::count_texts(Regular r, uint32_t limit) {
  if (!is_alive(r)) return 0;
  if (!get(r).finite && get(r).kind != Kind::kIntersection && get(r).kind != Kind::kChoice) {
    return {};
  }
  uint64_t n = 0;
  std::vector<Regular> left = {r};
  // Each text is one path. A loop is followed until the limit is exceeded.
  for (size_t n_seen = 0; !left.empty(); ++n_seen) {
    if (n_seen > size_t{64} * limit + 4096 || exhausted_) return {};
    const Regular at = left.back();
    left.pop_back();
    if (get(at).nullable && ++n > limit) return {};
    bool too_many = false;
    each_next(at, [&](char32_t first, char32_t last) {
      if (too_many) return;
      for (char32_t c = first; c <= last; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        left.push_back(step(at, c));
        if (left.size() > size_t{64} * limit + 4096) {
          too_many = true;
          return;
        }
      }
    });
    if (too_many) return {};
  }
  return static_cast<uint32_t>(n);
}

std::optional<std::u32string> RegularPool::example(Regular r, size_t max_length) {
  std::u32string text;
  if (!is_alive(r)) return {};
  // The search is breadth-first, so that it finds the shortest text and is not delayed by loops.
  struct Seen {
    Regular state;
    size_t from;
    char32_t by;
  };
  std::vector<Seen> seen = {{r, 0, 0}};
  std::unordered_map<uint32_t, bool> known = {{id_of(r), true}};
  for (size_t at = 0; at < seen.size() && at < kMaxExplored; ++at) {
    if (exhausted_) return {};
    if (get(seen[at].state).nullable) {
      for (size_t back = at; back != 0; back = seen[back].from) text.push_back(seen[back].by);
      std::ranges::reverse(text);
      if (text.size() > max_length) return {};
      return text;
    }
    const Regular state = seen[at].state;
    each_next(state, [&](char32_t first, char32_t) {
      const Regular next = step(state, first);
      if (known.try_emplace(id_of(next), true).second) seen.push_back({next, at, first});
    });
  }
  return {};
}

Regular RegularPool::copy(const RegularPool& from, Regular r) {
  // The parts of an expression have lower ids than the expression, so they are copied in the order
  // of ids.
  std::vector<uint32_t> needed;
  std::unordered_map<uint32_t, Regular> made;
  std::vector<uint32_t> left = {id_of(r)};
  while (!left.empty()) {
    const uint32_t id = left.back();
    left.pop_back();
    if (id < base_size_ && base_ == from.base_) {
      made[id] = Regular{id};  // both pools share it
      continue;
    }
    if (!made.try_emplace(id, Regular::kNothing).second) continue;
    needed.push_back(id);
    const Expression& e = from.get(Regular{id});
    if (e.kind == Kind::kSequence) left.insert(left.end(), {e.a, e.b});
    if (e.kind == Kind::kComplement || e.kind == Kind::kRepeat) left.push_back(e.a);
    if (e.kind == Kind::kChoice || e.kind == Kind::kIntersection) {
      for (const uint32_t part : from.list(Regular{id})) left.push_back(part);
    }
  }
  std::ranges::sort(needed);
  for (const uint32_t id : needed) {
    const Expression& e = from.get(Regular{id});
    std::vector<Regular> parts;
    if (e.kind == Kind::kChoice || e.kind == Kind::kIntersection) {
      for (const uint32_t part : from.list(Regular{id})) parts.push_back(made[part]);
    }
    switch (e.kind) {
      case Kind::kNothing:
      case Kind::kEmptyText:
        made[id] = Regular{id};
        break;
      case Kind::kCharacters:
        made[id] = characters(from.set(e.a));
        break;
      case Kind::kSequence:
        made[id] = sequence(made[e.a], made[e.b]);
        break;
      case Kind::kChoice:
        made[id] = choice(parts);
        break;
      case Kind::kIntersection:
        made[id] = intersection(parts);
        break;
      case Kind::kComplement:
        made[id] = complement(made[e.a]);
        break;
      case Kind::kRepeat:
        made[id] = repeat(made[e.a], e.b, e.c);
        break;
      case Kind::kMark:
        made[id] = mark(e.a);
        break;
      case Kind::kCompared: {
        const Regular start = compared(from.bound(e.a), e.c);
        made[id] = e.b == 0 ? start : make_compared(get(start).a, e.b, e.c);
        break;
      }
      case Kind::kDivisible:
        made[id] = make_divisible(get(divisible(from.division(e.a))).a, {e.b, e.c});
        break;
    }
  }
  return made[id_of(r)];
}

}  // namespace kvik::constrain
