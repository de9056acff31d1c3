#include "backend/layout/panel_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "backend/layout/packed_format.h"
#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/tensor_digest.h"

namespace kvik {
namespace {

constexpr size_t kReadBytes = size_t{16} << 20;  // bytes of the source that are read at a time

// Returns false if the source has a number that is not finite.
bool pack_panel(const TensorView& source, uint32_t panel, std::byte* out) {
  const uint64_t first = uint64_t{panel} * kPanelColumns;
  const auto n = static_cast<uint32_t>(std::min<uint64_t>(kPanelColumns, source.n_rows - first));
  const PackedFormat& format = packed_format(source.type);
  bool is_finite = true;
  for (uint32_t column = 0; column < n; ++column) {
    const uint64_t begin = (first + column) * source.row_bytes();
    is_finite &= pack_column(format, source.bytes.subspan(begin, source.row_bytes()), column, out);
  }
  return is_finite;
}

}  // namespace

bool can_pack(ElementType type) {
  return packed_format(type).layout != PackedFormat::Layout::kNone;
}

uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) {
  const uint64_t n_panels = n_rows / kPanelColumns + (n_rows % kPanelColumns != 0);
  return n_panels * panel_bytes(packed_format(type), static_cast<uint32_t>(n_cols));
}

PanelMatrix::PanelMatrix(std::span<const TensorView> stacked, Memory& memory) {
  CHECK(!stacked.empty());
  n_cols_ = static_cast<uint32_t>(stacked.front().n_cols);
  size_t n_bytes = 0;
  uint32_t n_panels = 0;
  for (const TensorView& source : stacked) {
    CHECK(source.n_cols == n_cols_ && source.n_rows <= UINT32_MAX - n_rows_);
    CHECK(n_cols_ % traits(source.type).block_elements == 0);
    const auto rows = static_cast<uint32_t>(source.n_rows);
    const uint32_t panels = rows / kPanelColumns + (rows % kPanelColumns != 0);
    parts_.push_back({source.type, n_rows_, rows, n_panels, panels,
                      panel_bytes(packed_format(source.type), n_cols_), nullptr, nullptr, 1.0f});
    n_bytes += packed_bytes(source.type, source.n_rows, source.n_cols);
    n_panels += panels;
    n_rows_ += rows;
  }
  bytes_ = memory.allocate(n_bytes);
  const std::byte* at = bytes_.data();
  for (Part& part : parts_) {
    part.panels = at;
    at += part.n_panels * part.panel_bytes;
  }
}

Result<void> PanelMatrix::fill(const ReadRows& read, ThreadPool& pool) {
  std::vector<Hash128> digests(parts_.back().first_panel + parts_.back().n_panels);
  for (size_t i = 0; i < parts_.size(); ++i) TRY(fill_part(i, read, pool, digests));
  source_digest_ = digest_of_pieces(digests);
  return {};
}

Result<void> PanelMatrix::fill_part(size_t number, const ReadRows& read, ThreadPool& pool,
                                    std::span<Hash128> digests) {
  static_assert(kPanelColumns == kDigestRows);
  Part& part = parts_[number];
  const size_t row_bytes = TensorView{part.type, 1, n_cols_, {}}.row_bytes();
  const uint64_t most = std::max<uint64_t>(1, kReadBytes / row_bytes / kPanelColumns);
  for (uint64_t panel = 0; panel < part.n_panels; panel += most) {
    const uint64_t first = panel * kPanelColumns;
    const uint64_t n = std::min<uint64_t>(most * kPanelColumns, part.n_rows - first);
    TRY_ASSIGN(TensorView rows, read(number, first, n));
    CHECK(rows.type == part.type && rows.n_rows == n && rows.n_cols == n_cols_);
    CHECK(rows.bytes.size() == n * row_bytes);
    CHECK((rows.gather.empty() && rows.scale == 1) || block_format(rows.type));
    if (panel == 0) {
      part.gather = keep_order(rows.gather);
      part.scale = rows.scale;
    } else {  // the order and scale are known from the first rows
      rows.gather = {};
      rows.scale = 1;
    }
    std::atomic<bool> is_finite = true;
    std::byte* out = bytes_.data() + (part.panels - bytes_.data()) + panel * part.panel_bytes;
    pool.run((n + kPanelColumns - 1) / kPanelColumns, [&](size_t i, uint32_t) {
      digests[part.first_panel + panel + i] = digest_piece(rows, i);  // rows are in the cache
      if (!pack_panel(rows, static_cast<uint32_t>(i), out + i * part.panel_bytes))
        is_finite.store(false, std::memory_order_relaxed);
    });
    if (is_finite) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("holds a {} that is not a finite number: the file is damaged, or was "
                            "written wrongly",
                            block_format(part.type) ? "scale" : "value"));
  }
  return {};
}

const uint32_t* PanelMatrix::keep_order(std::span<const uint32_t> gather) {
  if (gather.empty()) return nullptr;
  CHECK(gather.size() == n_cols_);
  for (const std::vector<uint32_t>& order : orders_) {
    if (std::ranges::equal(order, gather)) return order.data();
  }
  std::vector<bool> is_taken(n_cols_);
  for (const uint32_t k : gather) {
    CHECK(k < n_cols_ && !is_taken[k]);
    is_taken[k] = true;
  }
  orders_.emplace_back(gather.begin(), gather.end());
  return orders_.back().data();
}

void PanelMatrix::unpack_row(uint32_t row, float* out) const {
  CHECK(row < n_rows_);
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [row](const Part& p) { return row - p.first_row < p.n_rows; });
  CHECK(part->gather == nullptr);
  const uint32_t in_part = row - part->first_row;
  const std::byte* panel = part->panels + in_part / kPanelColumns * part->panel_bytes;
  unpack_column(packed_format(part->type), panel, in_part % kPanelColumns, {out, n_cols_});
  if (part->scale == 1) return;
  for (uint32_t i = 0; i < n_cols_; ++i) out[i] *= part->scale;
}

}  // namespace kvik
