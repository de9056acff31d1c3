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
// Allocating fresh memory costs as much as reading; larger parts are rare.
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
    // Reserves addresses only, so that the head does not move as it grows.
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

Result<ModelBytes::Bytes> ModelBytes::read(const Range& range, size_t alignment) {
  CHECK(range.offset <= size_ && range.begin <= size_ - range.offset);
  const uint64_t first = range.offset + range.begin;
  CHECK(range.n_bytes <= size_ - first);
  if (file_) return keep(range);
  const Bytes there = memory_.subspan(first, range.n_bytes);
  const bool is_aligned = reinterpret_cast<uintptr_t>(there.data()) % alignment == 0;
  return is_aligned ? there : keep(range);
}

// Copies the range to suitably aligned memory.
Result<ModelBytes::Bytes> ModelBytes::keep(const Range& range) {
  Kept& kept = parts_[range.offset];
  if (kept.begin <= range.begin && range.begin - kept.begin <= kept.n_bytes &&
      range.n_bytes <= kept.n_bytes - (range.begin - kept.begin)) {
    return Bytes(kept.region.bytes()).subspan(range.begin - kept.begin, range.n_bytes);
  }
  kept.n_bytes = 0;
  if (kept.region.bytes().empty()) kept.region = std::exchange(*spare_, {});
  if (kept.region.bytes().size() < range.n_bytes) {
    kept.region = {};
    TRY_ASSIGN(kept.region, take(range.n_bytes));
  }
  const auto bytes = kept.region.bytes().first(range.n_bytes);
  const uint64_t first = range.offset + range.begin;
  if (file_) {
    TRY(file_->read(first, bytes));
  } else {
    std::memcpy(bytes.data(), memory_.data() + first, range.n_bytes);
  }
  kept.begin = range.begin;
  kept.n_bytes = range.n_bytes;
  return Bytes(bytes);
}

void ModelBytes::release(uint64_t offset) {
  const auto it = parts_.find(offset);
  if (it == parts_.end()) return;
  MemoryRegion& region = it->second.region;
  const size_t n_bytes = region.bytes().size();
  if (n_bytes <= kMaxSpareBytes && n_bytes > spare_->bytes().size()) *spare_ = std::move(region);
  parts_.erase(it);
}

}  // namespace kvik
