#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "constrain/regular.h"

namespace kvik::constrain {

// A schema that a value must match, or must not match: its number, doubled, plus one for "not".
using Literal = uint32_t;
inline Literal negated(Literal literal) { return literal ^ 1; }

// Schemas that a value must match all at once: ascending, without duplicates.
using Conjunction = std::vector<Literal>;

// Rules of one schema for an object's properties: by name, by pattern, for all others.
struct ObjectRules {
  struct Pattern {
    Regular names;
    Conjunction rules;
  };
  std::map<std::string, Conjunction> named;
  std::vector<Pattern> patterns;
  Conjunction others;
};

// Rules of one schema for an array's items: the first ones, all others.
struct ItemRules {
  std::vector<Conjunction> first;
  Conjunction rest;
};

struct ContainsRule {
  Literal schema;
  uint32_t min = 1;
  uint32_t max = RegularPool::kUnbounded;
  uint32_t from = 0;  // items before this position do not count
};

// Some property must have such a name, and a value that matches these rules.
struct SomeProperty {
  Regular names;
  Conjunction rules;
};

// Properties or items that some keyword has evaluated.
struct Evaluated {
  bool all_names = false;
  bool lists_names = false;         // by properties or patternProperties
  std::set<std::string> mentioned;  // by keywords that do not evaluate (required, const, …)
  std::set<std::string> names;
  std::vector<Regular> patterns;
  bool all_items = false;
  size_t n_items = 0;
};

// Spelling of a shape's numbers in the canonical language.
struct NumberStyle {
  bool are_integers = false;
  bool has_wide_divisor = false;  // with a limit on digits, a multiple is expensive to find
  Regular written;                // any text, or the constants as written in the schema
};

// A set of values by type; all conditions hold at once.
struct Shape {
  enum Type : uint8_t {
    kNull = 1,
    kFalse = 2,
    kTrue = 4,
    kNumber = 8,
    kString = 16,
    kArray = 32,
    kObject = 64,
    kAll = 127,
  };
  uint8_t types = kAll;
  Regular string;
  Regular number;  // any text, or a subset: then plain decimals
  NumberStyle number_style;
  std::vector<ObjectRules> object;
  std::vector<SomeProperty> some;
  std::vector<std::string> order;  // names in the order of the schema
  std::set<std::string> required;
  std::map<std::string, std::set<std::string>> needs;
  Regular names;  // of all properties
  uint32_t min_properties = 0, max_properties = RegularPool::kUnbounded;
  std::vector<ItemRules> items;
  std::vector<ContainsRule> contains;
  uint32_t min_items = 0, max_items = RegularPool::kUnbounded;
  bool unique = false;    // no two items are equal
  bool repeated = false;  // some two are equal
  Evaluated evaluated;
};

using Shapes = std::vector<Shape>;

}  // namespace kvik::constrain
