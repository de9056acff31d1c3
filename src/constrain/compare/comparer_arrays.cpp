#include <algorithm>
#include <utility>

#include "constrain/compare/comparer.h"

// Determines the values that are still possible at each position of an array whose items must all
// be different, or of which two must be equal.
namespace kvik::constrain {
namespace {

// An item whose value is not known: it stands for a value that equals no other one, or its text was
// dropped by within().
constexpr uint32_t kUnknown = ~uint32_t{0};

// Assigns a different column to each row (bipartite matching, Kuhn 1955).
class Matching {
 public:
  explicit Matching(const std::vector<std::vector<uint32_t>>& rows) : rows_(rows) {}

  bool is_complete() {
    for (size_t row = 0; row < rows_.size(); ++row) {
      std::vector<uint32_t> seen;
      if (!place(row, seen)) return false;
    }
    return true;
  }

 private:
  bool place(size_t row, std::vector<uint32_t>& seen) {
    for (const uint32_t column : rows_[row]) {
      if (std::ranges::find(seen, column) != seen.end()) continue;
      seen.push_back(column);
      const auto taken = std::ranges::find(taken_, column, &std::pair<uint32_t, size_t>::first);
      if (taken == taken_.end()) {
        taken_.emplace_back(column, row);
        return true;
      }
      if (!place(taken->second, seen)) continue;
      std::ranges::find(taken_, column, &std::pair<uint32_t, size_t>::first)->second = row;
      return true;
    }
    return false;
  }

