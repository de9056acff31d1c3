#include "server/http/random_id.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <random>

namespace kvik {

std::string random_id(std::string_view prefix) {
  // Not in the thread's own memory, of which the shared library gets little.
  static thread_local const auto device = std::make_unique<std::random_device>();
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, uint32_t{(*device)()}, uint32_t{(*device)()},
                     uint32_t{(*device)()});
}

}  // namespace kvik
