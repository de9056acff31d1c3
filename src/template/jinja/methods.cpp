#include <algorithm>
#include <array>

#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

constexpr auto kDictMethods =
    std::to_array<std::string_view>({"get", "items", "keys", "values", "copy"});
constexpr auto kListMethods = std::to_array<std::string_view>({"index", "count", "copy"});
// In Hugging Face's sandbox, values are immutable: these methods exist, but calling them is an
// error.
constexpr auto kDictMutators =
    std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
constexpr auto kListMutators = std::to_array<std::string_view>(
    {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Value> call_dict(Runtime& runtime, const Value& self, std::string_view name,
                        const Arguments& arguments) {
  const Dict& dict = *self.dict();
  TRY(runtime.charge(1 + dict.entries.size() / 16));
  if (name == "copy") return self;
  if (name == "get") {
    const Value* key = arguments.get(0, "key");
    if (!key) return wrong("get() takes a key");
    if (const Value* found = dict.find(*key)) return *found;
    const Value* otherwise = arguments.get(1, "default");
    return otherwise ? *otherwise : Value(None{});
  }
  TRY(runtime.charge(dict.entries.size()));
  using Kind = List::Kind;
  const Kind kind = name == "items" ? Kind::kItems : name == "keys" ? Kind::kKeys : Kind::kValues;
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    items.push_back(kind == Kind::kItems  ? make_tuple({key, value})
                    : kind == Kind::kKeys ? key
                                          : value);
  }
  return make_view(kind, std::move(items));
}

Result<Value> call_list(Runtime& runtime, const Value& self, std::string_view name,
                        const Arguments& arguments) {
  if (name == "copy") return self;
  const auto& items = self.list()->items;
  const Value* wanted = arguments.get(0, "value");
  if (!wanted) return wrong("{}() takes a value", name);
  TRY(runtime.charge(std::min(items.size() * wanted->extent().n_nodes, self.extent().n_nodes)));
  const auto is_wanted = [&](const Value& item) { return equal(item, *wanted); };
  if (name == "count") return Value(int64_t{std::count_if(items.begin(), items.end(), is_wanted)});
  const auto found = std::find_if(items.begin(), items.end(), is_wanted);
  if (found == items.end()) return wrong("index() finds nothing");
  return Value(int64_t{found - items.begin()});
}

Result<Value> call_loop(Runtime& runtime, Loop& loop, std::string_view name,
                        const Arguments& arguments) {
  if (name == "cycle") {
    if (arguments.positional.empty()) return wrong("cycle() takes values");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  Value now = make_tuple(arguments.positional);
  bool is_same = false;
  if (loop.last_changed) {
    TRY_ASSIGN(is_same, same(runtime, *loop.last_changed, now));
  }
  loop.last_changed = std::move(now);
  return Value(!is_same);
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  if (self.text()) return find_string_method(name) != nullptr;
  if (self.dict()) return is_among(kDictMethods, name) || is_among(kDictMutators, name);
  if (!self.list()) return false;
  if (self.list()->kind == List::Kind::kList) {
    return is_among(kListMethods, name) || is_among(kListMutators, name);
  }
  return self.list()->is_sequence() && is_among(kListMethods, name) && name != "copy";
}

Result<Value> call_method(Runtime& runtime, const Value& self, std::string_view name,
                          const Arguments& arguments) {
  if (self.loop()) return call_loop(runtime, *self.loop(), name, arguments);
  if (self.text()) {
    const StringMethod* method = find_string_method(name);
    if (method) return call_string(runtime, *method, *self.text(), arguments);
  }
  if (is_among(kDictMutators, name) || is_among(kListMutators, name)) {
    return wrong("{}() would change a {}, which templates may not", name, type_name(self));
  }
  if (self.dict()) return call_dict(runtime, self, name, arguments);
  if (self.list()) return call_list(runtime, self, name, arguments);
  return wrong("a {} has no method {}", type_name(self), name);
}

}  // namespace kvik::jinja
