#include "constrain/finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "constrain/compare/comparer.h"
#include "constrain/grammar_parts.h"
#include "constrain/object_needs.h"

namespace kvik::constrain {
namespace {

// Limits of the passes over all nodes until nothing changes. Few are needed, because parts mostly
// precede the nodes that contain them.
constexpr size_t kMinPasses = 8, kMaxVisits = 4'000'000;

size_t count_bits(std::span<const uint32_t> words) {
  size_t n = 0;
  for (const uint32_t word : words) n += static_cast<size_t>(std::popcount(word));
  return n;
}

class Finisher {
 public:
  explicit Finisher(GrammarParts& parts) : parts_(parts) {}

  Result<void> run() {
    if (exhausted()) return too_large();
    for (const Rule& rule : parts_.rules) {
      if (rule.body) continue;
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("rule {} is used and never defined", rule.name));
    }
    sort_objects();
    TRY(settle([this](NodeParts& node) { return find_nullable(node); }));
    TRY(reject_left_recursion());
    TRY(find_all_productive());
    if (exhausted()) return too_large();
    if (!is_productive(parts_.start)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the schema or grammar is unsatisfiable: no text matches it");
    }
    return {};
  }

 private:
  bool exhausted() const { return parts_.exhausted || parts_.pool.exhausted(); }

  static std::unexpected<Error> too_large() {
    return fail(ErrorCode::kInvalidArgument,
                "the schema or grammar is too large or too deeply nested");
  }

  NodeParts& node(uint32_t id) { return parts_.nodes[id]; }
  bool is_productive(Node n) { return node(id_of(n)).productive; }

  template <class Find>
  Result<void> settle(const Find& find) {
    const size_t n_passes = std::max<size_t>(kMinPasses, kMaxVisits / parts_.nodes.size());
    for (size_t pass = 0; pass < n_passes; ++pass) {
      bool changed = false;
      for (NodeParts& node : parts_.nodes) changed |= find(node);
      if (!changed) return {};
    }
    return too_large();
  }

  // Determines which nodes can produce a text. This repeats until nothing changes: the possible
  // items decide whether an array can have enough distinct items, and an impossible array makes
  // others impossible.
  Result<void> find_all_productive() {
    constexpr int kMaxRounds = 16;
    for (int round = 0; round < kMaxRounds; ++round) {
      for (NodeParts& node : parts_.nodes) node.productive = false;
      TRY(settle([this](NodeParts& node) { return find_productive(node); }));
      for (ArrayForm& array : parts_.arrays) shorten(array);
      std::vector<uint32_t> open;
      for (uint32_t i = 0; i < parts_.arrays.size(); ++i) {
        const ArrayForm& array = parts_.arrays[i];
        const bool needs_others =
            array.repeated || (array.unique && (array.min > 1 || !array.counts.empty()));
        if (needs_others && array.min <= array.max) open.push_back(i);
      }
      if (open.empty() || exhausted()) return {};
      // The machine reads parts_, so it must be destroyed before they change.
      Machine machine(std::shared_ptr<const GrammarParts>(std::shared_ptr<void>(), &parts_));
      machine.allow_work(parts_.limits.max_work);
      bool changed = false;
      for (const uint32_t i : open) {
        if (Comparer(machine).is_possible(i)) continue;
        parts_.arrays[i].min = 1;
        parts_.arrays[i].max = 0;
        changed = true;
      }
      if (machine.exhausted()) {
        parts_.is_out_of_work = true;
        return too_large();
      }
      if (!changed) return {};
    }
    return too_large();
  }

  bool find_nullable(NodeParts& n) {
    if (n.nullable) return false;
    switch (n.kind) {
      case NodeKind::kEmptyText:
        return n.nullable = true;
      case NodeKind::kText:
        return n.nullable = parts_.pool.accepts_empty(Regular{n.a});
      case NodeKind::kSequence:
        return n.nullable = node(n.a).nullable && node(n.b).nullable;
      case NodeKind::kChoice:
        return n.nullable = std::ranges::any_of(parts_.list(n),
                                                [&](uint32_t id) { return node(id).nullable; });
      case NodeKind::kRepeat:
        return n.nullable = n.b == 0 || node(n.a).nullable;
      case NodeKind::kRule:
        return n.nullable = node(id_of(*parts_.rules[n.a].body)).nullable;
      default:
        return false;
    }
  }

