#include "constrain/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "constrain/number_syntax.h"
#include "constrain/schema/shape_maker.h"

namespace kvik::constrain {
namespace {

// Converts shapes to grammar rules, one rule for each conjunction of schemas.
class Emitter {
 public:
  Emitter(ShapeMaker& maker, Builder& builder, SchemaOptions::Language language)
      : maker_(maker),
        builder_(builder),
        is_canonical_(language == SchemaOptions::Language::kCanonical) {}

  Result<Node> run(Literal root) {
    const Node start = node_of({root});
    while (!left_.empty()) {
      const auto [conjunction, node] = std::move(left_.back());
      left_.pop_back();
      TRY_ASSIGN(Shapes shapes, maker_.shapes_of(conjunction));
      maker_.mention_required(shapes);
      std::vector<Node> either;
      for (const Shape& shape : shapes) TRY(add_shape(shape, either));
      builder_.define(node, builder_.choice(either));
      if (builder_.exhausted()) break;
    }
    return start;
  }

 private:
  RegularPool& pool() { return builder_.regulars(); }

  Node node_of(Conjunction conjunction) {
    std::ranges::sort(conjunction);
    conjunction.erase(std::unique(conjunction.begin(), conjunction.end()), conjunction.end());
    if (conjunction.empty()) return builder_.json_value();
    const auto found = nodes_.find(conjunction);
    if (found != nodes_.end()) return found->second;
    const Node node = builder_.rule("of the schema");
    nodes_[conjunction] = node;
    left_.emplace_back(std::move(conjunction), node);
    return node;
  }

  Result<void> add_shape(const Shape& shape, std::vector<Node>& either) {
    const auto add_word = [&](Shape::Type type, std::string_view word) {
      if ((shape.types & type) != 0) either.push_back(builder_.literal(word));
    };
    add_word(Shape::kNull, "null");
    add_word(Shape::kFalse, "false");
    add_word(Shape::kTrue, "true");
    if ((shape.types & Shape::kNumber) != 0) {
      either.push_back(builder_.text(is_canonical_ ? canonical_numbers(shape) : numbers(shape)));
    }
    if ((shape.types & Shape::kString) != 0) either.push_back(builder_.json_string(shape.string));
    if ((shape.types & Shape::kObject) != 0) {
      TRY(add_object(is_canonical_ ? closed(shape) : shape, either));
    }
    if ((shape.types & Shape::kArray) != 0) TRY(add_array(shape, either));
    return {};
  }

  Regular numbers(const Shape& shape) {
    if (shape.number == pool().any_text()) return number_syntax(pool());
    if (shape.number == integer_syntax(pool())) return shape.number;
    return pool().intersection(decimal_syntax(pool()), shape.number);
  }

  // Returns the texts of the numbers in canonical form; if no number of the shape has one, all
  // texts.
  Regular canonical_numbers(const Shape& shape) {
    const NumberStyle& style = shape.number_style;
    std::vector<Regular> syntaxes;
    if (style.written != pool().any_text()) syntaxes.push_back(style.written);
    if (!style.are_integers && shape.number == pool().any_text()) {
      syntaxes.push_back(bounded_number_syntax(pool()));
    }
    if (!style.has_wide_divisor) {
      syntaxes.push_back(style.are_integers ? bounded_integer_syntax(pool())
                                            : bounded_decimal_syntax(pool()));
    }
    if (style.are_integers) syntaxes.push_back(plain_integer_syntax(pool()));
    for (const Regular syntax : syntaxes) {
      const Regular made = pool().intersection(syntax, shape.number);
      if (pool().is_alive(made)) return made;
    }
    return numbers(shape);
  }

  // Returns the shape without unlisted properties if some keyword lists names and no keyword of the
  // schema concerns the others.
  Shape closed(const Shape& shape) {
    const Evaluated& seen = shape.evaluated;
    const bool allows_other_names = seen.all_names || !shape.some.empty();
    if (!seen.lists_names || allows_other_names) return shape;
    ObjectRules rules;
    for (const std::string& name : seen.names) rules.named[name] = {};
    for (const std::string& name : seen.mentioned) rules.named[name] = {};
    for (const Regular names : seen.patterns) rules.patterns.push_back({names, {}});
    if (rules.patterns.empty() && rules.named.size() < shape.min_properties) return shape;
    rules.others = {maker_.never()};
    Shape made = shape;
    made.object.push_back(std::move(rules));
    return made;
  }

  // Returns the property names that the schema mentions: the listed ones in the order of the
  // schema, then the others.
  static std::vector<std::string> names_of(const Shape& shape) {
    std::set<std::string> names = shape.required;
    for (const ObjectRules& rules : shape.object) {
      for (const auto& [name, conjunction] : rules.named) names.insert(name);
    }
    for (const auto& [name, needed] : shape.needs) {
      names.insert(name);
      names.insert(needed.begin(), needed.end());
    }
    std::vector<std::string> ordered;
    for (const std::string& name : shape.order) {
      if (names.erase(name) > 0) ordered.push_back(name);
    }
    ordered.insert(ordered.end(), names.begin(), names.end());
    return ordered;
  }