  const std::vector<std::vector<uint32_t>>& rows_;
  std::vector<std::pair<uint32_t, size_t>> taken_;
};

}  // namespace

Node Comparer::item_at(const ArrayForm& array, size_t place) const {
  const auto& items = place < array.first.size() ? array.first[place] : array.rest;
  return items.empty() ? Node::kNothing : items.front().value;
}

bool Comparer::has_repeated(std::span<const uint32_t> record) const {
  for (size_t i = 0; i < record.size(); ++i) {
    if (record[i] == kUnknown) continue;
    if (std::ranges::count(record.subspan(i + 1), record[i]) > 0) return true;
  }
  return false;
}

bool Comparer::can_close(const Begun& begun) {
  return m_.can_close_array(begun.form, begun.list) &&
         (!parts_.arrays[begun.form].repeated || has_repeated(begun.record));
}

size_t Comparer::n_needed(const Begun& begun) const {
  const ArrayForm& array = parts_.arrays[begun.form];
  const auto list = m_.lists_.get(begun.list);
  size_t n = array.min > list[0] ? array.min - list[0] : 0;
  for (size_t c = 0; c < array.counts.size(); ++c) {
    n += array.counts[c].min > list[1 + c] ? array.counts[c].min - list[1 + c] : 0;
  }
  if (!array.counts.empty() && array.first.size() > list[0]) n += array.first.size() - list[0];
  return n;
}

// Returns whether the array can be completed with items that differ from each other and from the
// items of the record. An unknown item of the record is assumed to equal none of them.
bool Comparer::reaches_end(Begun begun) {
  if (m_.can_close_array(begun.form, begun.list) || !spend()) return true;
  const ArrayForm& array = parts_.arrays[begun.form];
  if (array.counts.empty()) return finds_places(begun);
  ++depth_;
  bool reached = false;
  const size_t n_values = begun.record.size() + n_needed(begun);
  for (const Machine::Way& way : m_.item_ways(begun.form, begun.list)) {
    if (reached) break;
    if (way.list == begun.list) continue;  // adds nothing that is counted
    SomeValues values = of_node(way.value, n_values);
    if (values.are_many) values.all = {kUnknown};
    for (const uint32_t value : values.all) {
      if (reached) break;
      if (value != kUnknown && std::ranges::count(begun.record, value) > 0) continue;
      Begun longer{begun.form, way.list, begun.record};
      longer.record.push_back(value);
      reached = reaches_end(std::move(longer));
    }
  }
  --depth_;
  return reached;
}

bool Comparer::finds_places(const Begun& begun) {
  const ArrayForm& array = parts_.arrays[begun.form];
  const size_t place = m_.lists_.get(begun.list)[0];
  const size_t n_values = begun.record.size() + (array.min - place);
  std::vector<Values> rows;
  for (size_t i = place; i < array.min; ++i) {
    SomeValues values = of_node(item_at(array, i), n_values);
    if (values.are_many) {
      if (i >= array.first.size()) break;  // all later positions have the same items
      continue;
    }
    std::erase_if(values.all,
                  [&](uint32_t value) { return std::ranges::count(begun.record, value) > 0; });
    // All later positions have the same set of values.
    if (i >= array.first.size() && array.min - i > values.all.size()) return false;
    if (values.all.empty()) return false;
    rows.push_back(std::move(values.all));
    if (!spend()) return true;
  }
  return Matching(rows).is_complete();
}

Comparer::Values Comparer::scarce_values(const Begun& begun) {
  const ArrayForm& array = parts_.arrays[begun.form];
  const size_t n_values = begun.record.size() + n_needed(begun);
  Values found;
  const auto add = [&](const std::vector<ArrayForm::Item>& items) {
    for (const ArrayForm::Item& item : items) {
      const SomeValues values = of_node(item.value, n_values);
      if (!values.are_many) found.insert(found.end(), values.all.begin(), values.all.end());
    }
  };
  for (size_t i = m_.lists_.get(begun.list)[0]; i < array.first.size(); ++i) add(array.first[i]);
  add(array.rest);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Returns the values of the next item after which only forbidden arrays would remain possible.
Comparer::Values Comparer::excluded_items(const Begun& begun, uint32_t list,
                                          const Candidates& candidates) {
  const ArrayForm& array = parts_.arrays[begun.form];
  const size_t place = begun.record.size();
  const auto part = [&](uint32_t value) {
    return value == kUnknown ? kUnknown : parts_of(value)[place];
  };
  Values longer, dead;
  for (const uint32_t value : candidates.values) {
    if (value == kUnknown || parts_of(value).size() > place) longer.push_back(value);
  }
  if (longer.empty()) return dead;
  Begun next{begun.form, list, begun.record};
  next.record.push_back(kUnknown);
  const bool depends_on_items = array.unique || array.repeated;
  if (!depends_on_items && of_array(next, longer.size() + 1).are_many) return dead;
  if (candidates.are_unsure) ask();
  for (const uint32_t one : longer) {
    if (one == kUnknown || std::ranges::count(dead, part(one)) > 0) continue;
    Values alike;
    for (const uint32_t other : longer) {
      if (part(other) == part(one)) alike.push_back(other);
    }
    next.record.back() = part(one);
    if (!exceeds(of_array(next, alike.size() + 1), alike)) dead.push_back(part(one));
  }
  return dead;
}

// Returns the values that the next item must not have, because they are used already or would leave
// too few values for later items; std::nullopt if no value is left.
std::optional<Comparer::Values> Comparer::taken_items(const Begun& begun, uint32_t list) {
  Values taken = begun.record;
  Begun next{begun.form, list, begun.record};
  next.record.push_back(kUnknown);
  if (!reaches_end(next)) return {};
  if (m_.can_close_array(next.form, next.list)) return taken;
  for (const uint32_t value : scarce_values(next)) {
    next.record.back() = value;
    if (!reaches_end(next)) taken.push_back(value);
  }
  return taken;
}

Node Comparer::both_of(const ArrayForm& array, size_t a, size_t b) const {
  const size_t n = array.first.size();
  return array.both[std::min(a, n)][std::min(b, n) - std::min(a, n)];
}

// Returns whether two positions at or after `from` can have the same value.
bool Comparer::may_repeat(uint32_t form, size_t from) const {
  const ArrayForm& array = parts_.arrays[form];
  const size_t end = std::min<size_t>(array.max, std::max(array.first.size(), from) + 2);
  for (size_t a = from; a < end; ++a) {
    for (size_t b = a + 1; b < end; ++b) {
      if (parts_.node(both_of(array, a, b)).productive) return true;
    }
  }
  return false;
}

// Adds ways to read the next item of an array without equal items so far, restricted to the values
// after which two equal items are still possible.
void Comparer::add_repeated_ways(const Begun& begun, const Machine::Way& way,
                                 std::vector<WayWithRule>& ways) {
  const ArrayForm& array = parts_.arrays[begun.form];
  const size_t place = begun.record.size();
  const size_t end = std::min<size_t>(array.max, std::max(array.first.size(), place + 1) + 1);
  const uint32_t any = put_rule(ValueRule::kNone, {});
  bool is_free = may_repeat(begun.form, place + 1);
  Values here;
  for (size_t i = 0; i < place; ++i) {
    const uint32_t value = begun.record[i];
    if (value == kUnknown) continue;
    for (size_t later = place + 1; later < end && !is_free; ++later) {
      is_free = takes(item_at(array, later), value) || takes(both_of(array, i, later), value);
    }
    here.push_back(value);
  }
  if (is_free) {
    ways.push_back({way, any});
    return;
  }
  if (std::ranges::count(begun.record, kUnknown) > 0) ask();
  add_ways_for(begun, way, here, ways);
  for (size_t later = place + 1; later < end; ++later) {
    const Node both = both_of(array, place, later);
    if (parts_.node(both).productive) ways.push_back({{both, way.list}, any});
  }
}

std::vector<Comparer::WayWithRule> Comparer::ways_with_rules(uint32_t form, const Memory& memory) {
  const ArrayForm& array = parts_.arrays[form];
  const auto record = m_.lists_.get(memory.record);
  const Begun begun{form, memory.list, Values(record.begin(), record.end())};
  const Candidates found = candidates(ValueKind::kArray, memory);
  const bool is_some = mode_of(memory.rule) == ValueRule::kSome;
  if (is_some && found.are_unsure) ask();
  std::vector<WayWithRule> ways;
  for (const Machine::Way& way : m_.item_ways(form, memory.list)) {
    if (is_some) {
      Values here;
      for (const uint32_t value : found.values) {
        if (value == kUnknown || parts_of(value).size() <= begun.record.size()) continue;
        if (!completes_array(form, way.list, value, begun.record.size() + 1)) continue;
        here.push_back(parts_of(value)[begun.record.size()]);
      }
      add_ways_for(begun, way, here, ways);
      continue;
    }
    Values not_these;
    if (array.unique) {
      auto taken = taken_items(begun, way.list);
      if (!taken) continue;
      not_these = std::move(*taken);
    }
    const Values dead = excluded_items(begun, way.list, found);
    not_these.insert(not_these.end(), dead.begin(), dead.end());
    std::vector<WayWithRule> options = {{way, put_rule(ValueRule::kNone, {})}};
    if (array.repeated && !has_repeated(begun.record)) {
      options.clear();
      add_repeated_ways(begun, way, options);
    }
    for (const WayWithRule& option : options) add_way_without(option, not_these, ways);
  }
  return ways;
}

// Adds ways to read the next item as one of `values`.
void Comparer::add_ways_for(const Begun& begun, const Machine::Way& way, const Values& values,
                            std::vector<WayWithRule>& ways) {
  for (const Node node : item_nodes(begun.form, begun.record.size(), way.value)) {
    Values possible;
    for (const uint32_t value : values) {
      if (takes(node, value)) possible.push_back(value);
    }
    if (!possible.empty()) ways.push_back({{node, way.list}, put_rule(ValueRule::kSome, possible)});
  }
}

// Adds the way without the values `not_these`, if it has any others.
void Comparer::add_way_without(const WayWithRule& option, const Values& not_these,
                               std::vector<WayWithRule>& ways) {
  if (mode_of(option.rule) == ValueRule::kSome) {
    const auto allowed = values_of(option.rule);
    Values left(allowed.begin(), allowed.end());
    std::erase_if(left, [&](uint32_t value) { return std::ranges::count(not_these, value) > 0; });
    if (!left.empty()) ways.push_back({option.way, put_rule(ValueRule::kSome, std::move(left))});
    return;
  }
  const bool is_left =
      not_these.empty() || exceeds(of_node(option.way.value, not_these.size() + 1), not_these);
  if (is_left) ways.push_back({option.way, put_rule(ValueRule::kNone, not_these)});
}

bool Comparer::is_possible(uint32_t form) {
  const ArrayForm& array = parts_.arrays[form];
  if (array.repeated) return may_repeat(form, 0);
  return reaches_end({form, m_.lists_.put(std::vector<uint32_t>(1 + array.counts.size())), {}});
}

}  // namespace kvik::constrain