  bool find_productive(NodeParts& n) {
    if (n.productive) return false;
    switch (n.kind) {
      case NodeKind::kNothing:
        return false;
      case NodeKind::kEmptyText:
        return n.productive = true;
      case NodeKind::kText:
      case NodeKind::kString:
        return n.productive = parts_.pool.is_alive(Regular{n.a});
      case NodeKind::kSequence:
        return n.productive = node(n.a).productive && node(n.b).productive;
      case NodeKind::kChoice:
        return n.productive = std::ranges::any_of(parts_.list(n),
                                                  [&](uint32_t id) { return node(id).productive; });
      case NodeKind::kRepeat:
        return n.productive = n.b == 0 || node(n.a).productive;
      case NodeKind::kRule:
        return n.productive = is_productive(*parts_.rules[n.a].body);
      case NodeKind::kObject:
        return n.productive = is_productive_object(parts_.objects[n.a]);
      case NodeKind::kArray:
        return n.productive = is_productive_array(parts_.arrays[n.a]);
    }
    return false;
  }

  void sort_objects() {
    for (ObjectForm& form : parts_.object_forms) {
      std::vector<uint32_t> order(form.properties.size());
      for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::sort(
          order, {}, [&](uint32_t i) -> const auto& { return form.properties[i].name; });
      std::vector<uint32_t> place(order.size());
      for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
      ObjectParts made;
      made.required.assign((order.size() + 31) / 32, 0);
      made.needs.resize(order.size());
      for (const uint32_t i : order) {
        ObjectForm::Property& property = form.properties[i];
        if (property.required) set_bit(made.required, made.names.size());
        auto& needs = made.needs[made.names.size()];
        if (!property.needs.empty()) needs.assign(made.required.size(), 0);
        for (const uint32_t other : property.needs) set_bit(needs, place[other]);
        made.names.push_back(std::move(property.name));
        made.values.push_back(property.value);
        made.also.push_back(std::move(property.also));
      }
      made.n_witnesses = form.n_witnesses;
      if (can_be_ordered(form)) made.ranks = order;
      made.min = form.min;
      made.max = form.max;
      const Regular named = parts_.pool.one_of(made.names);
      for (ObjectForm::Others& others : form.others) {
        const Regular rest = parts_.pool.difference(others.names, named);
        if (parts_.pool.is_alive(rest)) {
          made.others.push_back({rest, others.value, std::move(others.also)});
        }
      }
      close_needs(made);
      parts_.objects.push_back(std::move(made));
    }
    parts_.object_forms.clear();
  }

  // Returns whether the order of properties can be enforced such that no prefix of an object is a
  // dead end: the minimum must not depend on which properties were skipped, or only on their
  // number.
  static bool can_be_ordered(const ObjectForm& form) {
    if (!form.ordered || form.n_witnesses > 0) return false;
    const auto n_required = std::ranges::count_if(form.properties, &ObjectForm::Property::required);
    if (static_cast<size_t>(n_required) >= form.min) return true;
    const bool has_needs = std::ranges::any_of(
        form.properties, [](const ObjectForm::Property& one) { return !one.needs.empty(); });
    return !has_needs && form.others.empty();
  }

  // Replaces `needs` by its transitive closure.
  static void close_needs(ObjectParts& object) {
    const auto add = [&](std::vector<uint32_t>& all, const std::vector<uint32_t>& more) {
      bool changed = false;
      for (size_t w = 0; w < more.size(); ++w) {
        changed |= (more[w] & ~all[w]) != 0;
        all[w] |= more[w];
      }
      return changed;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < object.names.size(); ++i) {
        for (size_t j = 0; j < object.names.size() && !object.needs[i].empty(); ++j) {
          if (has_bit(object.needs[i], j)) changed |= add(object.needs[i], object.needs[j]);
        }
        if (has_bit(object.required, i)) changed |= add(object.required, object.needs[i]);
      }
    }
  }

  // Returns whether any object matches. A property is possible if its value and the values of all
  // properties that it needs are possible.
  bool is_productive_object(const ObjectParts& object) {
    if (count_bits(object.required) > object.max || object.min > object.max) return false;
    uint64_t n_possible = 0;
    for (size_t i = 0; i < object.names.size(); ++i) {
      if (is_possible(object, i)) {
        ++n_possible;
      } else if (has_bit(object.required, i)) {
        return false;
      }
    }
    const std::vector<uint32_t> none(object.n_words());
    const auto n = n_needed(parts_, object, {none, object.required, 0});
    if (!n || *n > object.max) return false;
    for (const auto& [names, value, also] : object.others) {
      if (!is_productive(value) || n_possible >= object.min) continue;
      n_possible += parts_.pool.count_texts(names, object.min).value_or(object.min);
    }
    return n_possible >= object.min;
  }

