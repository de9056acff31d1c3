#include "constrain/regular.h"

#include <algorithm>

#include "constrain/number_syntax.h"

namespace kvik::constrain {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

// Adds two bounds. The sum of finite bounds stays below kUnbounded.
uint32_t add_bounds(uint32_t a, uint32_t b) {
  constexpr uint32_t kMost = RegularPool::kUnbounded;
  if (a == kMost || b == kMost) return kMost;
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} + b, kMost - 1));
}

}  // namespace

RegularPool::RegularPool(uint32_t max_expressions, const RegularPool* base)
    : base_(base), base_size_(base ? base->size() : 0), max_expressions_(max_expressions) {
  if (base) {
    base_sets_ = base->base_sets_ + static_cast<uint32_t>(base->sets_.size());
    base_bounds_ = base->base_bounds_ + static_cast<uint32_t>(base->bounds_.size());
    base_divisions_ = base->base_divisions_ + static_cast<uint32_t>(base->divisions_.size());
    return;
  }
  intern({Kind::kNothing, false, false, true, 0, 0, 0, 0});
  intern({Kind::kEmptyText, true, false, true, 0, 0, 0, 0});
}

size_t RegularPool::bytes() const {
  size_t n = expressions_.capacity() * sizeof(Expression) +
             (lists_.capacity() + table_.capacity()) * sizeof(uint32_t);
  return n + steps_bytes_ + liveness_.size() * 40;
}

size_t RegularPool::bytes_of_sets() const {
  size_t n = (bounds_.size() * sizeof(Decimal)) + (divisions_.size() * sizeof(DecimalDivision));
  for (const CodePointSet& set : sets_)
    n += sizeof(set) + set.ranges().size() * 2 * sizeof(char32_t);
  return n;
}

std::span<const uint32_t> RegularPool::list(Regular r) const {
  if (id_of(r) < base_size_) return base_->list(r);
  const Expression& e = get(r);
  return std::span(lists_).subspan(e.a, e.b);
}

const CodePointSet& RegularPool::set(uint32_t id) const {
  return id < base_sets_ ? base_->set(id) : sets_[id - base_sets_];
}

const Decimal& RegularPool::bound(uint32_t id) const {
  return id < base_bounds_ ? base_->bound(id) : bounds_[id - base_bounds_];
}

const DecimalDivision& RegularPool::division(uint32_t id) const {
  return id < base_divisions_ ? base_->division(id) : divisions_[id - base_divisions_];
}

bool RegularPool::same(Regular r, const Expression& e, std::span<const uint32_t> parts) const {
  const Expression& other = get(r);
  if (other.kind != e.kind) return false;
  if (e.kind == Kind::kChoice || e.kind == Kind::kIntersection) {
    return std::ranges::equal(list(r), parts);
  }
  return other.a == e.a && other.b == e.b && other.c == e.c;
}

std::optional<Regular> RegularPool::find(uint64_t hash, const Expression& e,
                                         std::span<const uint32_t> parts) const {
  if (base_) {
    if (const auto found = base_->find(hash, e, parts)) return found;
  }
  if (table_.empty()) return {};
  for (size_t slot = hash % table_.size(); table_[slot] != 0; slot = (slot + 1) % table_.size()) {
    const Regular there{table_[slot] - 1};
    if (same(there, e, parts)) return there;
  }
  return {};
}

