#pragma once

#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace kvik::jinja {

using Filter = Callable<Value, Value>;

// Of one value, and of many.
std::span<const Filter> value_filters();
std::span<const Filter> list_filters();

// The value under "a.b.0", from item to item; undefined where there is none.
Result<Value> get_path(const Value& value, const Value& path);

}  // namespace kvik::jinja
