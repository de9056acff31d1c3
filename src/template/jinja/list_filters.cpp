#include <algorithm>
#include <array>

#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

Result<Value> length(Runtime&, const Value& value, const BoundArguments&) {
  size_t n = 0;
  if (value.text()) {
    n = n_characters(value.text()->view());
  } else if (value.list()) {
    n = value.list()->items.size();
  } else if (value.dict()) {
    n = value.dict()->entries.size();
  } else if (!value.is_undefined()) {
    return wrong("a {} has no length", type_name(value));
  }
  return Value(static_cast<int64_t>(n));
}

Result<Value> list(Runtime& runtime, const Value& value, const BoundArguments&) {
  TRY_ASSIGN(std::vector<Value> items, iterate(runtime, value));
  return make_list(std::move(items));
}

Result<Value> first(Runtime& runtime, const Value& value, const BoundArguments&) {
  if (Generator* generator = value.generator()) {
    if (generator->n_taken == generator->items.size())
      return Value(Undefined{"the first of nothing"});
    return generator->items[generator->n_taken++];
  }
  TRY_ASSIGN(const std::vector<Value> items, iterate(runtime, value));
  return items.empty() ? Value(Undefined{"the first of nothing"}) : items.front();
}

Result<Value> last(Runtime& runtime, const Value& value, const BoundArguments&) {
  if (value.generator()) return wrong("a generator has no last item");
  TRY_ASSIGN(const std::vector<Value> items, iterate(runtime, value));
  return items.empty() ? Value(Undefined{"the last of nothing"}) : items.back();
}

Result<Value> reverse(Runtime& runtime, const Value& value, const BoundArguments&) {
  TRY_ASSIGN(std::vector<Value> items, iterate(runtime, value));
  std::reverse(items.begin(), items.end());
  if (value.generator()) return make_list(std::move(items));
  if (!value.text()) return make_generator(std::move(items));
  Text out;
  for (const Value& item : items) out.append(*item.text());
  return Value(out.like(*value.text()));
}

// Returns the key of each item: the item itself, or one of its attributes.
Result<std::vector<Value>> keys_of(Runtime& runtime, const std::vector<Value>& items,
                                   const Value* attribute, bool ignores_case) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    Value key = item;
    if (attribute && !attribute->is_none()) {
      TRY_ASSIGN(key, get_path(item, *attribute));
    }
    if (ignores_case && key.text()) {
      TRY_ASSIGN(key, with_case(runtime, *key.text(), Case::kLower));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

// Returns the indices of the items in the stable order of their keys. Fails if keys cannot be
// compared.
Result<std::vector<size_t>> order_of(Runtime& runtime, const std::vector<Value>& keys,
                                     bool is_reverse) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = 1; i < keys.size(); ++i) TRY(less(runtime, keys[i - 1], keys[i]));
  TRY(runtime.charge(keys.size() * 20));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto is_less =
        is_reverse ? less(runtime, keys[b], keys[a]) : less(runtime, keys[a], keys[b]);
    return is_less && *is_less;
  });
  return order;
}

// Returns the sort key of each item. It is a list, because "a,b" sorts by several attributes.
Result<std::vector<Value>> sort_keys(Runtime& runtime, const std::vector<Value>& items,
                                     const Value* attribute, bool ignores_case) {
  std::vector<std::vector<Value>> parts(items.size());
  std::string_view names = attribute && attribute->text() ? attribute->text()->view() : "";
  const bool has_names = attribute && attribute->text();
  while (true) {
    const size_t comma = std::min(names.find(','), names.size());
    const Value name = has_names   ? make_text(std::string(names.substr(0, comma)))
                       : attribute ? *attribute
                                   : Value(None{});
    TRY_ASSIGN(const auto keys, keys_of(runtime, items, &name, ignores_case));
    for (size_t i = 0; i < items.size(); ++i) parts[i].push_back(keys[i]);
    if (comma == names.size()) break;
    names.remove_prefix(comma + 1);
  }
  std::vector<Value> keys;
  for (auto& part : parts) keys.push_back(make_list(std::move(part)));
  return keys;
}

Result<Value> sort(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> items, iterate(runtime, value));
  const bool ignores_case = !arguments.get_flag(1);
  TRY_ASSIGN(const auto keys, sort_keys(runtime, items, arguments.get(2), ignores_case));
  TRY_ASSIGN(const auto order, order_of(runtime, keys, arguments.get_flag(0)));
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(items[i]);
  return make_list(std::move(sorted));
}

