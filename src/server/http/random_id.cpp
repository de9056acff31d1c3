#include "server/http/random_id.h"

#include <fmt/format.h>

#include <cstdint>
#include <random>

namespace kvik {

std::string random_id(std::string_view prefix) {
  static thread_local std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, uint32_t{device()}, uint32_t{device()},
                     uint32_t{device()});
}

}  // namespace kvik
