#include <algorithm>
#include <array>

#include "text/jinja/runtime.h"

namespace kvik::jinja {
namespace {

using Function = Result<bool> (*)(Runtime&, const Value&, const Arguments&);

struct Test {
  std::string_view name;
  Function function;
  std::string_view signature = {};
};

bool is_iterable(const Value& v) {
  return v.is_undefined() || v.text() || v.list() || v.dict() || v.loop() || v.generator();
}

template <bool (*kHolds)(const Value&)>
Result<bool> plain(Runtime&, const Value& value, const Arguments&) {
  return kHolds(value);
}

Result<const Value*> operand(const Arguments& arguments) {
  if (arguments.positional.empty()) return wrong("a test lacks what it compares with");
  return &arguments.positional[0];
}

Result<bool> is_equal(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  return same(runtime, value, *other);
}

Result<bool> is_unequal(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const bool is_same, is_equal(runtime, value, arguments));
  return !is_same;
}

Result<bool> is_less(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  return less(runtime, value, *other);
}

Result<bool> is_greater(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  return less(runtime, *other, value);
}

Result<bool> is_at_most(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  TRY_ASSIGN(const bool is_more, less(runtime, *other, value));
  return !is_more;
}

Result<bool> is_at_least(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  TRY_ASSIGN(const bool is_fewer, less(runtime, value, *other));
  return !is_fewer;
}

Result<bool> is_in(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  return contains(runtime, *other, value);
}

Result<bool> is_same(Runtime& runtime, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const Value* other, operand(arguments));
  if (type_name(value) != type_name(*other)) return false;
  return same(runtime, value, *other);
}

Result<int64_t> remainder(const Value& value, int64_t divisor) {
  const auto number = value.as_int();
  if (!number || divisor == 0)
    return wrong(fmt::format("a {} can not be divided", type_name(value)));
  return divisor == -1 ? 0 : *number % divisor;
}

Result<bool> is_odd(Runtime&, const Value& value, const Arguments&) {
  TRY_ASSIGN(const int64_t rest, remainder(value, 2));
  return rest != 0;
}

Result<bool> is_even(Runtime&, const Value& value, const Arguments&) {
  TRY_ASSIGN(const int64_t rest, remainder(value, 2));
  return rest == 0;
}

Result<bool> is_divisible(Runtime&, const Value& value, const Arguments& arguments) {
  TRY_ASSIGN(const int64_t divisor, arguments.get_int(0, "num", 0));
  TRY_ASSIGN(const int64_t rest, remainder(value, divisor));
  return rest == 0;
}

Result<bool> is_upper(Runtime& runtime, const Value& value, const Arguments&) {
  TRY_ASSIGN(Text text, text_of(runtime, value));
  TRY_ASSIGN(const Value holds, call_method(runtime, Value(std::move(text)), "isupper", {}));
  return holds.truthy();
}

Result<bool> is_lower(Runtime& runtime, const Value& value, const Arguments&) {
  TRY_ASSIGN(Text text, text_of(runtime, value));
  TRY_ASSIGN(const Value holds, call_method(runtime, Value(std::move(text)), "islower", {}));
  return holds.truthy();
}

Result<bool> names_filter(Runtime&, const Value& value, const Arguments&) {
  return value.text() && is_filter(value.text()->view());
}

Result<bool> names_test(Runtime&, const Value& value, const Arguments&) {
  return value.text() && is_test(value.text()->view());
}

bool escaped(const Value& v) { return v.text() && v.text()->is_markup(); }
bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is_none(); }
bool boolean(const Value& v) { return v.as<bool>() != nullptr; }
bool is_true(const Value& v) { return v.as<bool>() && *v.as<bool>(); }
bool is_false(const Value& v) { return v.as<bool>() && !*v.as<bool>(); }
bool integer(const Value& v) { return v.as<int64_t>() != nullptr; }
bool real(const Value& v) { return v.as<double>() != nullptr; }
bool number(const Value& v) { return v.is_number(); }
bool string(const Value& v) { return v.text() != nullptr; }
bool mapping(const Value& v) { return v.dict() != nullptr; }
bool sequence(const Value& v) {
  return v.is_undefined() || v.text() || v.dict() || (v.list() && v.list()->is_sequence());
}
bool callable(const Value& v) {
  return v.is_undefined() || v.as<kvik::jinja::Function>() || v.as<Value::MacroPtr>() || v.loop();
}

constexpr auto kTests = std::to_array<Test>({
    {"defined", plain<defined>},
    {"undefined", plain<undefined>},
    {"none", plain<none>},
    {"boolean", plain<boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<integer>},
    {"float", plain<real>},
    {"number", plain<number>},
    {"string", plain<string>},
    {"mapping", plain<mapping>},
    {"sequence", plain<sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<callable>},
    {"escaped", plain<escaped>},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible, "num"},
    {"upper", is_upper},
    {"lower", is_lower},
    {"in", is_in, "other"},
    {"sameas", is_same, "other"},
    {"filter", names_filter},
    {"test", names_test},
    {"eq", is_equal, "other"},
    {"equalto", is_equal, "other"},
    {"==", is_equal, "other"},
    {"ne", is_unequal, "other"},
    {"!=", is_unequal, "other"},
    {"lt", is_less, "other"},
    {"lessthan", is_less, "other"},
    {"<", is_less, "other"},
    {"gt", is_greater, "other"},
    {"greaterthan", is_greater, "other"},
    {">", is_greater, "other"},
    {"le", is_at_most, "other"},
    {"<=", is_at_most, "other"},
    {"ge", is_at_least, "other"},
    {">=", is_at_least, "other"},
});

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const Test& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace

bool is_test(std::string_view name) { return find_test(name) != nullptr; }

Result<bool> apply_test(Runtime& runtime, std::string_view name, const Value& value,
                        const Arguments& arguments) {
  TRY(runtime.charge(1));
  const Test* test = find_test(name);
  if (!test) return wrong(fmt::format("there is no test '{}'", name));
  TRY(arguments.check(name, test->signature));
  return test->function(runtime, value, arguments);
}

}  // namespace kvik::jinja
