#include <algorithm>
#include <cmath>
#include <limits>

#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

std::unexpected<Error> unsupported_operands(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined() || b.is_undefined()) {
    const Value& missing = a.is_undefined() ? a : b;
    return wrong("'{}' is undefined, expected a value for '{}'", missing.as<Undefined>()->name, op);
  }
  return wrong("'{}' takes no {} and {}", op, type_name(a), type_name(b));
}

Result<Value> overflow() { return wrong("the number does not fit in 64 bits"); }

Result<Value> integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return overflow();
    if (result == 0 || (result == 1 && base == 1)) break;
    if (base == -1) return Value(exponent % 2 == 1 ? int64_t{-1} : int64_t{1});
  }
  return Value(result);
}

Result<Value> floats(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**" && a == 0 && b < 0) return wrong("0 has no negative powers");
  if (op == "**" && a < 0 && b != std::floor(b)) return wrong("the power is not a real number");
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) return wrong("a division by zero");
  if (op == "/") return Value(a / b);
  // Like CPython's float_divmod(), derives the quotient from the remainder instead of from a
  // rounded a / b.
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((b < 0) != (remainder < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == "%") return Value(remainder);
  if (quotient == 0) return Value(std::copysign(0.0, a / b));
  const double whole = std::floor(quotient);
  return Value(quotient - whole > 0.5 ? whole + 1 : whole);
}

Result<Value> integers(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &result) ? overflow() : Value(result);
  if (op == "-") return __builtin_sub_overflow(a, b, &result) ? overflow() : Value(result);
  if (op == "*") return __builtin_mul_overflow(a, b, &result) ? overflow() : Value(result);
  if (op == "**") {
    if (b < 0) return floats(op, static_cast<double>(a), static_cast<double>(b));
    return integer_power(a, b);
  }
  if (b == 0) return wrong("a division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == "%" ? Value(int64_t{0}) : integers("-", 0, a);
  const int64_t remainder = a % b;
  const bool rounds_down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == "%") return Value(rounds_down ? remainder + b : remainder);
  return Value(a / b - (rounds_down ? 1 : 0));
}

// Returns whether a value can be concatenated and compared: it is a list or a tuple.
bool is_sequence_value(const Value& value) {
  return value.list() && value.list()->kind <= List::Kind::kGroup;
}

Result<Value> join(Runtime& runtime, const Text& a, const Text& b) {
  TRY(runtime.charge_bytes(cost_of(a) + cost_of(b)));
  Text joined = a;
  joined.append(b);
  return Value(std::move(joined));
}

Result<Value> repeat(Runtime& runtime, const Value& value, int64_t n) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(n, 0));
  if (value.text()) {
    Text out;
    if (value.text()->empty()) return Value(std::move(out));
    TRY(runtime.charge_bytes(times));  // charged first, so that the product fits in 64 bits
    const Text& unit = *value.text();
    TRY(runtime.charge_bytes(times * cost_of(unit)));
    const size_t n_bytes = times * unit.size();
    if (n_bytes == 0) return Value(std::move(out));
    out = unit;
    while (out.size() < n_bytes) {
      const Text so_far = out;
      out.append(so_far, 0, std::min(so_far.size(), n_bytes - out.size()));
    }
    return Value(std::move(out));
  }
  std::vector<Value> items;
  const auto& unit = value.list()->items;
  if (unit.empty()) return value;
  TRY(runtime.charge(std::min(times, uint64_t{1} << 40) * unit.size()));
  for (uint64_t i = 0; i < times; ++i) items.insert(items.end(), unit.begin(), unit.end());
  return make_view(value.list()->kind, std::move(items));
}

// The range of Python's slice(begin, end, step) over n items.
struct Range {
  int64_t begin;
  int64_t end;
  int64_t step;
};

Result<std::optional<int64_t>> bound(const Value* value) {
  if (!value || value->is_none()) return std::optional<int64_t>();
  if (const auto number = value->as_int()) return std::optional(*number);
  return wrong("a slice takes integers, not {}", type_name(*value));
}

Result<Range> range_of(const SliceBounds& bounds, int64_t n) {
  TRY_ASSIGN(const auto begin, bound(bounds.begin));
  TRY_ASSIGN(const auto end, bound(bounds.end));
  TRY_ASSIGN(const auto step_value, bound(bounds.step));
  const int64_t step = step_value.value_or(1);
  if (step == 0) return wrong("a slice's step is 0");
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? n : n - 1;
  const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? *at + n : *at, lowest, highest);
  };
  return Range{place(begin, step > 0 ? lowest : highest), place(end, step > 0 ? highest : lowest),
               std::clamp<int64_t>(step, -n - 1, n + 1)};
}

}  // namespace

std::unexpected<Error> wrong_as(fmt::string_view format, fmt::format_args values) {
  return fail(ErrorCode::kInvalidArgument, "chat template: " + fmt::vformat(format, values));
}