Result<Value> dictsort(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  if (!value.dict()) return wrong("dictsort takes no {}", type_name(value));
  TRY_ASSIGN(const std::string by, arguments.get_string(1, "key"));
  const bool ignores_case = !arguments.get_flag(0);
  std::vector<Value> wanted;
  for (const auto& [key, item] : value.dict()->entries) {
    wanted.push_back(by == "value" ? item : key);
  }
  TRY_ASSIGN(const auto keys, keys_of(runtime, wanted, nullptr, ignores_case));
  TRY_ASSIGN(const auto order, order_of(runtime, keys, arguments.get_flag(2)));
  std::vector<Value> sorted;
  for (const size_t i : order) {
    const auto& [key, item] = value.dict()->entries[i];
    sorted.push_back(make_tuple({key, item}));
  }
  return make_list(std::move(sorted));
}

Result<Value> items(Runtime& runtime, const Value& value, const BoundArguments&) {
  if (value.is_undefined()) return make_generator({});
  if (!value.dict()) return wrong("items takes no {}", type_name(value));
  TRY_ASSIGN(const Value items, call_method(runtime, value, "items", {}));
  return make_generator(items.list()->items);
}

Result<Value> join(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  const Value* separator = arguments.get(0);
  TRY_ASSIGN(const Text between, separator ? text_of(runtime, *separator) : Text());
  TRY_ASSIGN(const auto keys, keys_of(runtime, all, arguments.get(1), false));
  Text out;
  for (size_t i = 0; i < keys.size(); ++i) {
    TRY_ASSIGN(const Text part, text_of(runtime, keys[i]));
    TRY(runtime.charge_bytes(part.size() + between.size()));
    if (i > 0) out.append(between);
    out.append(part);
  }
  return Value(std::move(out));
}

Result<Value> unique(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  const bool ignores_case = !arguments.get_flag(0);
  TRY_ASSIGN(const auto keys, keys_of(runtime, all, arguments.get(1), ignores_case));
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    TRY(runtime.charge((seen.size() + 1) * keys[i].extent().n_nodes));
    if (!is_hashable(keys[i])) return wrong("unique takes no {}", type_name(keys[i]));
    const auto is_same = [&](const Value& key) { return equal(key, keys[i]); };
    if (std::any_of(seen.begin(), seen.end(), is_same)) continue;
    seen.push_back(keys[i]);
    kept.push_back(all[i]);
  }
  return make_generator(std::move(kept));
}

enum class Extreme { kLeast, kMost };

template <Extreme kExtreme>
Result<Value> extreme(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  const bool ignores_case = !arguments.get_flag(0);
  TRY_ASSIGN(const auto keys, keys_of(runtime, all, arguments.get(1), ignores_case));
  if (all.empty()) return Value(Undefined{"the extreme of nothing"});
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    TRY_ASSIGN(const bool is_better, kExtreme == Extreme::kLeast
                                         ? less(runtime, keys[i], keys[best])
                                         : less(runtime, keys[best], keys[i]));
    if (is_better) best = i;
  }
  return all[best];
}

Result<Value> sum(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  TRY_ASSIGN(const auto keys, keys_of(runtime, all, arguments.get(0), false));
  const Value* start = arguments.get(1);
  Value total = start ? *start : Value(int64_t{0});
  for (const Value& key : keys) {
    TRY_ASSIGN(total, binary(runtime, "+", total, key));
  }
  return total;
}

// Returns the arguments from index `from` on, which are passed to the named filter or test.
Arguments rest_of(const Arguments& arguments, size_t from) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() +
                            static_cast<std::ptrdiff_t>(std::min(from, rest.positional.size())));
  return rest;
}

// These filters treat any false value, including none, as an empty list.
Result<Value> map(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  if (!value.truthy()) return make_generator({});
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  std::vector<Value> mapped;
  const Arguments& given = arguments.given();
  const Value* attribute = given.positional.empty() ? given.find_named("attribute") : nullptr;
  const Value* otherwise = given.find_named("default");
  TRY_ASSIGN(const std::string filter, arguments.get_string(0, ""));
  const Arguments rest = rest_of(arguments.given(), 1);
  for (const Value& item : all) {
    Value result;
    if (attribute) {
      TRY_ASSIGN(result, get_path(item, *attribute));
      if (result.is_undefined() && otherwise) result = *otherwise;
    } else {
      TRY_ASSIGN(result, apply_filter(runtime, filter, item, rest));
    }
    mapped.push_back(std::move(result));
  }
  return make_generator(std::move(mapped));
}

enum class Keep { kPassing, kFailing };
enum class By { kItem, kAttribute };

