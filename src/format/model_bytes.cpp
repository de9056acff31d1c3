#include "format/model_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/quantity.h"

namespace kvik {
namespace {

constexpr uint64_t kHeadStepBytes = uint64_t{1} << 20;
// Fresh memory costs as much as reading does; a larger part is rare.
constexpr size_t kMaxSpareBytes = size_t{64} << 20;

Result<MemoryRegion> take(uint64_t n_bytes) {
  if (auto region = MemoryRegion::take(n_bytes)) return std::move(*region);
  return fail(ErrorCode::kIo, fmt::format("no memory for {} of the model", format_bytes(n_bytes)));
}

}  // namespace

Result<ModelBytes::Bytes> ModelBytes::head(uint64_t n_bytes) {
  CHECK(n_bytes <= size_);
  if (!file_) return memory_.first(n_bytes);
  if (head_.bytes().size() < n_bytes) {
    // Addresses alone: they stay where they are however long the header turns out to be.
    CHECK(n_head_ == 0);
    TRY_ASSIGN(head_, take(std::min(size_, kMaxHeadBytes)));
    CHECK(n_bytes <= head_.bytes().size());
  }
  if (n_bytes > n_head_) {
    const uint64_t end =
        std::min<uint64_t>(std::max(n_bytes, n_head_ + kHeadStepBytes), head_.bytes().size());
    TRY(file_->read(n_head_, head_.bytes().subspan(n_head_, end - n_head_)));
    n_head_ = end;
  }
  return Bytes(head_.bytes()).first(n_bytes);
}

void ModelBytes::drop_head() {
  head_ = MemoryRegion();
  n_head_ = 0;
}

Result<ModelBytes::Bytes> ModelBytes::part(uint64_t offset, uint64_t n_bytes, size_t alignment) {
  CHECK(offset <= size_ && n_bytes <= size_ - offset);
  if (file_) return keep(offset, n_bytes);
  const Bytes there = memory_.subspan(offset, n_bytes);
  const bool is_aligned = reinterpret_cast<uintptr_t>(there.data()) % alignment == 0;
  return is_aligned ? there : keep(offset, n_bytes);
}

// A copy in memory of our own, which is aligned for everything.
Result<ModelBytes::Bytes> ModelBytes::keep(uint64_t offset, uint64_t n_bytes) {
  const auto known = parts_.find(offset);
  if (known != parts_.end() && known->second.bytes().size() >= n_bytes) {
    return Bytes(known->second.bytes()).first(n_bytes);
  }
  MemoryRegion region = std::exchange(spare_, {});
  if (region.bytes().size() < n_bytes) {
    TRY_ASSIGN(region, take(n_bytes));
  }
  const auto bytes = region.bytes().first(n_bytes);
  if (file_) {
    TRY(file_->read(offset, bytes));
  } else {
    std::memcpy(bytes.data(), memory_.data() + offset, n_bytes);
  }
  parts_[offset] = std::move(region);
  return Bytes(bytes);
}

void ModelBytes::release(uint64_t offset) {
  const auto it = parts_.find(offset);
  if (it == parts_.end()) return;
  const size_t n_bytes = it->second.bytes().size();
  if (n_bytes <= kMaxSpareBytes && n_bytes > spare_.bytes().size()) spare_ = std::move(it->second);
  parts_.erase(it);
}

}  // namespace kvik
