#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "template/jinja/value.h"

namespace kvik::jinja {

// The limits of one rendering. Exceeding one is kExhausted.
struct Limits {
  uint64_t max_steps = 300'000;             // number of evaluated nodes and visited items
  uint64_t max_bytes = uint64_t{32} << 20;  // total size of all strings created
  uint32_t max_depth = 400;  // nesting of evaluation, for example of macros that call macros
};

// The state that filters, tests, methods and functions share: the budget and the current time.
class Runtime {
 public:
  Runtime(const Limits& limits, int64_t now_s) : limits_(limits), now_s_(now_s) {}

  Result<void> charge(uint64_t n_steps) {
    n_steps_ += n_steps;
    if (n_steps_ <= limits_.max_steps) return {};
    return fail(ErrorCode::kExhausted,
                fmt::format("the chat template takes more than {} steps", limits_.max_steps));
  }
  // Charges bytes to the budget. Must be called before they are allocated.
  Result<void> charge_bytes(uint64_t n_bytes) {
    n_bytes_ += n_bytes;
    if (n_bytes <= limits_.max_bytes && n_bytes_ <= limits_.max_bytes) return {};
    return fail(ErrorCode::kExhausted,
                fmt::format("the chat template makes more than {} bytes", limits_.max_bytes));
  }
  // Charges the size of a value to the budget. Must be called before it is formatted or compared.
  Result<void> charge_extent(const Extent& extent) {
    TRY(charge(extent.n_nodes));
    return charge_bytes(extent.n_bytes);
  }
  uint32_t max_depth() const { return limits_.max_depth; }
  int64_t now_s() const { return now_s_; }  // local time in seconds since 1970

 private:
  const Limits limits_;
  const int64_t now_s_;
  uint64_t n_steps_ = 0;
  uint64_t n_bytes_ = 0;
};

// The maximum nesting of a value. Functions on values are recursive, so deeper values are rejected.
inline constexpr uint32_t kMaxValueDepth = 100;

// Returns the memory of a text in bytes.
inline uint64_t cost_of(const Text& text) {
  return text.size() + text.runs().size() * sizeof(Text::Run);
}

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Returns the argument at this position or with this name; null if absent.
  const Value* get(size_t index, std::string_view name) const;
  const Value* find_named(std::string_view name) const;
  std::optional<Value> take_named(std::string_view name);
};

// The arguments of a call in the order of a signature. A signature is a list of names separated by
// spaces, with '?' after an optional argument and '!' after a positional-only one. "*" accepts any
// arguments unchanged.
class BoundArguments {
 public:
  // Binds arguments to a signature. Error: kInvalidArgument if they do not match.
  static Result<BoundArguments> bind(std::string_view callee, std::string_view signature,
                                     const Arguments& given);

  // Returns the argument at this position of the signature; null if it was omitted.
  const Value* get(size_t index) const { return index < values_.size() ? values_[index] : nullptr; }
  // Return the argument as this type; `otherwise` if it was omitted or is none. Error for another
  // type.
  Result<int64_t> get_int(size_t index, int64_t otherwise) const;
  Result<std::string> get_string(size_t index, std::string otherwise) const;
  Result<std::string> get_required_string(size_t index) const;
  bool get_flag(size_t index) const { return get(index) && get(index)->truthy(); }

  const Arguments& given() const { return *given_; }

 private:
  explicit BoundArguments(const Arguments& given) : given_(&given) {}

  std::string_view name_of(size_t index) const;

  const Arguments* given_;
  std::vector<const Value*> values_;
  std::string_view signature_;
};

// Return an error of the template or of its input: kInvalidArgument.
std::unexpected<Error> wrong_as(fmt::string_view format, fmt::format_args values);
template <class... Values>
std::unexpected<Error> wrong(fmt::format_string<const Values&...> format, const Values&... values) {
  return wrong_as(format, fmt::make_format_args(values...));
}

Result<Value> apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                           const Arguments& arguments);
Result<bool> apply_test(Runtime& runtime, std::string_view name, const Value& value,
                        const Arguments& arguments);
bool is_filter(std::string_view name);
bool is_test(std::string_view name);