  static void add_rules(Conjunction& to, const Conjunction& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  Result<void> add_object(const Shape& shape, std::vector<Node>& either) {
    std::map<std::string, uint32_t> places;
    ObjectForm form;
    form.ordered = is_canonical_;
    for (const std::string& name : names_of(shape)) {
      const std::u32string characters = to_characters(name);
      const bool may_be = pool().accepts_empty(pool().step(shape.names, characters));
      places[name] = static_cast<uint32_t>(form.properties.size());
      ObjectForm::Property property{characters, Node::kNothing, shape.required.contains(name), {}};
      if (may_be) {
        Conjunction rules = rules_of(shape, name, characters);
        property.also = witnesses_of(shape, rules, [&](Regular names) {
          return pool().accepts_empty(pool().step(names, characters));
        });
        property.value = node_of(std::move(rules));
      }
      form.properties.push_back(std::move(property));
    }
    for (const auto& [name, needed] : shape.needs) {
      for (const std::string& other : needed) {
        form.properties[places[name]].needs.push_back(places[other]);
      }
    }
    form.min = shape.min_properties;
    form.max = shape.max_properties;
    TRY(add_others(shape, form));
    either.push_back(builder_.object(std::move(form)));
    return {};
  }

  Conjunction rules_of(const Shape& shape, const std::string& name,
                       const std::u32string& characters) {
    Conjunction all;
    pool().spend(2 * shape.object.size());
    for (const ObjectRules& rules : shape.object) {
      const auto named = rules.named.find(name);
      bool is_known = named != rules.named.end();
      if (is_known) add_rules(all, named->second);
      for (const auto& [names, conjunction] : rules.patterns) {
        if (!pool().accepts_empty(pool().step(names, characters))) continue;
        is_known = true;
        add_rules(all, conjunction);
      }
      if (!is_known) add_rules(all, rules.others);
    }
    return all;
  }

  // Returns the schemas of a property's value that count for each set of required properties
  // (Shape::some).
  template <class HasName>
  std::vector<ObjectForm::Witness> witnesses_of(const Shape& shape, const Conjunction& rules,
                                                const HasName& has_name) {
    std::vector<ObjectForm::Witness> also;
    for (uint32_t is = 1; is < 1u << shape.some.size(); ++is) {
      Conjunction both = rules;
      bool possible = true;
      for (size_t i = 0; i < shape.some.size(); ++i) {
        if ((is >> i & 1) == 0) continue;
        possible = possible && has_name(shape.some[i].names);
        add_rules(both, shape.some[i].rules);
      }
      if (possible) also.push_back({node_of(std::move(both)), is});
    }
    return also;
  }

  // Adds all unlisted names, in classes of names that match the same patterns.
  Result<void> add_others(const Shape& shape, ObjectForm& form) {
    struct Class {
      Regular names;
      Conjunction rules;
      bool matched = false;  // whether a pattern of the current rules matches
    };
    constexpr size_t kMaxClasses = 64;
    std::vector<Class> classes = {{shape.names, {}}};
    for (const ObjectRules& rules : shape.object) {
      for (Class& one : classes) one.matched = false;
      for (const auto& [names, conjunction] : rules.patterns) {
        std::vector<Class> split;
        for (const Class& one : classes) {
          Class in = one, out = one;
          in.names = pool().intersection(one.names, names);
          in.matched = true;
          add_rules(in.rules, conjunction);
          out.names = pool().difference(one.names, names);
          if (pool().is_alive(in.names)) split.push_back(std::move(in));
          if (pool().is_alive(out.names)) split.push_back(std::move(out));
        }
        classes = std::move(split);
        if (classes.size() > kMaxClasses || pool().exhausted()) {
          return fail(ErrorCode::kUnsupported, "#: patternProperties overlap in too many ways");
        }
      }
      for (Class& one : classes) {
        if (!one.matched) add_rules(one.rules, rules.others);
      }
    }
    constexpr size_t kMaxSome = 4;
    if (shape.some.size() > kMaxSome) {
      return fail(ErrorCode::kUnsupported,
                  "#: at most 4 negated schemas of properties are supported at once");
    }
    form.n_witnesses = static_cast<uint32_t>(shape.some.size());
    for (const SomeProperty& some : shape.some) {
      std::vector<Class> split;
      for (const Class& one : classes) {
        for (const Regular names : {pool().intersection(one.names, some.names),
                                    pool().difference(one.names, some.names)}) {
          if (pool().is_alive(names)) split.push_back({names, one.rules});
        }
      }
      classes = std::move(split);
    }
    for (Class& one : classes) {
      if (std::ranges::find(one.rules, maker_.never()) != one.rules.end()) continue;
      auto also = witnesses_of(shape, one.rules, [&](Regular names) {
        return pool().is_alive(pool().intersection(one.names, names));
      });
      const Node value = node_of(std::move(one.rules));
      form.others.push_back({one.names, value, std::move(also)});
    }
    return {};
  }

  Result<void> add_array(const Shape& shape, std::vector<Node>& either) {
    ArrayForm form;
    form.min = shape.min_items;
    form.max = shape.max_items;
    size_t n_first = 0;
    for (const ItemRules& rules : shape.items) n_first = std::max(n_first, rules.first.size());
    const auto rules_at = [&](size_t place) {
      Conjunction all;
      for (const ItemRules& rules : shape.items) {
        add_rules(all, place < rules.first.size() ? rules.first[place] : rules.rest);
      }
      return all;
    };
    form.unique = shape.unique && form.max > 1;
    form.repeated = shape.repeated;
    std::vector<ContainsRule> contains;
    for (const ContainsRule& rule : shape.contains) {
      if (rule.min > 0 || rule.max != RegularPool::kUnbounded) contains.push_back(rule);
    }
    constexpr size_t kMaxContains = 3;
    if (contains.size() > kMaxContains ||
        (contains.size() > 1 && form.max != RegularPool::kUnbounded)) {
      return fail(
          ErrorCode::kUnsupported,
          "#: at most 3 `contains` of one array are supported, and several only without maxItems");
    }
    for (const ContainsRule& rule : contains) form.counts.push_back({rule.min, rule.max});
    constexpr size_t kMaxFirst = 10'000;
    if (n_first > kMaxFirst) {
      return fail(ErrorCode::kInvalidArgument, "#: prefixItems has over 10,000 schemas");
    }
    for (const ContainsRule& rule : contains) n_first = std::max<size_t>(n_first, rule.from);
    for (size_t i = 0; i < n_first; ++i) form.first.push_back(items_of(rules_at(i), contains, i));
    form.rest = items_of(rules_at(n_first), contains, n_first);
    if (form.repeated) {
      constexpr size_t kMaxRepeated = 16;
      if (!contains.empty() || n_first > kMaxRepeated) {
        return fail(ErrorCode::kUnsupported,
                    "#: negated uniqueItems is only supported without contains and with at most 16 "
                    "schemas in prefixItems");
      }
      for (size_t a = 0; a <= n_first; ++a) {
        auto& row = form.both.emplace_back();
        for (size_t b = a; b <= n_first; ++b) {
          Conjunction both = rules_at(a);
          add_rules(both, rules_at(b));
          row.push_back(node_of(std::move(both)));
        }
      }
    }
    either.push_back(builder_.array(std::move(form)));
    return {};
  }

  // Returns one schema of an item for each set of `contains` rules that the item may count for.
  std::vector<ArrayForm::Item> items_of(const Conjunction& rules,
                                        const std::vector<ContainsRule>& contains, size_t place) {
    std::vector<ArrayForm::Item> items;
    for (uint32_t counts = 0; counts < 1u << contains.size(); ++counts) {
      Conjunction both = rules;
      bool possible = true;
      for (size_t c = 0; c < contains.size(); ++c) {
        if (place < contains[c].from) {
          possible &= (counts >> c & 1) == 0;
        } else if ((counts >> c & 1) != 0) {
          both.push_back(contains[c].schema);
        } else if (contains[c].max != RegularPool::kUnbounded) {
          both.push_back(negated(contains[c].schema));
        }
      }
      if (possible) items.push_back({node_of(std::move(both)), counts});
    }
    return items;
  }

  ShapeMaker& maker_;
  Builder& builder_;
  const bool is_canonical_;
  std::map<Conjunction, Node> nodes_;
  std::vector<std::pair<Conjunction, Node>> left_;
};

}  // namespace

Result<SchemaNode> add_json_schema(Builder& builder, std::string_view schema,
                                   const SchemaOptions& options) {
  TRY_ASSIGN(const Json json, parse_json(schema));
  TRY_ASSIGN(const SchemaDocument document, SchemaDocument::make(json));
  ShapeMaker maker(document, builder.regulars(), options);
  TRY_ASSIGN(const Node start,
             Emitter(maker, builder, options.language).run(maker.of_schema(json)));
  return SchemaNode{start, maker.left_out()};
}

Result<SchemaGrammar> compile_json_schema(std::string_view schema, const SchemaOptions& options) {
  Builder builder(options.limits, options.whitespace, options.numbers());
  TRY_ASSIGN(SchemaNode node, add_json_schema(builder, schema, options));
  TRY_ASSIGN(Grammar grammar, builder.finish(node.start));
  return SchemaGrammar{std::move(grammar), std::move(node.left_out)};
}

Result<Grammar> compile_json_object(const SchemaOptions& options) {
  Builder builder(options.limits, options.whitespace, options.numbers());
  ObjectForm form;
  form.others.push_back({builder.regulars().any_text(), builder.json_value()});
  const Node start = builder.object(std::move(form));
  return builder.finish(start);
}

}  // namespace kvik::constrain