Regular RegularPool::intern(Expression e, std::span<const uint32_t> parts) {
  const auto hash_of = [&](const Expression& x, std::span<const uint32_t> children) {
    uint64_t hash = mix(0, static_cast<uint64_t>(x.kind));
    if (children.empty()) return mix(mix(mix(hash, x.a), x.b), x.c);
    for (const uint32_t child : children) hash = mix(hash, child);
    return hash;
  };
  spend(4 + parts.size());
  if (exhausted_) return Regular::kNothing;
  const uint64_t hash = hash_of(e, parts);
  if (const auto found = find(hash, e, parts)) return *found;
  if (expressions_.size() >= max_expressions_ || e.depth > kMaxDepth) {
    exhausted_ = true;
    return Regular::kNothing;
  }
  if (!parts.empty()) {
    e.a = static_cast<uint32_t>(lists_.size());
    e.b = static_cast<uint32_t>(parts.size());
    lists_.insert(lists_.end(), parts.begin(), parts.end());
  }
  const Regular made{size()};
  expressions_.push_back(e);
  if (expressions_.size() * 2 > table_.size()) {
    table_.assign(std::max<size_t>(64, expressions_.size() * 4), 0);
    for (size_t i = 0; i + 1 < expressions_.size(); ++i) {
      const Regular r{base_size_ + static_cast<uint32_t>(i)};
      const bool has_list =
          expressions_[i].kind == Kind::kChoice || expressions_[i].kind == Kind::kIntersection;
      size_t slot = hash_of(expressions_[i], has_list ? list(r) : std::span<const uint32_t>()) %
                    table_.size();
      while (table_[slot] != 0) slot = (slot + 1) % table_.size();
      table_[slot] = id_of(r) + 1;
    }
  }
  size_t slot = hash % table_.size();
  while (table_[slot] != 0) slot = (slot + 1) % table_.size();
  table_[slot] = id_of(made) + 1;
  return made;
}

Regular RegularPool::characters(const CodePointSet& set) {
  if (set.empty()) return Regular::kNothing;
  std::optional<uint32_t> id;
  const uint32_t n_sets = base_sets_ + static_cast<uint32_t>(sets_.size());
  // Linear search is enough: there are few sets, and the newest are looked up most.
  for (uint32_t i = n_sets; i-- > 0 && !id;) {
    if (this->set(i) == set) id = i;
  }
  if (!id) {
    sets_.push_back(set);
    id = n_sets;
  }
  return intern({Kind::kCharacters, false, false, true, 0, *id, 0, 0});
}

Regular RegularPool::literal(std::u32string_view text) {
  Regular made = Regular::kEmptyText;
  for (size_t i = text.size(); i-- > 0;) {
    made = sequence(characters({{text[i], text[i]}}), made);
  }
  return made;
}

Regular RegularPool::one_of(std::vector<std::u32string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return from_sorted(texts, 0);
}

// Builds a trie, so that a step looks at each first character once.
Regular RegularPool::from_sorted(std::span<const std::u32string> texts, size_t depth) {
  if (texts.empty()) return Regular::kNothing;
  size_t common = depth;
  const std::u32string& first = texts.front();
  while (common < first.size() && first[common] == texts.back()[common]) ++common;
  std::vector<Regular> branches;
  if (first.size() == common) {
    branches.push_back(Regular::kEmptyText);
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const char32_t c = texts.front()[common];
    const auto end = std::ranges::find_if(texts, [&](const auto& t) { return t[common] != c; });
    const auto n = static_cast<size_t>(end - texts.begin());
    branches.push_back(
        sequence(characters({{c, c}}), from_sorted(texts.subspan(0, n), common + 1)));
    texts = texts.subspan(n);
  }
  return sequence(literal(std::u32string_view(first).substr(depth, common - depth)),
                  choice(branches));
}