Result<Value> binary(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (op == "~") {
    TRY_ASSIGN(const Text left, text_of(runtime, a));
    TRY_ASSIGN(const Text right, text_of(runtime, b));
    return join(runtime, left.plain(), right.plain());
  }
  if (a.text() && op == "%") {
    return format_percent(runtime, *a.text(), b);
  }
  if (a.as_int() && b.as_int()) return integers(op, *a.as_int(), *b.as_int());
  if (a.is_number() && b.is_number()) return floats(op, *a.as_number(), *b.as_number());
  if (op == "+" && a.text() && b.text()) {
    if (!a.text()->is_markup() && !b.text()->is_markup())
      return join(runtime, *a.text(), *b.text());
    TRY_ASSIGN(const Text left, escape_html(runtime, *a.text()));
    TRY_ASSIGN(const Text right, escape_html(runtime, *b.text()));
    return join(runtime, left, right);
  }
  if (op == "+" && is_sequence_value(a) && is_sequence_value(b) &&
      a.list()->kind == b.list()->kind) {
    TRY(runtime.charge(a.list()->items.size() + b.list()->items.size()));
    std::vector<Value> items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return make_view(a.list()->kind, std::move(items));
  }
  const auto repeats = [](const Value& x) { return x.text() || is_sequence_value(x); };
  if (op == "*" && repeats(a) && b.as_int()) return repeat(runtime, a, *b.as_int());
  if (op == "*" && repeats(b) && a.as_int()) return repeat(runtime, b, *a.as_int());
  return unsupported_operands(op, a, b);
}

Result<Text> text_of(Runtime& runtime, const Value& value) {
  if (value.text()) return *value.text();
  TRY(runtime.charge_extent(value.ns() ? Value(value.ns()->values).extent() : value.extent()));
  return to_text(value);
}

Result<bool> same(Runtime& runtime, const Value& a, const Value& b) {
  TRY(runtime.charge(std::min(a.extent().n_nodes, b.extent().n_nodes) - 1));
  return equal(a, b);
}

Result<bool> less(Runtime& runtime, const Value& a, const Value& b) {
  if (a.as_int() && b.as_int()) return *a.as_int() < *b.as_int();
  if (a.is_number() && b.is_number()) return *a.as_number() < *b.as_number();
  if (a.text() && b.text()) return a.text()->view() < b.text()->view();
  if (is_sequence_value(a) && is_sequence_value(b) && a.list()->kind == b.list()->kind) {
    const auto& left = a.list()->items;
    const auto& right = b.list()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      TRY_ASSIGN(const bool is_same, same(runtime, left[i], right[i]));
      if (!is_same) return less(runtime, left[i], right[i]);
    }
    return left.size() < right.size();
  }
  return unsupported_operands("<", a, b);
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.text()) {
    if (!item.text()) return unsupported_operands("in", item, container);
    TRY(runtime.charge(1 + container.text()->size() / 64));
    return container.text()->view().find(item.text()->view()) != std::string_view::npos;
  }
  if (container.dict()) {
    TRY(runtime.charge(1 + container.dict()->entries.size() / 16));
    if (!is_hashable(item)) return wrong("a {} cannot be a key", type_name(item));
    return container.dict()->find(item) != nullptr;
  }
  if (container.generator()) {
    Generator& generator = *container.generator();
    while (generator.n_taken < generator.items.size()) {
      TRY(runtime.charge(1));
      TRY_ASSIGN(const bool is_same, same(runtime, generator.items[generator.n_taken++], item));
      if (is_same) return true;
    }
    return false;
  }
  if (container.list()) {
    const auto& items = container.list()->items;
    TRY(runtime.charge(std::min(items.size() * item.extent().n_nodes, container.extent().n_nodes)));
    return std::any_of(items.begin(), items.end(), [&](const Value& v) { return equal(v, item); });
  }
  return unsupported_operands("in", item, container);
}

Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  const auto fails = [&](Comparison opposite) -> Result<bool> {
    TRY_ASSIGN(const bool holds, compare(runtime, opposite, a, b));
    return !holds;
  };
  switch (comparison) {
    case Comparison::kEqual:
      return same(runtime, a, b);
    case Comparison::kUnequal:
      return fails(Comparison::kEqual);
    case Comparison::kLess:
      return less(runtime, a, b);
    case Comparison::kAtLeast:
      return fails(Comparison::kLess);
    case Comparison::kGreater:
      return less(runtime, b, a);
    case Comparison::kAtMost:
      return fails(Comparison::kGreater);
    case Comparison::kIn:
      return contains(runtime, b, a);
    case Comparison::kNotIn:
      return fails(Comparison::kIn);
  }
  return false;
}