template <Keep kKeep, By kBy>
Result<Value> choose(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  if (!value.truthy()) return make_generator({});
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  constexpr size_t kTestAt = kBy == By::kAttribute ? 1 : 0;
  if (kBy == By::kAttribute && !arguments.get(0)) {
    return wrong("selectattr and rejectattr take the name of an attribute");
  }
  TRY_ASSIGN(const std::string test, arguments.get_string(kTestAt, ""));
  const Arguments rest = rest_of(arguments.given(), kTestAt + 1);
  std::vector<Value> kept;
  for (const Value& item : all) {
    Value subject = item;
    if (kBy == By::kAttribute) {
      TRY_ASSIGN(subject, get_path(item, *arguments.get(0)));
    }
    bool passes = subject.truthy();
    if (!test.empty()) {
      TRY_ASSIGN(passes, apply_test(runtime, test, subject, rest));
    }
    if (passes == (kKeep == Keep::kPassing)) kept.push_back(item);
  }
  return make_generator(std::move(kept));
}

Result<Value> groupby(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  const Value* attribute = arguments.get(0);
  const Value* otherwise = arguments.get(1);
  const bool ignores_case = !arguments.get_flag(2);
  const auto with_default = [&](std::vector<Value> keys) {
    for (Value& key : keys) {
      if (key.is_undefined() && otherwise && !otherwise->is_none()) key = *otherwise;
    }
    return keys;
  };
  TRY_ASSIGN(auto shown, keys_of(runtime, all, attribute, false));
  TRY_ASSIGN(auto keys, keys_of(runtime, all, attribute, ignores_case));
  shown = with_default(std::move(shown));
  keys = with_default(std::move(keys));
  TRY_ASSIGN(const auto order, order_of(runtime, keys, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < order.size();) {
    std::vector<Value> group;
    const size_t first = order[i];
    for (; i < order.size(); ++i) {
      TRY_ASSIGN(const bool is_same, same(runtime, keys[order[i]], keys[first]));
      if (!is_same) break;
      group.push_back(all[order[i]]);
    }
    groups.push_back(make_view(List::Kind::kGroup, {shown[first], make_list(std::move(group))}));
  }
  return make_list(std::move(groups));
}

Result<Value> batch(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  TRY_ASSIGN(const int64_t size, arguments.get_int(0, 1));
  if (size < 1) return wrong("batch takes a size of at least 1");
  const Value* fill = arguments.get(1);
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : all) {
    batch.push_back(item);
    if (batch.size() == static_cast<size_t>(size))
      batches.push_back(make_list(std::exchange(batch, {})));
  }
  if (batch.empty()) return make_generator(std::move(batches));
  if (fill && !fill->is_none()) {
    TRY(runtime.charge(static_cast<uint64_t>(size)));
    batch.resize(static_cast<size_t>(size), *fill);
  }
  batches.push_back(make_list(std::move(batch)));
  return make_generator(std::move(batches));
}

// Splits the items into slices. The earlier slices are longer; with fill_with all have the same
// length.
Result<Value> slice_filter(Runtime& runtime, const Value& value, const BoundArguments& arguments) {
  TRY_ASSIGN(const std::vector<Value> all, iterate(runtime, value));
  TRY_ASSIGN(const int64_t n_slices, arguments.get_int(0, 1));
  if (n_slices == 0) return wrong("slice takes a number of slices");
  const auto n = static_cast<size_t>(std::max<int64_t>(n_slices, 0));
  TRY(runtime.charge(n));
  const Value* fill = arguments.get(1);
  std::vector<Value> slices;
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool is_longer = i < all.size() % n;
    const size_t end = at + all.size() / n + (is_longer ? 1 : 0);
    std::vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(end));
    if (fill && !fill->is_none() && !is_longer) part.push_back(*fill);
    slices.push_back(make_list(std::move(part)));
    at = end;
  }
  return make_generator(std::move(slices));
}

constexpr auto kFilters = std::to_array<Filter>({
    {"batch", batch, "linecount fill_with?"},
    {"count", length},
    {"dictsort", dictsort, "case_sensitive? by? reverse?"},
    {"first", first},
    {"groupby", groupby, "attribute default? case_sensitive?"},
    {"items", items},
    {"join", join, "d? attribute?"},
    {"last", last},
    {"length", length},
    {"list", list},
    {"map", map, "*"},
    {"max", extreme<Extreme::kMost>, "case_sensitive? attribute?"},
    {"min", extreme<Extreme::kLeast>, "case_sensitive? attribute?"},
    {"reject", choose<Keep::kFailing, By::kItem>, "*"},
    {"rejectattr", choose<Keep::kFailing, By::kAttribute>, "*"},
    {"reverse", reverse},
    {"select", choose<Keep::kPassing, By::kItem>, "*"},
    {"selectattr", choose<Keep::kPassing, By::kAttribute>, "*"},
    {"slice", slice_filter, "slices fill_with?"},
    {"sort", sort, "reverse? case_sensitive? attribute?"},
    {"sum", sum, "attribute? start?"},
    {"unique", unique, "case_sensitive? attribute?"},
});

}  // namespace

std::span<const Filter> list_filters() { return kFilters; }

}  // namespace kvik::jinja
