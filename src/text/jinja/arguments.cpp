#include <algorithm>

#include "text/jinja/runtime.h"

namespace kvik::jinja {

const Value* Arguments::get(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool Arguments::is_named(std::string_view name) const {
  return std::any_of(named.begin(), named.end(),
                     [&](const auto& argument) { return argument.first == name; });
}

std::optional<Value> Arguments::take_named(std::string_view name) {
  for (auto it = named.begin(); it != named.end(); ++it) {
    if (it->first != name) continue;
    Value value = std::move(it->second);
    named.erase(it);
    return value;
  }
  return std::nullopt;
}

Result<void> Arguments::check(std::string_view callee, std::string_view signature) const {
  if (signature == "*") return {};
  size_t n_parameters = 0;
  size_t n_named = 0;
  while (!signature.empty()) {
    const size_t end = std::min(signature.find(' '), signature.size());
    std::string_view name = signature.substr(0, end);
    signature.remove_prefix(std::min(end + 1, signature.size()));
    const bool may_miss = name.ends_with('?');
    if (may_miss) name.remove_suffix(1);
    const bool has_place = n_parameters < positional.size();
    const bool has_name = is_named(name);
    if (has_place && has_name)
      return wrong(fmt::format("{} is given its '{}' twice", callee, name));
    if (!has_place && !has_name && !may_miss) {
      return wrong(fmt::format("{} lacks its '{}'", callee, name));
    }
    n_named += has_name ? 1 : 0;
    ++n_parameters;
  }
  if (positional.size() > n_parameters || named.size() > n_named) {
    return wrong(fmt::format("{} takes other arguments", callee));
  }
  return {};
}

Result<int64_t> Arguments::get_int(size_t index, std::string_view name, int64_t otherwise) const {
  const Value* value = get(index, name);
  if (!value || value->is_none()) return otherwise;
  if (const auto number = value->as_int()) return *number;
  return wrong(fmt::format("'{}' is a {}, expected an integer", name, type_name(*value)));
}

Result<std::string> Arguments::get_string(size_t index, std::string_view name,
                                          std::string otherwise) const {
  const Value* value = get(index, name);
  if (!value || value->is_none()) return otherwise;
  if (value->text()) return value->text()->bytes();
  return wrong(fmt::format("'{}' is a {}, expected a string", name, type_name(*value)));
}

bool Arguments::get_flag(size_t index, std::string_view name, bool otherwise) const {
  const Value* value = get(index, name);
  return value ? value->truthy() : otherwise;
}

}  // namespace kvik::jinja
