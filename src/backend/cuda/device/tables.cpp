#include "backend/cuda/device/tables.h"

#include <algorithm>

namespace kvik::cuda {

const std::byte* Tables::put_bytes(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  ++now_;
  for (List& list : lists_) {
    if (std::ranges::equal(list.bytes, bytes)) {
      list.used_at = now_;
      return list.on_device.data();
    }
  }
  if (lists_.size() < kMostLists) lists_.emplace_back();
  List& oldest = *std::ranges::min_element(lists_, {}, &List::used_at);
  oldest.bytes.assign(bytes.begin(), bytes.end());
  oldest.used_at = now_;
  if (oldest.on_device.size() < bytes.size()) {
    const size_t wanted = std::max(bytes.size(), 2 * oldest.on_device.size());
    oldest.on_device = Buffer();
    oldest.on_device = memory_.allocate(wanted);
  }
  memory_.copy_in(oldest.on_device.data(), bytes);
  return oldest.on_device.data();
}

}  // namespace kvik::cuda
