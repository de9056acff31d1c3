#include "template/jinja/value.h"

#include <algorithm>

namespace kvik::jinja {

void Extent::hold(const Extent& inner) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  depth = std::max(depth, inner.depth + 1);
  n_nodes = std::min(kMost, n_nodes + inner.n_nodes);
  n_bytes = std::min(kMost, n_bytes + inner.n_bytes);
}

Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value::Value(List list) {
  list.extent.depth = 1;
  for (const Value& item : list.items) list.extent.hold(item.extent());
  v_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  dict.extent = {.depth = 1};
  for (const auto& [key, value] : dict.entries) {
    dict.extent.hold(key.extent());
    dict.extent.hold(value.extent());
  }
  v_ = std::make_shared<const Dict>(std::move(dict));
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text() && name.text()->view() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.text()) return find(key.text()->view());
  for (const auto& [name, value] : entries) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

std::optional<int64_t> Value::as_int() const {
  if (const bool* b = as<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = as<int64_t>()) return *i;
  return std::nullopt;
}

std::optional<double> Value::as_number() const {
  if (const double* d = as<double>()) return *d;
  if (const auto i = as_int()) return static_cast<double>(*i);
  return std::nullopt;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (const auto number = as_number()) return *number != 0;
  if (text()) return !text()->empty();
  if (list()) return !list()->items.empty();
  if (dict()) return !dict()->entries.empty();
  return true;
}

Extent Value::extent() const {
  if (text()) return {.n_bytes = text()->size()};
  if (list()) return list()->extent;
  if (generator()) return generator()->extent;
  if (dict()) return dict()->extent;
  const Function* function = as<Function>();
  if (!function || !function->self) return {};
  Extent extent = function->self->extent();
  ++extent.depth;
  return extent;
}

Value make_text(std::string bytes, Origin origin) { return Text(std::move(bytes), origin); }
Value make_list(std::vector<Value> items) { return List{.items = std::move(items)}; }
Value make_tuple(std::vector<Value> items) {
  return make_view(List::Kind::kTuple, std::move(items));
}
Value make_view(List::Kind kind, std::vector<Value> items) {
  return List{.items = std::move(items), .kind = kind};
}
Value make_generator(std::vector<Value> items) {
  auto made = std::make_shared<Generator>();
  made->extent.depth = 1;
  for (const Value& item : items) made->extent.hold(item.extent());
  made->items = std::move(items);
  return Value(std::move(made));
}

bool equal(const Value& a, const Value& b) {
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.as_int() && b.as_int()) return *a.as_int() == *b.as_int();
  if (a.is_number() || b.is_number()) return a.as_number() == b.as_number();
  if (a.text() && b.text()) return a.text()->bytes() == b.text()->bytes();
  if (a.list() && b.list()) {
    return (a.list()->kind == b.list()->kind || (a.list()->is_tuple() && b.list()->is_tuple())) &&
           a.list()->kind != List::Kind::kValues &&
           std::equal(a.list()->items.begin(), a.list()->items.end(), b.list()->items.begin(),
                      b.list()->items.end(), equal);
  }
  if (a.dict() && b.dict()) {
    const auto& entries = a.dict()->entries;
    return entries.size() == b.dict()->entries.size() &&
           std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
             const Value* other = b.dict()->find(entry.first);
             return other && equal(entry.second, *other);
           });
  }
  if (a.generator()) return a.generator() == b.generator();
  return a.ns() && a.ns() == b.ns();
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "undefined";
  if (value.is_none()) return "None";
  if (value.as<bool>()) return "bool";
  if (value.as<int64_t>()) return "int";
  if (value.as<double>()) return "float";
  if (value.text()) return "str";
  if (value.list()) {
    constexpr std::array<std::string_view, 7> kNames = {
        "list", "tuple", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
    return kNames[static_cast<size_t>(value.list()->kind)];
  }
  if (value.dict()) return "dict";
  if (value.generator()) return "generator";
  if (value.ns()) return "namespace";
  return "function";
}

bool is_hashable(const Value& value) {
  if (value.dict()) return false;
  if (!value.list()) return true;
  const auto& items = value.list()->items;
  const bool is_fixed = value.list()->is_tuple() || value.list()->kind == List::Kind::kRange;
  return is_fixed && std::all_of(items.begin(), items.end(), is_hashable);
}

void set_entry(Dict& dict, Value key, Value value) {
  for (auto& [name, old] : dict.entries) {
    if (!equal(name, key)) continue;
    old = std::move(value);
    return;
  }
  dict.entries.emplace_back(std::move(key), std::move(value));
}

}  // namespace kvik::jinja