Result<std::vector<Value>> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.list()) {
    TRY(runtime.charge(value.list()->items.size()));
    return value.list()->items;
  }
  if (value.generator()) {
    Generator& generator = *value.generator();
    const size_t n_taken = std::exchange(generator.n_taken, generator.items.size());
    TRY(runtime.charge(generator.items.size() - n_taken));
    return std::vector<Value>(generator.items.begin() + static_cast<std::ptrdiff_t>(n_taken),
                              generator.items.end());
  }
  if (value.dict()) {
    TRY(runtime.charge(value.dict()->entries.size()));
    for (const auto& entry : value.dict()->entries) items.push_back(entry.first);
    return items;
  }
  if (!value.text()) return wrong("a {} cannot be iterated over", type_name(value));
  const Text& text = *value.text();
  TRY(runtime.charge(text.size()));
  for (size_t at = 0; at < text.size();) {
    const size_t n_bytes = byte_of_character(text.view().substr(at, 4), 1);
    items.emplace_back(text.substr(at, n_bytes).plain());
    at += n_bytes;
  }
  return items;
}

Result<Value> slice(Runtime& runtime, const Value& value, const SliceBounds& bounds) {
  if (value.text() && (!bounds.step || bounds.step->is_none() || bounds.step->as_int() == 1)) {
    const Text& text = *value.text();
    TRY(runtime.charge_bytes(text.size()));
    TRY_ASSIGN(const Range range,
               range_of(bounds, static_cast<int64_t>(n_characters(text.view()))));
    const size_t begin = byte_of_character(text.view(), static_cast<size_t>(range.begin));
    const size_t end = byte_of_character(text.view(), static_cast<size_t>(range.end));
    return Value(text.substr(begin, end > begin ? end - begin : 0));
  }
  if (!value.text() && !(value.list() && value.list()->is_sequence())) {
    return wrong("a {} has no slices", type_name(value));
  }
  TRY_ASSIGN(const std::vector<Value> items, iterate(runtime, value));
  TRY_ASSIGN(const Range range, range_of(bounds, static_cast<int64_t>(items.size())));
  std::vector<Value> part;
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step) {
    part.push_back(items[static_cast<size_t>(i)]);
  }
  if (value.list()) {
    List made{.items = std::move(part), .kind = value.list()->kind};
    const auto [first, last, stride] = value.list()->range;
    made.range = {first + range.begin * stride, first + range.end * stride, stride * range.step};
    return Value(std::move(made));
  }
  Text text;
  for (const Value& character : part) text.append(*character.text());
  return Value(text.like(*value.text()));
}

namespace {

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto& items = loop.items->items;
  const auto n = static_cast<int64_t>(items.size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(n - index);
  if (name == "revindex0") return Value(n - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == n);
  if (name == "length") return Value(n);
  if (name == "depth") return Value(int64_t{loop.depth});
  if (name == "depth0") return Value(int64_t{loop.depth} - 1);
  if (name == "previtem" && index > 0) return items[loop.index - 1];
  if (name == "nextitem" && index + 1 < n) return items[loop.index + 1];
  return Value(Undefined{std::string("loop.").append(name)});
}

std::optional<Value> find_item(const Value& value, const Value& key) {
  if (value.dict() || value.ns()) {
    const Value* found = (value.dict() ? *value.dict() : value.ns()->values).find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto number = key.as_int();
  const bool has_indices = value.text() || (value.list() && value.list()->is_sequence());
  if (!number || !has_indices) return std::nullopt;
  const auto n = static_cast<int64_t>(value.list() ? value.list()->items.size()
                                                   : n_characters(value.text()->view()));
  const int64_t at = *number < 0 ? *number + n : *number;
  if (at < 0 || at >= n) return std::nullopt;
  if (value.list()) return value.list()->items[static_cast<size_t>(at)];
  const Text& text = *value.text();
  const size_t begin = byte_of_character(text.view(), static_cast<size_t>(at));
  const size_t n_bytes = byte_of_character(text.view().substr(begin, 4), 1);
  return Value(text.substr(begin, n_bytes));
}

std::optional<Value> find_attribute(const Value& value, std::string_view name) {
  const bool is_method =
      value.loop() ? name == "cycle" || name == "changed" : has_method(value, name);
  if (is_method) return Value(Function{std::string(name), std::make_shared<const Value>(value)});
  if (value.loop()) return loop_attribute(*value.loop(), name);
  if (value.list() && value.list()->kind == List::Kind::kGroup) {
    if (name == "grouper") return value.list()->items[0];
    if (name == "list") return value.list()->items[1];
  }
  return std::nullopt;
}

std::unexpected<Error> of_undefined(const Value& value, std::string_view name) {
  return wrong("'{}' is undefined, expected it to have '{}'", value.as<Undefined>()->name, name);
}

}  // namespace

Result<Value> get_attribute(const Value& value, std::string_view name) {
  if (value.is_undefined()) return of_undefined(value, name);
  std::optional<Value> found = find_attribute(value, name);
  if (!found && (value.dict() || value.ns()))
    found = find_item(value, make_text(std::string(name)));
  return found ? std::move(*found) : Value(Undefined{std::string(name)});
}

Result<Value> get_item(const Value& value, const Value& key) {
  const std::string name = key.text() ? key.text()->bytes() : std::string(type_name(key));
  if (value.is_undefined()) return of_undefined(value, name);
  std::optional<Value> found = find_item(value, key);
  if (!found && key.text()) found = find_attribute(value, name);
  return found ? std::move(*found) : Value(Undefined{name});
}

}  // namespace kvik::jinja
