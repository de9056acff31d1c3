#include "format/model_source.h"

namespace kvik {

std::optional<size_t> ModelSource::find(std::string_view name) const {
  const auto all = tensors();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  return std::nullopt;
}

}  // namespace kvik
