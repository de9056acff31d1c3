#include <algorithm>
#include <utility>

#include "constrain/compare/comparer.h"

// Decides whether a node can produce a given value. A value that must equal another one is begun
// only if that is the case.
namespace kvik::constrain {
namespace {

void add_once(std::vector<uint32_t>& list, uint32_t value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

}  // namespace

bool Comparer::takes(Node node, uint32_t value) {
  if (!parts_.node(node).productive) return false;
  if (value == Machine::kForgotten) {
    ask();
    return true;
  }
  const uint64_t key = uint64_t{static_cast<uint32_t>(node)} << 32 | value;
  const auto known = m_.known_takes_.find(key);
  if (known != m_.known_takes_.end()) return known->second;
  if (!spend()) return true;
  m_.known_takes_[key] = false;  // the result for a rule that refers only to itself
  m_.kept_bytes_ += 2 * sizeof(std::pair<uint64_t, bool>);
  ++depth_;
  const bool is_taken = takes_new(parts_.node(node), value);
  --depth_;
  if (m_.exhausted()) {
    m_.known_takes_.erase(key);
    return true;
  }
  m_.known_takes_[key] = is_taken;
  return is_taken;
}

bool Comparer::takes_new(const NodeParts& n, uint32_t value) {
  const ValueKind kind = kind_of(value);
  switch (n.kind) {
    case NodeKind::kText:
      return takes_text(Regular{n.a}, value);
    case NodeKind::kString:
      return kind == ValueKind::kString &&
             pool_.accepts_empty(pool_.step(Regular{n.a}, m_.text_of(parts_of(value)[0])));
    case NodeKind::kRule:
      return takes(*parts_.rules[n.a].body, value);
    case NodeKind::kChoice:
      return std::ranges::any_of(parts_.list(n),
                                 [&](uint32_t id) { return takes(Node{id}, value); });
    case NodeKind::kObject: {
      if (kind != ValueKind::kObject) return false;
      const std::vector<uint32_t> none(parts_.objects[n.a].n_head());
      return completes_object(n.a, m_.lists_.put(none), value, {});
    }
    case NodeKind::kArray: {
      if (kind != ValueKind::kArray) return false;
      const ArrayForm& array = parts_.arrays[n.a];
      const bool has_equal = has_repeated(parts_of(value));
      if ((array.unique && has_equal) || (array.repeated && !has_equal)) return false;
      const std::vector<uint32_t> none(1 + array.counts.size());
      return completes_array(n.a, m_.lists_.put(none), value, 0);
    }
    default:
      return false;  // JSON schemas have no such nodes
  }
}

bool Comparer::takes_text(Regular expr, uint32_t value) {
  switch (kind_of(value)) {
    case ValueKind::kWord: {
      const std::string text = m_.json_of(value);
      return pool_.accepts_empty(pool_.step(expr, std::u32string(text.begin(), text.end())));
    }
    case ValueKind::kNumber:
      return pool_.is_alive(spellings(expr, value));
    default:
      return false;
  }
}

std::vector<Node> Comparer::item_nodes(uint32_t form, size_t place, Node item) const {
  const ArrayForm& array = parts_.arrays[form];
  std::vector<Node> nodes = {item};
  const auto add = [&](Node node) {
    const bool is_new = std::ranges::find(nodes, node) == nodes.end();
    if (is_new && parts_.node(node).productive) nodes.push_back(node);
  };
  if (!array.repeated) return nodes;
  const size_t n = array.first.size();
  for (size_t i = 0; i < std::min(place, n + 1); ++i) add(both_of(array, i, place));
  for (size_t later = place + 1; later <= std::max(n, place + 1); ++later) {
    add(both_of(array, place, later));
  }
  return nodes;
}

bool Comparer::completes_array(uint32_t form, uint32_t list, uint32_t value, size_t place) {
  const auto parts = parts_of(value);
  const Values items(parts.begin(), parts.end());
  Values lists = {list};
  for (; place < items.size() && !lists.empty(); ++place) {
    if (!spend()) return true;
    Values next;
    for (const uint32_t before : lists) {
      for (const Machine::Way& way : m_.item_ways(form, before)) {
        const auto nodes = item_nodes(form, place, way.value);
        const bool may_be =
            std::ranges::any_of(nodes, [&](Node node) { return takes(node, items[place]); });
        if (may_be) add_once(next, way.list);
      }
    }
    lists = std::move(next);
  }
  return std::ranges::any_of(lists, [&](uint32_t end) { return m_.can_close_array(form, end); });
}

// Tries the names in the order of the form, unlisted ones last. If the form has no order, any order
// is allowed, so it is enough to try one.
bool Comparer::completes_object(uint32_t form, uint32_t list, uint32_t value,
                                const Values& record) {
  const ObjectParts& object = parts_.objects[form];
  std::vector<std::pair<size_t, uint32_t>> names;  // each with its rank
  const auto members = parts_of(value);
  for (size_t i = 0; i + 1 < members.size(); i += 2) {
    bool is_written = false;
    for (size_t r = 0; r + 1 < record.size(); r += 2) is_written |= record[r] == members[i];
    if (is_written) continue;
    const auto found = std::ranges::lower_bound(object.names, m_.text_of(members[i]));
    const bool is_named = found != object.names.end() && *found == m_.text_of(members[i]);
    const bool has_rank = is_named && !object.ranks.empty();
    names.emplace_back(has_rank ? object.ranks[static_cast<size_t>(found - object.names.begin())]
                                : object.names.size(),
                       members[i]);
  }
  std::ranges::sort(names);
  Values lists = {list};
  for (const auto& [rank, name] : names) {
    if (!spend()) return true;
    Values next;
    for (const uint32_t before : lists) add_written(form, before, value, name, next);
    lists = std::move(next);
  }
  return std::ranges::any_of(lists,
                             [&](uint32_t end) { return m_.choice_in_order(form, end).can_close; });
}

// Adds the possible states (`lists`) of the object after the property was written.
void Comparer::add_written(uint32_t form, uint32_t list, uint32_t value, uint32_t name,
                           Values& lists) {
  const ObjectParts& object = parts_.objects[form];
  const std::u32string text = m_.text_of(name);
  const Machine::KeyChoice& choice = m_.choice_in_order(form, list);
  Machine::PropertyName property{true, 0, name};
  const auto found = std::ranges::lower_bound(object.names, text);
  if (found != object.names.end() && *found == text) {
    property.place = static_cast<uint32_t>(found - object.names.begin());
    if (!has_bit(choice.allowed, property.place)) return;
  } else {
    const auto kind = std::ranges::find_if(choice.kinds, [&](const auto& one) {
      return pool_.accepts_empty(pool_.step(one.second, text));
    });
    if (kind == choice.kinds.end()) return;
    property = {false, kind->first, name};
  }
  for (const Machine::Way& way : m_.property_ways(form, list, property)) {
    if (takes(way.value, *member(value, name))) add_once(lists, way.list);
  }
}

}  // namespace kvik::constrain
