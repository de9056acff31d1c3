#include "format/model_source.h"

namespace kvik {

float ModelSource::scale(size_t index, uint64_t slice) const {
  const auto all = scales(index);
  return all.empty() ? 1.0f : all[all.size() == 1 ? 0 : slice];
}

std::optional<size_t> ModelSource::find(std::string_view name) const {
  const auto all = tensors();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  return std::nullopt;
}

Result<std::span<const std::byte>> ModelSource::read_range(size_t index, uint64_t begin_byte,
                                                           uint64_t n_bytes) {
  TRY_ASSIGN(const std::span<const std::byte> all, read(index));
  return all.subspan(begin_byte, n_bytes);
}

}  // namespace kvik