  bool is_possible(const ObjectParts& object, size_t i) {
    if (!is_productive(object.values[i])) return false;
    for (size_t j = 0; j < object.names.size() && !object.needs[i].empty(); ++j) {
      if (has_bit(object.needs[i], j) && !is_productive(object.values[j])) return false;
    }
    return true;
  }

  bool any_productive(const std::vector<ArrayForm::Item>& items, uint32_t counting) {
    return std::ranges::any_of(items, [&](const ArrayForm::Item& item) {
      return is_productive(item.value) && (item.counts & counting) == counting;
    });
  }

  const std::vector<ArrayForm::Item>& items_at(const ArrayForm& array, size_t place) {
    return place < array.first.size() ? array.first[place] : array.rest;
  }

  bool is_productive_array(const ArrayForm& array) {
    if (array.min > array.max) return false;
    uint64_t n_needed = array.min;
    for (const auto& [min, max] : array.counts) n_needed = std::max<uint64_t>(n_needed, min);
    if (n_needed > array.max) return false;
    for (size_t i = 0; i < std::min<uint64_t>(n_needed, array.first.size() + 1); ++i) {
      if (!any_productive(items_at(array, i), 0)) return false;
    }
    for (size_t c = 0; c < array.counts.size(); ++c) {
      if (!can_count(array, 1u << c, array.counts[c].min)) return false;
    }
    return true;
  }

  // Returns whether the array can contain `n` items that count for `counting`.
  bool can_count(const ArrayForm& array, uint32_t counting, uint64_t n) {
    uint64_t n_found = 0;
    for (size_t i = 0; i <= array.first.size() && n_found < n; ++i) {
      if (i >= array.max || !any_productive(items_at(array, i), 0)) break;
      if (!any_productive(items_at(array, i), counting)) continue;
      n_found += i == array.first.size() ? array.max - i : 1;
    }
    return n_found >= n;
  }

  // Limits the length of an array so that it ends before its first impossible item.
  void shorten(ArrayForm& array) {
    for (size_t i = 0; i <= array.first.size(); ++i) {
      if (any_productive(items_at(array, i), 0)) continue;
      array.max = std::min(array.max, static_cast<uint32_t>(i));
      return;
    }
  }

  // Rejects rules that refer to themselves before a character is read.
  Result<void> reject_left_recursion() {
    enum class Color : uint8_t { kWhite, kGrey, kBlack };
    std::vector<Color> colors(parts_.nodes.size(), Color::kWhite);
    std::vector<uint32_t> left;
    std::vector<uint32_t> edges;
    for (uint32_t root = 0; root < parts_.nodes.size(); ++root) {
      if (colors[root] == Color::kWhite) left.push_back(root);
      while (!left.empty()) {
        const uint32_t at = left.back();
        if (colors[at] != Color::kWhite) {
          colors[at] = Color::kBlack;
          left.pop_back();
          continue;
        }
        colors[at] = Color::kGrey;
        edges.clear();
        left_edges(node(at), edges);
        for (const uint32_t to : edges) {
          if (colors[to] == Color::kGrey) return left_recursion(to);
          if (colors[to] == Color::kWhite) left.push_back(to);
        }
      }
    }
    return {};
  }

  void left_edges(const NodeParts& n, std::vector<uint32_t>& edges) {
    switch (n.kind) {
      case NodeKind::kSequence:
        edges.push_back(n.a);
        if (node(n.a).nullable) edges.push_back(n.b);
        return;
      case NodeKind::kChoice:
        edges.insert(edges.end(), parts_.list(n).begin(), parts_.list(n).end());
        return;
      case NodeKind::kRepeat:
        edges.push_back(n.a);
        return;
      case NodeKind::kRule:
        edges.push_back(id_of(*parts_.rules[n.a].body));
        return;
      default:
        return;
    }
  }

  std::unexpected<Error> left_recursion(uint32_t id) {
    const NodeParts& n = node(id);
    std::string_view name;
    if (n.kind == NodeKind::kRule) name = parts_.rules[n.a].name;
    for (const Rule& rule : parts_.rules) {
      if (name.empty() && id_of(*rule.body) == id) name = rule.name;
    }
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("rule {} begins with itself; expected a character before it does",
                            name.empty() ? "of the grammar" : name));
  }

  GrammarParts& parts_;
};

}  // namespace

Result<void> finish_parts(GrammarParts& parts) { return Finisher(parts).run(); }

}  // namespace kvik::constrain
