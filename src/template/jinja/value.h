#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "template/jinja/text.h"

namespace kvik::jinja {

class Value;

struct Undefined {
  std::string name;  // what was looked for, for the sentence that refuses its use
};
struct None {};

// How large a value is, written out: what a list holds twice counts twice. Saturates.
struct Extent {
  uint32_t depth = 0;  // 0 of what holds nothing
  uint64_t n_nodes = 1;
  uint64_t n_bytes = 0;  // of its texts

  void hold(const Extent& inner);
};

// Immutable once in a Value, so that copies may share them.
struct List {
  // kGroup: one of groupby's pairs, whose items have the names `grouper` and `list`.
  enum class Kind : uint8_t { kList, kTuple, kGroup, kRange, kKeys, kValues, kItems };
  std::vector<Value> items;
  Kind kind = Kind::kList;
  Extent extent = {};
  std::array<int64_t, 3> range = {};  // begin, end and step of a kRange

  bool is_tuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
  // A view of a dict has neither indices nor slices.
  bool is_sequence() const { return kind <= Kind::kRange; }
};
struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in the order of insertion
  Extent extent = {};
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
};

// What select, map and their like give: it is gone through once, and knows no length.
struct Generator;
struct Namespace;  // {% set ns.x = … %}: the one thing that changes in place
struct Macro;
struct Loop;

// A function: one of the interpreter's by name, or a method of `self`.
struct Function {
  std::string name;
  std::shared_ptr<const Value> self;  // absent: a global
};

// What an expression of a template gives, after Python's types. Cheap to copy.
class Value {
 public:
  using TextPtr = std::shared_ptr<const Text>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using GeneratorPtr = std::shared_ptr<Generator>;
  using NamespacePtr = std::shared_ptr<Namespace>;
  using MacroPtr = std::shared_ptr<const Macro>;
  using LoopPtr = std::shared_ptr<Loop>;
  using Variant = std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr,
                               GeneratorPtr, NamespacePtr, MacroPtr, LoopPtr, Function>;

  Value() : v_(Undefined{}) {}
  Value(None) : v_(None{}) {}
  Value(Undefined undefined) : v_(std::move(undefined)) {}
  Value(bool value) : v_(value) {}
  Value(int64_t value) : v_(value) {}
  Value(double value) : v_(value) {}
  Value(Text text) : v_(std::make_shared<const Text>(std::move(text))) {}
  Value(List list);
  Value(Dict dict);
  Value(GeneratorPtr generator) : v_(std::move(generator)) {}
  Value(NamespacePtr ns) : v_(std::move(ns)) {}
  Value(MacroPtr macro) : v_(std::move(macro)) {}
  Value(LoopPtr loop) : v_(std::move(loop)) {}
  Value(Function function) : v_(std::move(function)) {}
  Value(const char*) = delete;  // would be a bool
  // Out of line: what they do for each of the types would be compiled wherever a value is held.
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  template <class T>
  const T* as() const {
    return std::get_if<T>(&v_);
  }
  const Text* text() const { return pointee<TextPtr>(); }
  const List* list() const { return pointee<ListPtr>(); }
  const Dict* dict() const { return pointee<DictPtr>(); }
  Generator* generator() const { return as<GeneratorPtr>() ? as<GeneratorPtr>()->get() : nullptr; }
  Namespace* ns() const { return as<NamespacePtr>() ? as<NamespacePtr>()->get() : nullptr; }
  Loop* loop() const { return as<LoopPtr>() ? as<LoopPtr>()->get() : nullptr; }

  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  // bool, int or float as a number, as Python counts them.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_number() const;
  bool is_number() const { return as_number().has_value(); }

  bool truthy() const;
  Extent extent() const;

 private:
  template <class P>
  auto pointee() const -> decltype(std::declval<P>().get()) {
    const P* p = as<P>();
    return p ? p->get() : nullptr;
  }

  Variant v_;
};

struct Generator {
  std::vector<Value> items;
  size_t n_taken = 0;
  Extent extent = {};
};

struct Namespace {
  Dict values;
};

// The state of a {% for %}, as `loop`.
struct Loop {
  Value::ListPtr items;
  size_t index = 0;
  uint32_t depth = 1;
  std::optional<Value> last_changed;
};

Value make_text(std::string bytes, Origin origin = Origin::kTemplate);
Value make_list(std::vector<Value> items);
Value make_tuple(std::vector<Value> items);
Value make_view(List::Kind kind, std::vector<Value> items);
Value make_generator(std::vector<Value> items);

enum class Comparison : uint8_t {
  kEqual,
  kUnequal,
  kLess,
  kAtMost,
  kGreater,
  kAtLeast,
  kIn,
  kNotIn,
};

// Python's ==. It takes up to the nodes of the smaller one.
bool equal(const Value& a, const Value& b);

// Python's name of the type, for messages.
std::string_view type_name(const Value& value);

// str(value), and repr(value) as it stands inside lists and dicts. They take what the extent says.
Text to_text(const Value& value);
void append_repr(const Value& value, Text& out);
std::string float_text(double value);  // 1.0, 0.1, 1e+16, nan

// Whether it can be a dict's key.
bool is_hashable(const Value& value);

// Sets or replaces; O(entries).
void set_entry(Dict& dict, Value key, Value value);

}  // namespace kvik::jinja
