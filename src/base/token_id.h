#pragma once

#include <cstdint>

namespace kvik {

// Index of a row of the model's embedding. Absence is std::optional<TokenId>, never a sentinel.
using TokenId = uint32_t;

}  // namespace kvik
