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

Result<std::vector<std::span<const std::byte>>> ModelSource::read_parts(size_t index,
                                                                        size_t n_parts) {
  TRY_ASSIGN(const std::span<const std::byte> all, read(index));
  std::vector<std::span<const std::byte>> parts;
  const size_t n_bytes = all.size() / n_parts;
  for (size_t i = 0; i < n_parts; ++i) parts.push_back(all.subspan(i * n_bytes, n_bytes));
  return parts;
}

}  // namespace kvik
