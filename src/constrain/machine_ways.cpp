#include <algorithm>

#include "constrain/machine.h"

// Continuations of an object or array: what may be read next, and the resulting list.
namespace kvik::constrain {

Regular Machine::join_kinds(std::span<const std::pair<uint32_t, Regular>> kinds) {
  std::vector<Regular> marked;
  for (const auto& [kind, names] : kinds) {
    marked.push_back(pool_.sequence(names, pool_.mark(kind)));
  }
  return pool_.choice(marked);
}

const Machine::KeyChoice& Machine::choice_in_order(uint32_t form, uint32_t list) {
  return parts_->objects[form].ranks.empty() ? key_choice(form, list)
                                             : ordered_key_choice(form, list);
}

const Machine::KeyChoice& Machine::ordered_key_choice(uint32_t form, uint32_t list) {
  const uint64_t key = uint64_t{form} << 32 | list;
  auto found = ordered_key_choices_.find(key);
  if (found == ordered_key_choices_.end()) {
    KeyChoice made = key_choice(form, list);
    keep_order(parts_->objects[form], lists_.get(list), made);
    found = ordered_key_choices_.emplace(key, std::move(made)).first;
    kept_bytes_ += kEntryBytes + bytes_of(found->second);
  }
  depends_on_forgotten_ |= found->second.has_forgotten;
  return found->second;
}

// Removes the properties that come before one already written or after one still missing.
void Machine::keep_order(const ObjectParts& object, std::span<const uint32_t> list,
                         KeyChoice& choice) {
  const size_t n = object.names.size();
  const auto seen = list.subspan(1, object.n_words());
  const bool has_others = list.size() > object.n_head();
  uint32_t least = 0;                    // lowest rank that may come next
  auto most = static_cast<uint32_t>(n);  // highest one: that of the first missing property
  for (size_t i = 0; i < n; ++i) {
    if (has_bit(seen, i)) least = std::max(least, object.ranks[i] + 1);
  }
  const auto miss = [&](size_t i) {
    if (!has_bit(seen, i)) most = std::min(most, object.ranks[i]);
  };
  for (size_t i = 0; i < n; ++i) {
    if (has_bit(object.required, i)) miss(i);
    for (size_t j = 0; j < n && has_bit(seen, i) && !object.needs[i].empty(); ++j) {
      if (has_bit(object.needs[i], j)) miss(j);
    }
  }
  // Returns whether a property needs one that was skipped, so that it can no longer occur.
  const auto lacks = [&](size_t i) {
    for (size_t j = 0; j < n && !object.needs[i].empty(); ++j) {
      if (has_bit(object.needs[i], j) && !has_bit(seen, j) && object.ranks[j] < object.ranks[i]) {
        return true;
      }
    }
    return false;
  };
  // Returns whether the later properties suffice to reach the minimum.
  const auto is_enough = [&](size_t i) {
    uint32_t n_more = list[0] + 1;
    for (size_t j = 0; j < n && n_more < object.min; ++j) {
      const bool may_follow = object.ranks[j] > object.ranks[i];
      if (may_follow && parts_->node(object.values[j]).productive) ++n_more;
    }
    return n_more >= object.min;
  };
  for (size_t i = 0; i < n; ++i) {
    if (!has_bit(choice.allowed, i)) continue;
    const uint32_t rank = object.ranks[i];
    if (!has_others && rank >= least && rank <= most && !lacks(i) && is_enough(i)) continue;
    choice.allowed[i / 32] &= ~(1u << i % 32);
  }
  if (most < n) {
    choice.kinds.clear();
    choice.others = Regular::kNothing;
  }
  choice.can_open = choice.others != Regular::kNothing ||
                    std::ranges::any_of(choice.allowed, [](uint32_t word) { return word != 0; });
}

std::vector<Machine::Way> Machine::property_ways(uint32_t form, uint32_t list,
                                                 const PropertyName& name) {
  const ObjectParts& object = parts_->objects[form];
  const auto before = lists_.get(list);
  std::vector<uint32_t> after(before.begin(), before.end());
  if (name.is_named) {
    set_bit(std::span(after).subspan(1), name.place);
  } else {
    const auto names = after.begin() + static_cast<ptrdiff_t>(object.n_head());
    after.insert(std::upper_bound(names, after.end(), name.text), name.text);
  }
  const Node value = name.is_named ? object.values[name.place] : object.others[name.place].value;
  const auto& also = name.is_named ? object.also[name.place] : object.others[name.place].also;
  if (object.max != RegularPool::kUnbounded || after[0] < object.min) ++after[0];
  std::vector<Way> ways;
  const auto add = [&](Node node) {
    const uint32_t number = lists_.put(after);
    if (object.n_witnesses > 0) {
      const KeyChoice& next = key_choice(form, number);
      if ((!next.can_close && !next.can_open) || !parts_->node(node).productive) return;
    }
    ways.push_back({node, number});
  };
  add(value);
  for (const auto& [node, is] : also) {
    const size_t witnesses = 1 + object.n_words();
    const uint32_t had = after[witnesses];
    if ((had | is) == had) continue;  // no different from an ordinary value
    after[witnesses] |= is;
    add(node);
    after[witnesses] = had;
  }
  return ways;
}

bool Machine::can_close_array(uint32_t form, uint32_t list) const {
  const ArrayForm& array = parts_->arrays[form];
  const auto counts = lists_.get(list);
  if (counts[0] < array.min) return false;
  for (size_t c = 0; c < array.counts.size(); ++c) {
    if (counts[1 + c] < array.counts[c].min) return false;
  }
  return true;
}

bool Machine::may_count(const ArrayForm& array, size_t place, uint32_t count,
                        uint32_t n_needed) const {
  for (; n_needed > 0; ++place) {
    if (place >= array.max) return false;
    const bool is_rest = place >= array.first.size();
    const auto& items = is_rest ? array.rest : array.first[place];
    const bool counts = std::ranges::any_of(items, [&](const ArrayForm::Item& item) {
      return (item.counts >> count & 1) != 0 && parts_->node(item.value).productive;
    });
    if (is_rest) return counts && n_needed <= array.max - place;
    if (counts) --n_needed;
  }
  return true;
}

std::vector<Machine::Way> Machine::item_ways(uint32_t form, uint32_t list) {
  const ArrayForm& array = parts_->arrays[form];
  const auto stored = lists_.get(list);
  const std::vector<uint32_t> before(stored.begin(), stored.end());
  std::vector<Way> ways;
  if (before[0] >= array.max) return ways;
  const uint32_t place = before[0];
  const auto& items = place < array.first.size() ? array.first[place] : array.rest;
  for (const ArrayForm::Item& item : items) {
    if (!parts_->node(item.value).productive) continue;
    std::vector<uint32_t> after = before;
    const bool counts_on = array.max != RegularPool::kUnbounded ||
                           place < std::max<size_t>(array.first.size(), array.min);
    if (counts_on) ++after[0];
    bool possible = true;
    // whether it is an ordinary item or affects a count that still matters
    bool tells = item.counts == 0;
    for (size_t c = 0; c < array.counts.size(); ++c) {
      const auto [min, max] = array.counts[c];
      const bool adds = (item.counts >> c & 1) != 0;
      if (adds && (max != RegularPool::kUnbounded || before[1 + c] < min)) {
        ++after[1 + c];
        tells = true;
      }
      const uint32_t n_needed = after[1 + c] < min ? min - after[1 + c] : 0;
      possible &= after[1 + c] <= max &&
                  may_count(array, size_t{place} + 1, static_cast<uint32_t>(c), n_needed);
    }
    if (possible && tells) ways.push_back({item.value, lists_.put(after)});
  }
  return ways;
}

}  // namespace kvik::constrain
