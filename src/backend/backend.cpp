#include "backend/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kvik {

std::string computable_types(const Backend& backend) {
  std::vector<std::string_view> names;
  for (const ElementTraits& t : element_types()) {
    if (backend.can_compute(t.type)) names.emplace_back(t.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace kvik
