#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

const Filter* find_filter(std::string_view name) {
  const Filter* of_one = find_callable(value_filters(), name);
  return of_one ? of_one : find_callable(list_filters(), name);
}

}  // namespace

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

Result<Value> apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                           const Arguments& arguments) {
  TRY(runtime.charge(1));
  const Filter* filter = find_filter(name);
  if (!filter) return wrong("there is no filter '{}'", name);
  return filter->call(runtime, value, arguments);
}

Value key_of(std::string_view written) {
  const bool is_number = !written.empty() && written.size() < 10 &&
                         written.find_first_not_of("0123456789") == written.npos;
  const std::string text(written);
  return is_number ? Value(int64_t{std::stol(text)}) : make_text(text);
}

Result<Value> get_path(const Value& value, const Value& path) {
  if (!path.text()) return get_item(value, path);
  Value at = value;
  std::string_view rest = path.text()->view();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (at.is_undefined()) return at;
    TRY_ASSIGN(at, get_item(at, key_of(part)));
    if (dot == rest.npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace kvik::jinja
