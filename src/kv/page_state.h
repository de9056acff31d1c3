#pragma once

#include <cstdint>

namespace kvik {

enum class PageId : uint32_t {};

enum class PageState : uint8_t { kFree, kLeased, kSealed, kCached };

}  // namespace kvik
