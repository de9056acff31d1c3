#include <algorithm>

#include "constrain/number_syntax.h"
#include "constrain/schema/shape_maker.h"

namespace kvik::constrain {
namespace {

// maximum depth in properties and items to which is_empty() looks
constexpr int kMaxDepth = 3;

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void add_rules(Conjunction& to, const Conjunction& more) {
  append(to, more);
  std::ranges::sort(to);
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

// Returns the number of parts of a shape. Copying each takes one or two steps of work.
uint64_t n_parts(const Shape& shape) {
  const Evaluated& seen = shape.evaluated;
  uint64_t n = 8 + shape.some.size() + shape.order.size() + shape.required.size() +
               shape.needs.size() + shape.items.size() + shape.contains.size() + seen.names.size() +
               seen.mentioned.size() + seen.patterns.size();
  for (const ObjectRules& rules : shape.object) {
    n += 2 + 2 * rules.named.size() + rules.patterns.size();
  }
  for (const ItemRules& rules : shape.items) n += rules.first.size();
  return n;
}

}  // namespace

Result<Shapes> ShapeMaker::join(const Shapes& a, const Shapes& b) {
  Shapes both;
  for (const Shape& one : a) {
    for (const Shape& other : b) {
      if (auto joined = join(one, other)) both.push_back(std::move(*joined));
      if (pool_.exhausted()) return too_large();
      if (both.size() > kMaxShapes) {
        return fail(ErrorCode::kUnsupported,
                    "#: allOf, anyOf and oneOf have too many combinations");
      }
    }
  }
  // Removes impossible cases, which would be multiplied by all later ones.
  constexpr size_t kMany = 8;
  // This check may join other shapes, which must not be pruned in turn.
  if (both.size() > kMany && !is_pruning_) {
    is_pruning_ = true;
    std::erase_if(both, [this](const Shape& shape) { return is_empty(shape, 0); });
    is_pruning_ = false;
  }
  return both;
}

std::optional<Shape> ShapeMaker::join(const Shape& a, const Shape& b) {
  const uint8_t types = a.types & b.types;
  if (types == 0) return {};
  pool_.spend(n_parts(a) + n_parts(b) + a.order.size() * b.order.size() / 4);
  Shape made = a;
  made.types = types;
  made.string = pool_.intersection(a.string, b.string);
  made.number = pool_.intersection(a.number, b.number);
  made.number_style.are_integers |= b.number_style.are_integers;
  made.number_style.has_wide_divisor |= b.number_style.has_wide_divisor;
  made.number_style.written = pool_.intersection(a.number_style.written, b.number_style.written);
  made.names = pool_.intersection(a.names, b.names);
  append(made.object, b.object);
  append(made.some, b.some);
  for (const std::string& name : b.order) {
    if (std::ranges::find(a.order, name) == a.order.end()) made.order.push_back(name);
  }
  made.required.insert(b.required.begin(), b.required.end());
  for (const auto& [name, needed] : b.needs) made.needs[name].insert(needed.begin(), needed.end());
  made.min_properties = std::max(a.min_properties, b.min_properties);
  made.max_properties = std::min(a.max_properties, b.max_properties);
  append(made.items, b.items);
  append(made.contains, b.contains);
  made.min_items = std::max(a.min_items, b.min_items);
  made.max_items = std::min(a.max_items, b.max_items);
  made.unique |= b.unique;
  made.repeated |= b.repeated;
  Evaluated& seen = made.evaluated;
  seen.all_names |= b.evaluated.all_names;
  seen.lists_names |= b.evaluated.lists_names;
  seen.names.insert(b.evaluated.names.begin(), b.evaluated.names.end());
  seen.mentioned.insert(b.evaluated.mentioned.begin(), b.evaluated.mentioned.end());
  append(seen.patterns, b.evaluated.patterns);
  seen.all_items |= b.evaluated.all_items;
  seen.n_items = std::max(seen.n_items, b.evaluated.n_items);
  if (!clean(made)) return {};
  return made;
}

// Removes types without values from a shape. Returns false if no type is left.
bool ShapeMaker::clean(Shape& shape) {
  const auto drop = [&](Shape::Type type) { shape.types &= static_cast<uint8_t>(~type); };
  if ((shape.types & Shape::kString) != 0 && !pool_.is_alive(shape.string)) drop(Shape::kString);
  if ((shape.types & Shape::kNumber) != 0 && shape.number != pool_.any_text()) {
    const Regular numbers = pool_.intersection(decimal_syntax(pool_), shape.number);
    if (!pool_.is_alive(numbers)) drop(Shape::kNumber);
  }
  if ((shape.types & Shape::kObject) != 0) {
    const bool too_many =
        shape.min_properties > shape.max_properties || shape.required.size() > shape.max_properties;
    if (too_many) drop(Shape::kObject);
  }
  if (shape.min_items > shape.max_items || (shape.unique && shape.repeated)) drop(Shape::kArray);
  return shape.types != 0;
}

void ShapeMaker::mention_required(Shapes& shapes) {
  const auto is_listed = [this](const Shape& shape, const std::string& name) {
    const Evaluated& seen = shape.evaluated;
    if (seen.names.contains(name) || seen.mentioned.contains(name)) return true;
    const std::u32string characters = to_characters(name);
    return std::ranges::any_of(seen.patterns, [&](Regular names) {
      return pool_.accepts_empty(pool_.step(names, characters));
    });
  };
  const auto is_object = [](const Shape& shape) { return (shape.types & Shape::kObject) != 0; };
  for (const Shape& shape : shapes) {
    const auto is_its = [&](const std::string& name) { return is_listed(shape, name); };
    if (is_object(shape) && std::ranges::all_of(shape.required, is_its)) return;
  }
  for (Shape& shape : shapes) {
    if (!is_object(shape)) continue;
    shape.evaluated.mentioned.insert(shape.required.begin(), shape.required.end());
  }
}

Conjunction ShapeMaker::rules_for(const Shape& shape, const std::string& name) {
  Conjunction all;
  const std::u32string characters = to_characters(name);
  if (!pool_.accepts_empty(pool_.step(shape.names, characters))) return {never()};
  pool_.spend(2 * shape.object.size());
  for (const ObjectRules& rules : shape.object) {
    const auto named = rules.named.find(name);
    bool is_known = named != rules.named.end();
    if (is_known) add_rules(all, named->second);
    for (const auto& [names, conjunction] : rules.patterns) {
      if (!pool_.accepts_empty(pool_.step(names, characters))) continue;
      is_known = true;
      add_rules(all, conjunction);
    }
    if (!is_known) add_rules(all, rules.others);
  }
  return all;
}

bool ShapeMaker::is_empty(const Conjunction& conjunction, int depth) {
  if (conjunction.empty()) return false;
  if (std::ranges::binary_search(conjunction, never())) return true;
  if (depth >= kMaxDepth) return false;
  if (const auto found = empty_.find(conjunction); found != empty_.end()) return found->second;
  // The schema refers to itself, so nothing is certain.
  for (const Literal literal : conjunction) {
    if (progress_[literal] == Progress::kOpen) return false;
  }
  const size_t n_left_out = left_out_.size();
  const auto shapes = shapes_of(conjunction);
  left_out_.resize(n_left_out);
  const bool empty = shapes && std::ranges::all_of(*shapes, [&](const Shape& shape) {
                       return is_empty(shape, depth + 1);
                     });
  if (empty || depth <= 1) empty_[conjunction] = empty;
  return empty;
}

bool ShapeMaker::is_empty(const Shape& shape, int depth) {
  constexpr uint8_t kScalars =
      Shape::kNull | Shape::kFalse | Shape::kTrue | Shape::kNumber | Shape::kString;
  if ((shape.types & kScalars) != 0) return false;
  if ((shape.types & Shape::kArray) != 0) {
    bool possible = true;
    for (size_t i = 0; i < std::min<size_t>(shape.min_items, 4) && possible; ++i) {
      Conjunction item;
      for (const ItemRules& rules : shape.items) {
        add_rules(item, i < rules.first.size() ? rules.first[i] : rules.rest);
      }
      possible = !is_empty(item, depth + 1);
    }
    if (possible) return false;
  }
  if ((shape.types & Shape::kObject) == 0) return true;
  const bool lacks_required = std::ranges::any_of(shape.required, [&](const std::string& name) {
    return is_empty(rules_for(shape, name), depth + 1);
  });
  return lacks_required || std::ranges::any_of(shape.some, [&](const SomeProperty& some) {
           return !may_have(shape, some, depth);
         });
}

// Returns whether an object of the shape may have such a property. False is certain, true is not.
bool ShapeMaker::may_have(const Shape& shape, const SomeProperty& some, int depth) {
  std::set<std::string> named;
  for (const ObjectRules& rules : shape.object) {
    for (const auto& [name, conjunction] : rules.named) named.insert(name);
  }
  std::vector<std::u32string> names;
  for (const std::string& name : named) {
    names.push_back(to_characters(name));
    if (!pool_.accepts_empty(pool_.step(some.names, names.back()))) continue;
    Conjunction rules = rules_for(shape, name);
    add_rules(rules, some.rules);
    if (!is_empty(rules, depth + 1)) return true;
  }
  // The property may also have a name that is not listed. If only patterns are allowed, the name
  // must match one of them.
  Regular others = pool_.intersection(shape.names, some.names);
  others = pool_.difference(others, pool_.one_of(std::move(names)));
  for (const ObjectRules& rules : shape.object) {
    if (!is_empty(rules.others, depth + 1)) continue;
    std::vector<Regular> patterns;
    for (const auto& [names, conjunction] : rules.patterns) patterns.push_back(names);
    others = pool_.intersection(others, pool_.choice(patterns));
  }
  return pool_.is_alive(others);
}

}  // namespace kvik::constrain
