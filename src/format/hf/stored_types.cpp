#include "format/hf/stored_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "format/quoted.h"

namespace kvik::hf {

Result<void> check_stored_type(const TensorSource& source, size_t index,
                               std::span<const std::string_view> expected) {
  const std::string_view stored = source.stored_type(index);
  if (std::ranges::find(expected, stored) != expected.end()) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("tensor {} is of type {}, expected {}",
                                                   quoted(source.tensors()[index].name), stored,
                                                   fmt::join(expected, " or ")));
}

}  // namespace kvik::hf
