#include <algorithm>

#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

// Removes the first word of a signature and returns it.
std::string_view take_word(std::string_view& signature) {
  const size_t end = std::min(signature.find(' '), signature.size());
  const std::string_view word = signature.substr(0, end);
  signature.remove_prefix(std::min(end + 1, signature.size()));
  return word;
}

}  // namespace

const Value* Arguments::get(size_t index, std::string_view name) const {
  return index < positional.size() ? &positional[index] : find_named(name);
}

const Value* Arguments::find_named(std::string_view name) const {
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::optional<Value> Arguments::take_named(std::string_view name) {
  const auto found = std::ranges::find(named, name, &std::pair<std::string, Value>::first);
  if (found == named.end()) return std::nullopt;
  Value value = std::move(found->second);
  named.erase(found);
  return value;
}

Result<BoundArguments> BoundArguments::bind(std::string_view callee, std::string_view signature,
                                            const Arguments& given) {
  BoundArguments bound(given);
  bound.signature_ = signature;
  if (signature == "*") {
    for (const Value& value : given.positional) bound.values_.push_back(&value);
    return bound;
  }
  size_t n_named = 0;
  while (!signature.empty()) {
    std::string_view name = take_word(signature);
    const bool may_miss = name.ends_with('?'), has_no_name = name.ends_with('!');
    if (may_miss || has_no_name) name.remove_suffix(1);
    const size_t place = bound.values_.size();
    const Value* placed = place < given.positional.size() ? &given.positional[place] : nullptr;
    const Value* named = has_no_name ? nullptr : given.find_named(name);
    if (placed && named) return wrong("{} is given its '{}' twice", callee, name);
    if (!placed && !named && !may_miss) return wrong("{} lacks its '{}'", callee, name);
    n_named += named ? 1 : 0;
    bound.values_.push_back(placed ? placed : named);
  }
  if (given.positional.size() > bound.values_.size() || given.named.size() > n_named) {
    return wrong("{} takes other arguments", callee);
  }
  return bound;
}

std::string_view BoundArguments::name_of(size_t index) const {
  std::string_view rest = signature_;
  while (index-- > 0) take_word(rest);
  const std::string_view name = take_word(rest);
  return name.substr(0, name.find_first_of("?!*"));
}

Result<int64_t> BoundArguments::get_int(size_t index, int64_t otherwise) const {
  const Value* value = get(index);
  if (!value || value->is_none()) return otherwise;
  if (const auto number = value->as_int()) return *number;
  return wrong("'{}' is a {}, expected an integer", name_of(index), type_name(*value));
}

Result<std::string> BoundArguments::get_string(size_t index, std::string otherwise) const {
  const Value* value = get(index);
  if (!value || value->is_none()) return otherwise;
  if (value->text()) return value->text()->bytes();
  return wrong("'{}' is a {}, expected a string", name_of(index), type_name(*value));
}

Result<std::string> BoundArguments::get_required_string(size_t index) const {
  const Value* value = get(index);
  if (value && value->text()) return value->text()->bytes();
  return wrong("'{}' must be a string", name_of(index));
}

}  // namespace kvik::jinja
