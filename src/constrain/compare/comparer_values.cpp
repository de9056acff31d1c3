#include <algorithm>
#include <array>
#include <utility>

#include "constrain/compare/comparer.h"
#include "constrain/number_syntax.h"

// Enumerates the different values of a node, up to a given number.
namespace kvik::constrain {
namespace {

// The maximum nesting of objects and arrays. Deeper enumeration counts as exceeding the work limit.
constexpr size_t kMaxDepth = 400;
constexpr uint64_t kWorkOfALook = 20;

// Returns a syntax with exactly one text for each number.
Regular number_keys(RegularPool& pool) {
  const auto one = [&](char32_t c) { return pool.characters({{c, c}}); };
  const Regular fraction = pool.sequence(
      one(U'.'),
      pool.sequence(pool.repeat(pool.characters({{U'0', U'9'}}), 0, RegularPool::kUnbounded),
                    pool.characters({{U'1', U'9'}})));
  const Regular whole = pool.intersection(
      decimal_syntax(pool),
      pool.repeat(pool.characters({{U'-', U'-'}, {U'0', U'9'}}), 1, RegularPool::kUnbounded));
  return pool.difference(pool.sequence(whole, pool.optional(fraction)), pool.literal(U"-0"));
}

}  // namespace

bool Comparer::spend() {
  const uint64_t n = std::min(kWorkOfALook, m_.work_left_);
  m_.work_left_ -= n;
  m_.exhausted_ |= n < kWorkOfALook || depth_ > kMaxDepth || pool_.exhausted();
  return !m_.exhausted_;
}

void Comparer::add_value(SomeValues& found, uint32_t value, size_t n) {
  const auto at = std::ranges::lower_bound(found.all, value);
  if (at == found.all.end() || *at != value) found.all.insert(at, value);
  found.are_many |= found.all.size() >= n;
}

SomeValues Comparer::of_node(Node node, size_t n) {
  const auto id = static_cast<uint32_t>(node);
  const NodeParts& parts = parts_.nodes[id];
  if (!parts.productive) return {};
  if (n == 0 || !spend()) return {true, {}};
  const auto cut = [&](SomeValues some) {
    some.are_many |= some.all.size() >= n;
    return some;
  };
  const auto known = m_.known_values_.find(id);
  if (known != m_.known_values_.end() &&
      (!known->second.values.are_many || known->second.n_asked >= n)) {
    return cut(known->second.values);
  }
  // A value may contain values of its own node. Substitutes the values known so far, and the outer
  // call repeats this until no new ones are found.
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].first != id) continue;
    lowest_assumed_ = std::min(lowest_assumed_, i);
    return cut({false, open_[i].second});
  }
  const size_t place = open_.size();
  const size_t lowest_before = std::exchange(lowest_assumed_, ~size_t{0});
  open_.emplace_back(id, Values{});
  SomeValues found;
  while (!m_.exhausted_) {
    found = expand(parts, n);
    if (found.are_many || lowest_assumed_ > place || found.all == open_[place].second) break;
    open_[place].second = found.all;
  }
  open_.pop_back();
  const bool is_independent = lowest_assumed_ >= place;
  if (is_independent && !m_.exhausted_) {
    m_.known_values_[id] = {n, found};
  }
  lowest_assumed_ = std::min(lowest_before, is_independent ? ~size_t{0} : lowest_assumed_);
  return found;
}

SomeValues Comparer::expand(const NodeParts& n, size_t most) {
  ++depth_;
  SomeValues found;
  switch (n.kind) {
    case NodeKind::kText:
      found = of_texts(Regular{n.a}, most);
      break;
    case NodeKind::kString:
      found = of_strings(Regular{n.a}, most);
      break;
    case NodeKind::kRule:
      found = of_node(*parts_.rules[n.a].body, most);
      break;
    case NodeKind::kChoice: {
      // Texts come first, because they are often so numerous that the rest need not be enumerated.
      for (const bool plain : {true, false}) {
        for (const uint32_t id : parts_.list(n)) {
          const NodeKind kind = parts_.nodes[id].kind;
          if (found.are_many || (kind == NodeKind::kText || kind == NodeKind::kString) != plain) {
            continue;
          }
          const SomeValues some = of_node(Node{id}, most);
          found.are_many |= some.are_many;
          for (const uint32_t value : some.all) add_value(found, value, most);
        }
      }
      break;
    }
    case NodeKind::kObject:
      found = of_object(
          {n.a, m_.lists_.put(std::vector<uint32_t>(parts_.objects[n.a].n_head())), {}}, most);
      break;
    case NodeKind::kArray:
      found = of_array(
          {n.a, m_.lists_.put(std::vector<uint32_t>(1 + parts_.arrays[n.a].counts.size())), {}},
          most);
      break;
    default:
      found.are_many = true;  // JSON schemas have no such nodes
  }
  --depth_;
  return found;
}

// Stores all texts of `expr` in `texts`. Returns false if there are n or more.
bool Comparer::enumerate(Regular expr, size_t n, std::vector<std::u32string>& texts) {
  const auto count = pool_.count_texts(expr, static_cast<uint32_t>(n) - 1);
  if (!count) return false;
  std::vector<std::pair<Regular, std::u32string>> left = {{expr, {}}};
  while (!left.empty() && spend()) {
    const auto [at, text] = std::move(left.back());
    left.pop_back();
    if (pool_.accepts_empty(at)) texts.push_back(text);
    pool_.each_next(at, [&](char32_t first, char32_t last) {
      for (char32_t c = first; c <= last; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        left.emplace_back(pool_.step(at, c), text + c);
      }
    });
  }
  return true;
}

