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
  std::string name;  // name that was looked up, for the error message
};
struct None {};

// The size of a value when it is formatted. An item that occurs twice counts twice. Saturates.
struct Extent {
  uint32_t depth = 0;  // nesting; 0 for values without items
  uint64_t n_nodes = 1;
  uint64_t n_bytes = 0;  // total size of its strings

  void hold(const Extent& inner);
};

// A list, tuple or similar sequence. Immutable once it belongs to a Value, so that copies can share
// it.
struct List {
  // kGroup: a pair that groupby returns, with the fields `grouper` and `list`.
  enum class Kind : uint8_t { kList, kTuple, kGroup, kRange, kKeys, kValues, kItems };
  std::vector<Value> items;
  Kind kind = Kind::kList;
  Extent extent = {};
  std::array<int64_t, 3> range = {};  // begin, end and step of a kRange

  bool is_tuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
  // Returns whether the list can be indexed and sliced, which the views of a dict cannot.
  bool is_sequence() const { return kind <= Kind::kRange; }
};
struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in insertion order
  Extent extent = {};
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
};

// The result of select, map and similar filters. It can be iterated once and has no length.
struct Generator;
struct Namespace;  // {% set ns.x = … %}: the only mutable value
struct Macro;
struct Loop;

// A global function of the interpreter, or a method of `self`.
struct Function {
  std::string name;
  std::shared_ptr<const Value> self;  // null for a global function
};

// The value of a template expression, with Python's types. Cheap to copy.
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
  Value(const char*) = delete;  // a pointer would convert to bool
  // These are not inline to keep the code small: otherwise every user of Value would compile them
  // for all types.
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
  // Return the numeric value of a bool, int or float, as in Python.
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

// The state of a {% for %} loop, visible as `loop`.
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

// Returns a == b as in Python. Visits at most as many nodes as the smaller value has.
bool equal(const Value& a, const Value& b);

// Returns Python's name of the type, for messages.
std::string_view type_name(const Value& value);

// Python's str(value), and its repr(value) as used within lists and dicts. Their cost is given by
// extent().
Text to_text(const Value& value);
void append_repr(const Value& value, Text& out);
std::string float_text(double value);  // for example 1.0, 0.1, 1e+16, nan

// Returns whether the value can be the key of a dict.
bool is_hashable(const Value& value);

// Inserts or replaces an entry in O(entries).
void set_entry(Dict& dict, Value key, Value value);

}  // namespace kvik::jinja
