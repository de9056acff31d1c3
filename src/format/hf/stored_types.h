#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "format/tensor_source.h"

namespace kvik::hf {

// Checks that the file stores a tensor as one of the expected types, named as in safetensors files:
// other numbers of as many bits would be read as these. Errors: kUnsupported, naming both.
Result<void> check_stored_type(const TensorSource& source, size_t index,
                               std::span<const std::string_view> expected);

}  // namespace kvik::hf
