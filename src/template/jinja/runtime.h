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

// What rendering may cost. A template that wants more ends in an error (THREATS 21).
struct Limits {
  uint64_t max_steps = 300'000;             // nodes evaluated, items touched
  uint64_t max_bytes = uint64_t{32} << 20;  // of all strings made, together
  uint32_t max_depth = 400;                 // of evaluation in evaluation: macros that call macros
};

// What filters, tests, methods and functions share: the budget, and the hour.
class Runtime {
 public:
  Runtime(const Limits& limits, int64_t now_s) : limits_(limits), now_s_(now_s) {}

  Result<void> charge(uint64_t n_steps) {
    n_steps_ += n_steps;
    if (n_steps_ <= limits_.max_steps) return {};
    return fail(ErrorCode::kExhausted,
                fmt::format("the chat template takes more than {} steps", limits_.max_steps));
  }
  // Before they are made.
  Result<void> charge_bytes(uint64_t n_bytes) {
    n_bytes_ += n_bytes;
    if (n_bytes <= limits_.max_bytes && n_bytes_ <= limits_.max_bytes) return {};
    return fail(ErrorCode::kExhausted,
                fmt::format("the chat template makes more than {} bytes", limits_.max_bytes));
  }
  // Before it is written out, or compared.
  Result<void> charge_extent(const Extent& extent) {
    TRY(charge(extent.n_nodes));
    return charge_bytes(extent.n_bytes);
  }
  uint32_t max_depth() const { return limits_.max_depth; }
  int64_t now_s() const { return now_s_; }  // local wall clock, as seconds since 1970

 private:
  const Limits limits_;
  const int64_t now_s_;
  uint64_t n_steps_ = 0;
  uint64_t n_bytes_ = 0;
};

// A value that nests deeper is refused: what goes through it calls itself.
inline constexpr uint32_t kMaxValueDepth = 100;

// What a text takes in memory.
inline uint64_t cost_of(const Text& text) {
  return text.size() + text.runs().size() * sizeof(Text::Run);
}

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at that place or of that name; null where there is none.
  const Value* get(size_t index, std::string_view name) const;
  const Value* find_named(std::string_view name) const;
  std::optional<Value> take_named(std::string_view name);
};

// Arguments in the order of a signature: names with blanks between, those that may be left out with
// a '?' behind, those that only their place names with a '!'. "*" takes everything as it is.
class BoundArguments {
 public:
  // Error: kInvalidArgument where they do not fit.
  static Result<BoundArguments> bind(std::string_view callee, std::string_view signature,
                                     const Arguments& given);

  // The argument at that place of the signature; null where it was left out.
  const Value* get(size_t index) const { return index < values_.size() ? values_[index] : nullptr; }
  // The same as what it must be; `otherwise` where there is none or it is none.
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

// An error of the template or of what it was given: kInvalidArgument.
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

// A filter, test or method: what templates call by a name.
template <class Subject, class Made>
struct Callable {
  std::string_view name;
  Result<Made> (*function)(Runtime&, const Subject&, const BoundArguments&);
  std::string_view signature = {};  // as BoundArguments takes it

  Result<Made> call(Runtime& runtime, const Subject& subject, const Arguments& given) const {
    TRY_ASSIGN(const BoundArguments bound, BoundArguments::bind(name, signature, given));
    return function(runtime, subject, bound);
  }
};

// Of one value, and of many.
using Filter = Callable<Value, Value>;
std::span<const Filter> value_filters();
std::span<const Filter> list_filters();

// The one of that name in a table; null where there is none.
template <class Table>
auto find_callable(const Table& table, std::string_view name) -> decltype(&*table.begin()) {
  for (const auto& callable : table) {
    if (callable.name == name) return &callable;
  }
  return nullptr;
}

// Whether values of that type have that method; then what it gives.
bool has_method(const Value& self, std::string_view name);
Result<Value> call_method(Runtime& runtime, const Value& self, std::string_view name,
                          const Arguments& arguments);

bool is_global(std::string_view name);
Result<Value> call_global(Runtime& runtime, std::string_view name, const Arguments& arguments);

// a.name: an attribute first, then an item; a[key]: the other way round. Undefined where there is
// neither; an error where `value` is undefined itself.
Result<Value> get_attribute(const Value& value, std::string_view name);
Result<Value> get_item(const Value& value, const Value& key);

// The key that a part of a path writes: a number, or a text.
Value key_of(std::string_view written);

// The value under "a.b.0", from item to item; undefined where there is none.
Result<Value> get_path(const Value& value, const Value& path);

// Python's + - * / // % ** and ~.
Result<Value> binary(Runtime& runtime, std::string_view op, const Value& a, const Value& b);

// str(value), and Python's ==, within the budget.
Result<Text> text_of(Runtime& runtime, const Value& value);
Result<bool> same(Runtime& runtime, const Value& a, const Value& b);

// < of numbers, strings and lists.
Result<bool> less(Runtime& runtime, const Value& a, const Value& b);
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);
Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b);

// What a {% for %} goes over: items, keys of a dict, characters of a string.
Result<std::vector<Value>> iterate(Runtime& runtime, const Value& value);

struct SliceBounds {
  const Value* begin;
  const Value* end;
  const Value* step;
};
Result<Value> slice(Runtime& runtime, const Value& value, const SliceBounds& bounds);

struct JsonOptions {
  std::optional<size_t> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ascii_only = false;
};
Result<Text> to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

Result<Text> format_percent(Runtime& runtime, const Text& format, const Value& values);

// As Python's str.format().
Result<Text> format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);

// & < > " ' as entities, unless it is markup already.
Result<Text> escape_html(Runtime& runtime, const Text& text);

// A method of strings.
using StringMethod = Callable<Text, Value>;
using TextFunction = Result<Value>(Runtime&, const Text&, const BoundArguments&);

// Those that are filters too.
TextFunction strip, replace, center;
enum class Case { kUpper, kLower, kTitle, kCapital, kWords };  // kWords: of the filter title
Result<Value> with_case(Runtime& runtime, const Text& text, Case letters);
template <Case kCase>
Result<Value> change_case(Runtime& runtime, const Text& text, const BoundArguments&) {
  return with_case(runtime, text, kCase);
}

enum class LineEnds { kDropped, kKept };
std::vector<Text> split_lines(const Text& text, LineEnds ends);

// Null where there is none.
const StringMethod* find_string_method(std::string_view name);
// It, with what Jinja's markup does to its arguments and its result.
Result<Value> call_string(Runtime& runtime, const StringMethod& method, const Text& self,
                          const Arguments& arguments);

}  // namespace kvik::jinja