Regular RegularPool::sequence(Regular a, Regular b) {
  if (a == Regular::kNothing || b == Regular::kNothing) return Regular::kNothing;
  if (a == Regular::kEmptyText) return b;
  if (b == Regular::kEmptyText) return a;
  if (get(a).kind == Kind::kSequence) {
    std::vector<Regular> parts;
    for (; get(a).kind == Kind::kSequence; a = Regular{get(a).b})
      parts.push_back(Regular{get(a).a});
    spend(parts.size());
    Regular made = sequence(a, b);
    for (size_t i = parts.size(); i-- > 0;) made = sequence(parts[i], made);
    return made;
  }
  // x{m,n} x{p,q} = x{m+p,n+q}
  const auto bounds_over = [&](Regular r, Regular part) -> std::optional<std::array<uint32_t, 2>> {
    const Expression& e = get(r);
    if (r == part) return {{1, 1}};
    if (e.kind == Kind::kRepeat && Regular{e.a} == part) return {{e.b, e.c}};
    return {};
  };
  const Expression& left = get(a);
  const Regular part = left.kind == Kind::kRepeat ? Regular{left.a} : a;
  const Expression& right = get(b);
  const Regular head = right.kind == Kind::kSequence ? Regular{right.a} : b;
  if (get(head).kind == Kind::kRepeat || left.kind == Kind::kRepeat) {
    const auto first = bounds_over(a, part);
    const auto second = bounds_over(head, part);
    if (first && second) {
      const Regular tail = right.kind == Kind::kSequence ? Regular{right.b} : Regular::kEmptyText;
      const Regular both = repeat(part, add_bounds((*first)[0], (*second)[0]),
                                  add_bounds((*first)[1], (*second)[1]));
      return sequence(both, tail);
    }
  }
  return intern({Kind::kSequence, left.nullable && right.nullable,
                 left.may_be_dead || right.may_be_dead, left.finite && right.finite,
                 std::max(left.depth + 1, right.depth), id_of(a), id_of(b), 0});
}

Regular RegularPool::sequence(std::span<const Regular> parts) {
  Regular made = Regular::kEmptyText;
  for (size_t i = parts.size(); i-- > 0;) made = sequence(parts[i], made);
  return made;
}

std::vector<uint32_t> RegularPool::flatten(Kind kind, std::span<const Regular> parts) const {
  std::vector<uint32_t> flat;
  for (const Regular part : parts) {
    if (get(part).kind == kind) {
      const auto inner = list(part);
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else {
      flat.push_back(id_of(part));
    }
  }
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  return flat;
}

// Merges repeats of the same part: x{0,3} | x{2,5} = x{0,5}.
void RegularPool::merge_repeats(std::vector<uint32_t>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Expression one = get(Regular{parts[i]});
    if (one.kind != Kind::kRepeat) continue;
    for (size_t j = i + 1; j < parts.size(); ++j) {
      const Expression two = get(Regular{parts[j]});
      if (two.kind != Kind::kRepeat || two.a != one.a) continue;
      if (add_bounds(one.c, 1) < two.b || add_bounds(two.c, 1) < one.b) continue;
      parts[i] = id_of(repeat(Regular{one.a}, std::min(one.b, two.b), std::max(one.c, two.c)));
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(j));
      merge_repeats(parts);
      return;
    }
  }
}

Regular RegularPool::choice(Regular a, Regular b) { return choice(std::array{a, b}); }

Regular RegularPool::choice(std::span<const Regular> parts) {
  std::vector<uint32_t> flat = flatten(Kind::kChoice, parts);
  std::erase(flat, id_of(Regular::kNothing));
  CodePointSet together;
  size_t n_sets = 0;
  for (const uint32_t id : flat) {
    if (get(Regular{id}).kind == Kind::kCharacters) {
      together = together | set(get(Regular{id}).a);
      ++n_sets;
    }
  }
  if (n_sets > 1) {
    std::erase_if(flat, [&](uint32_t id) { return get(Regular{id}).kind == Kind::kCharacters; });
    flat.push_back(id_of(characters(together)));
  }
  merge_repeats(flat);
  const auto is_nullable = [&](uint32_t id) {
    return id != id_of(Regular::kEmptyText) && get(Regular{id}).nullable;
  };
  if (std::ranges::any_of(flat, is_nullable)) std::erase(flat, id_of(Regular::kEmptyText));
  if (flat.empty()) return Regular::kNothing;
  if (flat.size() == 1) return Regular{flat.front()};
  std::ranges::sort(flat);
  Expression e{Kind::kChoice, false, false, true, 0, 0, 0, 0};
  const uint32_t everything = id_of(any_text());
  for (const uint32_t id : flat) {
    if (id == everything) return any_text();
    const Expression& part = get(Regular{id});
    e.nullable |= part.nullable;
    e.may_be_dead |= part.may_be_dead;
    e.finite &= part.finite;
    e.depth = std::max(e.depth, part.depth + 1);
  }
  return intern(e, flat);
}

