#include <algorithm>
#include <array>

#include "constrain/regular.h"

// Simplifies expressions of whose texts only the first few characters will be read.
namespace kvik::constrain {
namespace {

// maximum number of expressions visited
constexpr uint32_t kMaxLookedAt = 600;

std::optional<uint32_t> sum(std::optional<uint32_t> a, std::optional<uint32_t> b) {
  constexpr uint32_t kMost = 1'000'000;
  if (!a || !b || *a + *b > kMost) return {};
  return *a + *b;
}

}  // namespace

// Returns an upper bound of the length of the shortest text; std::nullopt if it is not easy to
// find.
std::optional<uint32_t> RegularPool::shortest(Regular r, uint32_t& n_left) const {
  const Expression& e = get(r);
  if (e.nullable) return 0;
  if (n_left == 0) return {};
  --n_left;
  switch (e.kind) {
    case Kind::kCharacters:
      return 1;
    case Kind::kSequence:
      return sum(shortest(Regular{e.a}, n_left), shortest(Regular{e.b}, n_left));
    case Kind::kChoice: {
      std::optional<uint32_t> least;
      for (const uint32_t id : list(r)) {
        const auto one = shortest(Regular{id}, n_left);
        if (!one) return {};
        least = std::min(least.value_or(*one), *one);
      }
      return least;
    }
    case Kind::kRepeat: {
      const auto part = shortest(Regular{e.a}, n_left);
      if (!part || uint64_t{*part} * e.b > 1'000'000) return {};
      return *part * e.b;
    }
    default:
      return {};
  }
}

// Returns an upper bound of the number of characters needed to complete a text from any state;
// std::nullopt if it is not easy to find.
std::optional<uint32_t> RegularPool::longest_need(Regular r, uint32_t& n_left) const {
  if (n_left == 0) return {};
  --n_left;
  const Expression& e = get(r);
  switch (e.kind) {
    case Kind::kEmptyText:
    case Kind::kMark:
      return 0;
    case Kind::kCharacters:
      return 1;
    case Kind::kSequence: {
      const auto rest = longest_need(Regular{e.b}, n_left);
      const auto first = sum(longest_need(Regular{e.a}, n_left), shortest(Regular{e.b}, n_left));
      if (!rest || !first) return {};
      return std::max(*first, *rest);
    }
    case Kind::kChoice: {
      uint32_t most = 0;
      for (const uint32_t id : list(r)) {
        const auto one = longest_need(Regular{id}, n_left);
        if (!one) return {};
        most = std::max(most, *one);
      }
      return most;
    }
    case Kind::kRepeat:
      return sum(longest_need(Regular{e.a}, n_left), shortest(r, n_left));
    default:
      return {};
  }
}

// Drops an upper bound of the length that cannot be reached within n_characters.
Regular RegularPool::within_intersection(Regular r, uint32_t n_characters) {
  const auto parts = list(r);
  const std::vector<uint32_t> ids(parts.begin(), parts.end());
  const Regular any = any_character();
  if (ids.size() != 2) return r;
  for (const size_t i : {0, 1}) {
    const Expression bound = get(Regular{ids[i]});
    if (bound.kind != Kind::kRepeat || Regular{bound.a} != any || bound.b > 0) continue;
    const Regular other{ids[1 - i]};
    uint32_t n_left = kMaxLookedAt;
    const auto need = longest_need(other, n_left);
    if (!need || uint64_t{*need} + n_characters > bound.c) continue;
    return within(other, n_characters);
  }
  return r;
}

// If only n_characters are read, all x{m,n} with m > n_characters are equivalent, and an upper
// bound n > n_characters has no effect.
Regular RegularPool::within(Regular r, uint32_t n_characters) {
  const Expression e = get(r);
  if (e.kind == Kind::kSequence) {
    const Regular head = within(Regular{e.a}, n_characters);
    return head == Regular{e.a} ? r : sequence(head, Regular{e.b});
  }
  if (e.kind == Kind::kChoice) {
    std::vector<Regular> parts;
    for (const uint32_t id : list(r)) parts.push_back(Regular{id});
    bool changed = false;
    for (Regular& part : parts) {
      const Regular made = within(part, n_characters);
      changed |= made != part;
      part = made;
    }
    return changed ? choice(parts) : r;
  }
  if (e.kind == Kind::kIntersection) return within_intersection(r, n_characters);
  if (e.kind != Kind::kRepeat || get(Regular{e.a}).nullable) return r;
  const uint32_t most = n_characters + 1;
  return repeat(Regular{e.a}, std::min(e.b, most), e.c > most ? kUnbounded : e.c);
}

std::optional<RegularPool::AnyRun> RegularPool::any_run(Regular r) const {
  const auto is_any = [this](Regular part) {
    static const CodePointSet kAll = CodePointSet::all();
    return get(part).kind == Kind::kCharacters && set(get(part).a) == kAll;
  };
  Regular rest = Regular::kEmptyText;
  if (get(r).kind == Kind::kMark) return AnyRun{0, 0, r};
  if (get(r).kind == Kind::kSequence && get(Regular{get(r).b}).kind == Kind::kMark) {
    rest = Regular{get(r).b};
    r = Regular{get(r).a};
  }
  const Expression& e = get(r);
  if (e.kind == Kind::kEmptyText) return AnyRun{0, 0, rest};
  if (is_any(r)) return AnyRun{1, 1, rest};
  if (e.kind != Kind::kRepeat || !is_any(Regular{e.a})) return {};
  return AnyRun{e.b, e.c, rest};
}

}  // namespace kvik::constrain