SomeValues Comparer::of_texts(Regular expr, size_t n) {
  SomeValues found;
  const Regular plain = pool_.intersection(expr, number_keys(pool_));
  const Regular others = pool_.difference(expr, decimal_syntax(pool_));
  for (const Regular part : {plain, others}) {
    std::vector<std::u32string> texts;
    if (!enumerate(part, n, texts)) {
      found.are_many = true;
      return found;
    }
    for (const std::u32string& text : texts) {
      add_value(found, m_.plain_value(m_.text_number(text)), n);
    }
  }
  return found;
}

SomeValues Comparer::of_strings(Regular expr, size_t n) {
  SomeValues found;
  std::vector<std::u32string> texts;
  found.are_many = !enumerate(expr, n, texts);
  for (const std::u32string& text : texts) {
    add_value(found, m_.string_value(m_.text_number(text)), n);
  }
  return found;
}

SomeValues Comparer::of_object(const Begun& begun, size_t n) {
  SomeValues found;
  add_objects(begun, {}, n, found);
  return found;
}

void Comparer::add_objects(const Begun& begun, const NamePlace& from, size_t n, SomeValues& found) {
  if (!spend()) {
    found.are_many = true;
    return;
  }
  const Machine::KeyChoice& choice = m_.choice_in_order(begun.form, begun.list);
  if (choice.can_close) {
    add_value(found, m_.container_value(ValueKind::kObject, begun.record), n);
  }
  const auto add = [&](const Machine::PropertyName& name, const NamePlace& next) {
    for (const Machine::Way& way : m_.property_ways(begun.form, begun.list, name)) {
      if (found.are_many) return;
      ++depth_;
      const SomeValues values = of_node(way.value, n);
      found.are_many |= values.are_many;
      for (const uint32_t value : values.all) {
        if (found.are_many) break;
        Begun longer{begun.form, way.list, begun.record};
        size_t at = 0;
        while (at < longer.record.size() && longer.record[at] < name.text) at += 2;
        longer.record.insert(longer.record.begin() + static_cast<ptrdiff_t>(at),
                             {name.text, value});
        add_objects(longer, next, n, found);
      }
      --depth_;
    }
  };
  const ObjectParts& object = parts_.objects[begun.form];
  // Unlisted names come first, because they may be so numerous that the rest need not be
  // enumerated.
  for (const auto& [kind, names] : choice.kinds) {
    std::vector<std::u32string> texts;
    if (!enumerate(names, n, texts)) found.are_many = true;
    std::ranges::sort(texts);
    for (const std::u32string& text : texts) {
      if (found.are_many) return;
      if (from.is_after_other && text <= from.other) continue;
      add({false, kind, m_.text_number(text)},
          {static_cast<uint32_t>(object.names.size()), text, true});
    }
  }
  for (uint32_t i = from.named; i < object.names.size() && !found.are_many; ++i) {
    if (!has_bit(choice.allowed, i)) continue;
    // In an ordered object the allowed names all follow the previous ones, so the search starts at
    // the first name.
    const uint32_t next = object.ranks.empty() ? i + 1 : 0;
    add({true, i, m_.text_number(object.names[i])}, {next, {}, false});
  }
}

SomeValues Comparer::of_array(const Begun& begun, size_t n) {
  SomeValues found;
  add_arrays(begun, n, found);
  return found;
}

void Comparer::add_arrays(const Begun& begun, size_t n, SomeValues& found) {
  if (!spend()) {
    found.are_many = true;
    return;
  }
  const ArrayForm& array = parts_.arrays[begun.form];
  if (can_close(begun)) {
    add_value(found, m_.container_value(ValueKind::kArray, begun.record), n);
  }
  const bool lacks_repeated = array.repeated && !has_repeated(begun.record);
  for (const Machine::Way& way : m_.item_ways(begun.form, begun.list)) {
    std::vector<WayWithRule> options = {{way, put_rule(ValueRule::kNone, {})}};
    if (lacks_repeated) {
      options.clear();
      add_repeated_ways(begun, way, options);
    }
    for (const WayWithRule& option : options) {
      if (found.are_many) return;
      ++depth_;
      add_longer(begun, option, n, found);
      --depth_;
    }
  }
}

// Adds the arrays that have one more item, read in the given way.
void Comparer::add_longer(const Begun& begun, const WayWithRule& option, size_t n,
                          SomeValues& found) {
  const bool is_unique = parts_.arrays[begun.form].unique;
  Begun longer{begun.form, option.way.list, begun.record};
  longer.record.push_back(~uint32_t{0});
  // If items must be unique, this includes as many additional values as other positions may use or
  // need.
  const size_t n_items = is_unique ? begun.record.size() + n + n_needed(longer) : n;
  SomeValues values;
  if (mode_of(option.rule) == ValueRule::kSome) {
    const auto allowed = values_of(option.rule);
    values.all.assign(allowed.begin(), allowed.end());
  } else {
    values = of_node(option.way.value, n_items);
  }
  if (is_unique && !reaches_end(longer)) return;
  // An unbounded array has a different value for each length.
  const bool loops = !is_unique && option.way.list == begun.list && !values.all.empty() &&
                     mode_of(option.rule) == ValueRule::kNone;
  found.are_many |= values.are_many || loops;
  for (const uint32_t value : values.all) {
    if (found.are_many) return;
    const bool is_taken = is_unique && std::ranges::count(begun.record, value) > 0;
    longer.record.back() = value;
    if (is_taken || (is_unique && !reaches_end(longer))) continue;
    add_arrays(longer, n, found);
  }
}

}  // namespace kvik::constrain