Regular RegularPool::repeat(Regular part, uint32_t min, uint32_t max) {
  if (max < min) return Regular::kNothing;
  if (part == Regular::kNothing) return min == 0 ? Regular::kEmptyText : Regular::kNothing;
  if (part == Regular::kEmptyText || max == 0) return Regular::kEmptyText;
  if (min == 1 && max == 1) return part;
  Expression inner = get(part);
  if (inner.nullable) min = 0;
  if (inner.kind == Kind::kChoice && inner.nullable) {
    std::vector<Regular> rest;
    for (const uint32_t id : list(part)) {
      if (Regular{id} != Regular::kEmptyText) rest.push_back(Regular{id});
    }
    if (rest.size() < list(part).size()) return repeat(choice(rest), min, max);
  }
  if (inner.kind == Kind::kRepeat && inner.b <= 1 && inner.c == kUnbounded) {
    // (x*){m,n} and (x+){m,n} are unbounded repeats of x.
    return repeat(Regular{inner.a}, inner.b == 0 ? 0 : min, kUnbounded);
  }
  inner = get(part);
  return intern({Kind::kRepeat, min == 0, min > 0 && inner.may_be_dead,
                 inner.finite && max != kUnbounded, inner.depth + 1, id_of(part), min, max});
}

Regular RegularPool::intersection(Regular a, Regular b) { return intersection(std::array{a, b}); }

Regular RegularPool::intersection(std::span<const Regular> parts) {
  std::vector<uint32_t> flat = flatten(Kind::kIntersection, parts);
  std::erase(flat, id_of(any_text()));
  // Merges all sets into one, all complements into one, and all repeats of any character into one.
  std::optional<CodePointSet> set_together;
  std::vector<Regular> without;
  uint32_t min = 0, max = kUnbounded;
  const Regular any = any_character();
  std::vector<uint32_t> rest;
  for (const uint32_t id : flat) {
    const Expression& e = get(Regular{id});
    if (e.kind == Kind::kCharacters) {
      set_together = set_together ? *set_together & set(e.a) : set(e.a);
    } else if (e.kind == Kind::kComplement) {
      without.push_back(Regular{e.a});
    } else if (e.kind == Kind::kRepeat && Regular{e.a} == any) {
      min = std::max(min, e.b);
      max = std::min(max, e.c);
    } else {
      rest.push_back(id);
    }
  }
  if (min > max) return Regular::kNothing;
  drop_syntax(rest);
  if (min > 0 || max != kUnbounded) rest.push_back(id_of(repeat(any, min, max)));
  if (set_together) rest.push_back(id_of(characters(*set_together)));
  if (!without.empty()) rest.push_back(id_of(complement(choice(without))));
  std::ranges::sort(rest);
  rest.erase(std::unique(rest.begin(), rest.end()), rest.end());
  std::erase(rest, id_of(any_text()));
  if (rest.empty()) return any_text();
  Expression e{Kind::kIntersection, true, true, false, 0, 0, 0, 0};
  for (const uint32_t id : rest) {
    const Expression& part = get(Regular{id});
    e.nullable &= part.nullable;
    e.finite |= part.finite;
    e.depth = std::max(e.depth, part.depth + 1);
  }
  if (rest.size() == 1) return Regular{rest.front()};
  if (std::ranges::binary_search(rest, id_of(Regular::kNothing))) return Regular::kNothing;
  if (std::ranges::binary_search(rest, id_of(Regular::kEmptyText))) {
    return e.nullable ? Regular::kEmptyText : Regular::kNothing;
  }
  return intern(e, rest);
}