// A filter, test or method that templates call by name.
template <class Subject, class Made>
struct Callable {
  std::string_view name;
  Result<Made> (*function)(Runtime&, const Subject&, const BoundArguments&);
  std::string_view signature = {};  // in the notation of BoundArguments

  Result<Made> call(Runtime& runtime, const Subject& subject, const Arguments& given) const {
    TRY_ASSIGN(const BoundArguments bound, BoundArguments::bind(name, signature, given));
    return function(runtime, subject, bound);
  }
};

// The filters of single values, and those of lists.
using Filter = Callable<Value, Value>;
std::span<const Filter> value_filters();
std::span<const Filter> list_filters();

// Returns the entry of a table with this name, or null.
template <class Table>
auto find_callable(const Table& table, std::string_view name) -> decltype(&*table.begin()) {
  for (const auto& callable : table) {
    if (callable.name == name) return &callable;
  }
  return nullptr;
}

// has_method() returns whether the type of `self` has the method; call_method() calls it.
bool has_method(const Value& self, std::string_view name);
Result<Value> call_method(Runtime& runtime, const Value& self, std::string_view name,
                          const Arguments& arguments);

bool is_global(std::string_view name);
Result<Value> call_global(Runtime& runtime, std::string_view name, const Arguments& arguments);

// get_attribute() implements a.name, which looks up attributes, then items. get_item() implements
// a[key], which looks up items, then attributes. They return undefined if neither exists. Using
// either on an undefined value is an error.
Result<Value> get_attribute(const Value& value, std::string_view name);
Result<Value> get_item(const Value& value, const Value& key);

// Returns the key that a part of a path denotes: a number or a string.
Value key_of(std::string_view written);

// Returns the value at a path such as "a.b.0"; undefined if there is none.
Result<Value> get_path(const Value& value, const Value& path);

// Applies one of Python's operators + - * / // % **, or Jinja's ~.
Result<Value> binary(Runtime& runtime, std::string_view op, const Value& a, const Value& b);

// Return Python's str(value), and a == b. The cost is charged to the budget.
Result<Text> text_of(Runtime& runtime, const Value& value);
Result<bool> same(Runtime& runtime, const Value& a, const Value& b);

// Returns a < b as in Python, for numbers, strings and lists.
Result<bool> less(Runtime& runtime, const Value& a, const Value& b);
// Implements Python's "item in container".
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);
Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b);

// Returns the items that {% for %} iterates over: the items of a list, the keys of a dict, the
// characters of a string.
Result<std::vector<Value>> iterate(Runtime& runtime, const Value& value);

struct SliceBounds {
  const Value* begin;
  const Value* end;
  const Value* step;
};
// Implements value[begin:end:step]. A bound may be null.
Result<Value> slice(Runtime& runtime, const Value& value, const SliceBounds& bounds);

// Options of Python's json.dumps().
struct JsonOptions {
  std::optional<size_t> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ascii_only = false;
};
Result<Text> to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

// Implements Python's format % values.
Result<Text> format_percent(Runtime& runtime, const Text& format, const Value& values);

// Implements Python's str.format().
Result<Text> format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);

// Replaces & < > " ' by entities unless the text is markup already.
Result<Text> escape_html(Runtime& runtime, const Text& text);

// A method of strings.
using StringMethod = Callable<Text, Value>;
using TextFunction = Result<Value>(Runtime&, const Text&, const BoundArguments&);

// String methods that are also filters.
TextFunction strip, replace, center;
enum class Case { kUpper, kLower, kTitle, kCapital, kWords };  // kWords: for the filter `title`
Result<Value> with_case(Runtime& runtime, const Text& text, Case letters);
template <Case kCase>
Result<Value> change_case(Runtime& runtime, const Text& text, const BoundArguments&) {
  return with_case(runtime, text, kCase);
}

enum class LineEnds { kDropped, kKept };
std::vector<Text> split_lines(const Text& text, LineEnds ends);

// Returns the string method with this name, or null.
const StringMethod* find_string_method(std::string_view name);
// Calls a string method with the rules of markup for its arguments and its result.
Result<Value> call_string(Runtime& runtime, const StringMethod& method, const Text& self,
                          const Arguments& arguments);

}  // namespace kvik::jinja
