#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "constrain/regular.h"

namespace kvik::constrain {

// A schema that a value must match, or must not match: twice the number of the schema, plus one for
// "not".
using Literal = uint32_t;
inline Literal negated(Literal literal) { return literal ^ 1; }

// Schemas that a value must match all at once. Ascending, without duplicates.
using Conjunction = std::vector<Literal>;

// The rules of one schema for an object's properties: by name, by pattern, and for all others.
struct ObjectRules {
  struct Pattern {
    Regular names;
    Conjunction rules;
  };
  std::map<std::string, Conjunction> named;
  std::vector<Pattern> patterns;
  Conjunction others;
};

// The rules of one schema for an array's items: for the first ones by position, and for all others.
struct ItemRules {
  std::vector<Conjunction> first;
  Conjunction rest;
};

// A rule for the number of items that match a schema (`contains`).
struct ContainsRule {
  Literal schema;
  uint32_t min = 1;
  uint32_t max = RegularPool::kUnbounded;
  uint32_t from = 0;  // position of the first item that counts
};

// A requirement that some property has one of these names and a value that matches these rules. It
// results from a negation.
struct SomeProperty {
  Regular names;
  Conjunction rules;
};

// The properties and items that some keyword has evaluated, for unevaluatedProperties and
// unevaluatedItems.
struct Evaluated {
  bool all_names = false;
  bool lists_names = false;         // whether properties or patternProperties is present
  std::set<std::string> mentioned;  // names in keywords that do not evaluate (required, const, …)
  std::set<std::string> names;
  std::vector<Regular> patterns;
  bool all_items = false;
  size_t n_items = 0;
};

// The syntax of a shape's numbers in the canonical language.
struct NumberStyle {
  bool are_integers = false;
  bool has_wide_divisor = false;  // with a limit on digits, finding a multiple is expensive
  Regular written;                // any text, or the constants as the schema writes them
};

// A set of JSON values. `types` lists the allowed types, and the other members restrict the values
// of one type each. All conditions hold at once.
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
  Regular number;  // any text, or a subset, which then contains plain decimals only
  NumberStyle number_style;
  std::vector<ObjectRules> object;
  std::vector<SomeProperty> some;
  std::vector<std::string> order;  // property names in the order of the schema
  std::set<std::string> required;
  std::map<std::string, std::set<std::string>> needs;
  Regular names;  // allowed names of all properties
  uint32_t min_properties = 0, max_properties = RegularPool::kUnbounded;
  std::vector<ItemRules> items;
  std::vector<ContainsRule> contains;
  uint32_t min_items = 0, max_items = RegularPool::kUnbounded;
  bool unique = false;    // no two items are equal
  bool repeated = false;  // at least two items are equal
  Evaluated evaluated;
};

using Shapes = std::vector<Shape>;

}  // namespace kvik::constrain