// Removes redundant syntax from an intersection: multiples of a number are plain decimals, and
// multiples of an integer are integers. Without this, finding out whether any text remains would
// take a search.
void RegularPool::drop_syntax(std::vector<uint32_t>& parts) {
  const auto divides = [&](uint32_t id) {
    const Expression& e = get(Regular{id});
    return e.kind == Kind::kDivisible && e.b == 0 && e.c == DecimalDivision::kStart;
  };
  const auto found = std::ranges::find_if(parts, divides);
  if (found == parts.end()) return;
  const Regular multiples{*found};
  const Regular integers = integer_syntax(*this);
  const Regular decimals = decimal_syntax(*this);
  const bool whole = std::erase(parts, id_of(integers)) > 0;
  std::erase(parts, id_of(decimals));
  if (!whole) return;
  // v × 10^n is a multiple of d if v is a multiple of d / gcd(d, 10^n).
  DecimalDivision by = division(get(multiples).a);
  for (; by.n_digits > 0; --by.n_digits) {
    if (by.divisor % 2 == 0) by.divisor /= 2;
    if (by.divisor % 5 == 0) by.divisor /= 5;
  }
  std::erase(parts, id_of(multiples));
  parts.push_back(id_of(divisible(by)));
}

Regular RegularPool::complement(Regular part) {
  const Expression inner = get(part);
  if (inner.kind == Kind::kComplement) return Regular{inner.a};
  if (part == Regular::kNothing) return any_text();
  if (part == any_text()) return Regular::kNothing;
  if (inner.kind == Kind::kRepeat && Regular{inner.a} == any_character()) {
    const Regular any{inner.a};
    const Regular below = inner.b == 0 ? Regular::kNothing : repeat(any, 0, inner.b - 1);
    const Regular above =
        inner.c == kUnbounded ? Regular::kNothing : repeat(any, inner.c + 1, kUnbounded);
    return choice(below, above);
  }
  return intern(
      {Kind::kComplement, !inner.nullable, true, false, inner.depth + 1, id_of(part), 0, 0});
}

Regular RegularPool::mark(uint32_t number) {
  return intern({Kind::kMark, true, false, true, 0, number, 0, 0});
}

Regular RegularPool::compared(const Decimal& bound, uint32_t results) {
  const uint32_t n = base_bounds_ + static_cast<uint32_t>(bounds_.size());
  uint32_t id = 0;
  while (id < n && this->bound(id) != bound) ++id;
  if (id == n) bounds_.push_back(bound);
  return make_compared(id, DecimalComparison::kStart, results);
}

Regular RegularPool::divisible(const DecimalDivision& division) {
  const uint32_t n = base_divisions_ + static_cast<uint32_t>(divisions_.size());
  uint32_t id = 0;
  while (id < n && this->division(id) != division) ++id;
  if (id == n) divisions_.push_back(division);
  return make_divisible(id, {});
}

Regular RegularPool::make_compared(uint32_t bound_id, uint32_t state, uint32_t results) {
  const Decimal& limit = bound(bound_id);
  const bool accepts = (DecimalComparison::at_end(limit, state) & results) != 0;
  if (DecimalComparison::is_settled(limit, state)) {
    return accepts ? any_text() : Regular::kNothing;
  }
  return intern({Kind::kCompared, accepts, true, false, 0, bound_id, state, results});
}

Regular RegularPool::make_divisible(uint32_t division_id, DecimalDivision::State state) {
  const DecimalDivision& by = division(division_id);
  if (!by.is_alive(state)) return Regular::kNothing;
  return intern({Kind::kDivisible, by.accepts(state), false, false, 0, division_id, state.remainder,
                 state.place});
}

std::vector<uint32_t> RegularPool::marks(Regular r) const {
  std::vector<uint32_t> found;
  std::vector<Regular> left = {r};
  while (!left.empty()) {
    const Regular at = left.back();
    left.pop_back();
    const Expression& e = get(at);
    if (!e.nullable) continue;
    if (e.kind == Kind::kMark) found.push_back(e.a);
    if (e.kind == Kind::kSequence) left.insert(left.end(), {Regular{e.a}, Regular{e.b}});
    if (e.kind == Kind::kChoice) {
      for (const uint32_t id : list(at)) left.push_back(Regular{id});
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace kvik::constrain
