#include <array>

#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

using Test = Callable<Value, bool>;

template <auto kHolds>
Result<bool> plain(Runtime&, const Value& value, const BoundArguments&) {
  return kHolds(value);
}

template <Comparison kComparison>
Result<bool> compares(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  return compare(runtime, kComparison, value, *arguments.get(0));
}

Result<bool> is_same(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  const Value& other = *arguments.get(0);
  if (type_name(value) != type_name(other)) return false;
  return same(runtime, value, other);
}

Result<int64_t> remainder(const Value& value, int64_t divisor) {
  const auto number = value.as_int();
  if (!number || divisor == 0) return wrong("a {} cannot be divided", type_name(value));
  return divisor == -1 ? 0 : *number % divisor;
}

template <bool kIsOdd>
Result<bool> is_odd(Runtime&, const Value& value, const BoundArguments&) {
  TRY_ASSIGN(const int64_t rest, remainder(value, 2));
  return (rest != 0) == kIsOdd;
}

Result<bool> is_divisible(Runtime&, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const int64_t divisor, arguments.get_int(0, 0));
  TRY_ASSIGN(const int64_t rest, remainder(value, divisor));
  return rest == 0;
}

template <const char* kMethod>
Result<bool> text_is(Runtime& runtime, const Value& value, const BoundArguments&) {
  TRY_ASSIGN(Text text, text_of(runtime, value));
  TRY_ASSIGN(const Value holds, call_method(runtime, Value(std::move(text)), kMethod, {}));
  return holds.truthy();
}

constexpr char kIsUpper[] = "isupper";
constexpr char kIsLower[] = "islower";

Result<bool> names_filter(Runtime&, const Value& value, const BoundArguments&) {
  return value.text() && is_filter(value.text()->view());
}

Result<bool> names_test(Runtime&, const Value& value, const BoundArguments&) {
  return value.text() && is_test(value.text()->view());
}

bool is_bool(const Value& v, bool wanted) { return v.as<bool>() && *v.as<bool>() == wanted; }

constexpr auto kTests = std::to_array<Test>({
    {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
    {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
    {"none", plain<[](const Value& v) { return v.is_none(); }>},
    {"boolean", plain<[](const Value& v) { return v.as<bool>() != nullptr; }>},
    {"true", plain<[](const Value& v) { return is_bool(v, true); }>},
    {"false", plain<[](const Value& v) { return is_bool(v, false); }>},
    {"integer", plain<[](const Value& v) { return v.as<int64_t>() != nullptr; }>},
    {"float", plain<[](const Value& v) { return v.as<double>() != nullptr; }>},
    {"number", plain<[](const Value& v) { return v.is_number(); }>},
    {"string", plain<[](const Value& v) { return v.text() != nullptr; }>},
    {"mapping", plain<[](const Value& v) { return v.dict() != nullptr; }>},
    {"sequence", plain<[](const Value& v) {
       return v.is_undefined() || v.text() || v.dict() || (v.list() && v.list()->is_sequence());
     }>},
    {"iterable", plain<[](const Value& v) {
       return v.is_undefined() || v.text() || v.list() || v.dict() || v.loop() || v.generator();
     }>},
    {"callable", plain<[](const Value& v) {
       return v.is_undefined() || v.as<Function>() || v.as<Value::MacroPtr>() || v.loop();
     }>},
    {"escaped", plain<[](const Value& v) { return v.text() && v.text()->is_markup(); }>},
    {"odd", is_odd<true>},
    {"even", is_odd<false>},
    {"divisibleby", is_divisible, "num"},
    {"upper", text_is<kIsUpper>},
    {"lower", text_is<kIsLower>},
    {"in", compares<Comparison::kIn>, "other!"},
    {"sameas", is_same, "other!"},
    {"filter", names_filter},
    {"test", names_test},
    {"eq", compares<Comparison::kEqual>, "other!"},
    {"equalto", compares<Comparison::kEqual>, "other!"},
    {"==", compares<Comparison::kEqual>, "other!"},
    {"ne", compares<Comparison::kUnequal>, "other!"},
    {"!=", compares<Comparison::kUnequal>, "other!"},
    {"lt", compares<Comparison::kLess>, "other!"},
    {"lessthan", compares<Comparison::kLess>, "other!"},
    {"<", compares<Comparison::kLess>, "other!"},
    {"gt", compares<Comparison::kGreater>, "other!"},
    {"greaterthan", compares<Comparison::kGreater>, "other!"},
    {">", compares<Comparison::kGreater>, "other!"},
    {"le", compares<Comparison::kAtMost>, "other!"},
    {"<=", compares<Comparison::kAtMost>, "other!"},
    {"ge", compares<Comparison::kAtLeast>, "other!"},
    {">=", compares<Comparison::kAtLeast>, "other!"},
});

}  // namespace

bool is_test(std::string_view name) { return find_callable(kTests, name) != nullptr; }

Result<bool> apply_test(Runtime& runtime, std::string_view name, const Value& value,
                        const Arguments& arguments) {
  TRY(runtime.charge(1));
  const Test* test = find_callable(kTests, name);
  if (!test) return wrong("there is no test '{}'", name);
  return test->call(runtime, value, arguments);
}

}  // namespace kvik::jinja
