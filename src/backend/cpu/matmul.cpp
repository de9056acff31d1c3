#include "backend/cpu/matmul.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvik::cpu {
namespace {

// Columns that one item computes: enough work to pay for the counter, enough items to share out.
constexpr uint32_t kStripPanels = 2;

// Packed activations of one block of rows stay in a core's second-level cache while the panels of
// the weights pass by.
constexpr size_t kRowBlockBytes = size_t{1} << 20;

// Packed activations begin with this much, so that the walk through all of them meets one page.
constexpr size_t kHugePage = size_t{2} << 20;

uint32_t ceil_div(uint32_t n, uint32_t unit) { return n / unit + (n % unit != 0); }

void grow(Buffer& buffer, size_t bytes, Memory& memory) {
  if (buffer.size() < bytes) {
    buffer = Buffer();
    buffer = memory.allocate(bytes);
  }
}

}  // namespace

struct Matmul::Strip {
  const CpuPackedMatrix::Part& part;
  uint32_t k;
  uint32_t first_panel, n_panels;  // within the part
  uint32_t first_row, n_rows;      // of x
  Rows out;
  MatmulInto into;
};

Matmul::Matmul(const MatmulKernels& kernels, Memory& memory, ThreadPool& pool)
    : kernels_(kernels), memory_(memory), pool_(pool), sums_(pool.n_threads()) {}

const WeightKernels& Matmul::kernels_of(ElementType type) const {
  switch (type) {
    case ElementType::kF32:
      return kernels_.f32;
    case ElementType::kF16:
      return kernels_.f16;
    case ElementType::kBF16:
      return kernels_.bf16;
    case ElementType::kQ8_0:
      return kernels_.q8_0;
    case ElementType::kQ4_0:
      return kernels_.q4_0;
    default:
      CHECK(can_pack(type));
      return kernels_.f32;
  }
}

void Matmul::pack_activations(Rows x, ActivationFormat format) {
  const ActivationKernels& kernels = kernels_.activations[std::to_underlying(format)];
  Buffer& packed = activations_[std::to_underlying(format)];
  const size_t row_bytes = kernels.row_bytes(x.n_cols);
  grow(packed, std::max(x.n_rows * row_bytes, kHugePage), memory_);
  pool_.run(ceil_div(x.n_rows, kernels.tile_rows), [&](size_t tile, uint32_t) {
    const uint32_t first = static_cast<uint32_t>(tile) * kernels.tile_rows;
    kernels.pack({.x = x.data + size_t{first} * x.stride,
                  .stride = x.stride,
                  .n_rows = std::min(kernels.tile_rows, x.n_rows - first),
                  .k = x.n_cols,
                  .out = packed.data() + first * row_bytes});
  });
}

void Matmul::multiply(const Strip& strip, uint32_t thread) {
  const CpuPackedMatrix::Part& part = strip.part;
  const WeightKernels& kernels = kernels_of(part.type);
  const auto format = std::to_underlying(kernels.format);
  const size_t row_bytes = kernels_.activations[format].row_bytes(strip.k);
  const uint32_t first_column = strip.first_panel * kPanelColumns;
  kernels.multiply({
      .weights = part.panels + strip.first_panel * part.panel_bytes,
      .panel_bytes = part.panel_bytes,
      .n_panels = strip.n_panels,
      .k = strip.k,
      .x = activations_[format].data() + strip.first_row * row_bytes,
      .n_rows = strip.n_rows,
      .out = strip.out.data + size_t{strip.first_row} * strip.out.stride + part.first_row +
             first_column,
      .out_stride = strip.out.stride,
      .n_columns = std::min(strip.n_panels * kPanelColumns, part.n_rows - first_column),
      .accumulate = strip.into == MatmulInto::kAdd,
      .scratch = sums_[thread].floats(),
  });
}

void Matmul::run(Rows x, const CpuPackedMatrix& w, Rows out, MatmulInto into) {
  CHECK(x.n_cols == w.n_cols() && out.n_cols == w.n_rows() && x.n_rows == out.n_rows);
  if (x.n_rows == 0) return;
  bool is_packed[kNumActivationFormats] = {};
  for (const CpuPackedMatrix::Part& part : w.parts()) {
    const ActivationFormat format = kernels_of(part.type).format;
    if (!std::exchange(is_packed[std::to_underlying(format)], true)) pack_activations(x, format);
  }
  for (const CpuPackedMatrix::Part& part : w.parts()) {
    const auto format = std::to_underlying(kernels_of(part.type).format);
    const ActivationKernels& kernels = kernels_.activations[format];
    const size_t tile_bytes = kernels.row_bytes(x.n_cols) * kernels.tile_rows;
    const auto tiles = static_cast<uint32_t>(std::max<size_t>(1, kRowBlockBytes / tile_bytes));
    const uint32_t block = std::min(x.n_rows, tiles * kernels.tile_rows);
    for (Buffer& sums : sums_) {
      grow(sums, block * kScratchFloatsPerRow * sizeof(float) + kWideBytes, memory_);
    }
    const uint32_t n_strips = ceil_div(part.n_panels, kStripPanels);
    pool_.run(size_t{n_strips} * ceil_div(x.n_rows, block), [&](size_t item, uint32_t thread) {
      const uint32_t first_panel = static_cast<uint32_t>(item % n_strips) * kStripPanels;
      const uint32_t first_row = static_cast<uint32_t>(item / n_strips) * block;
      multiply({.part = part,
                .k = x.n_cols,
                .first_panel = first_panel,
                .n_panels = std::min(kStripPanels, part.n_panels - first_panel),
                .first_row = first_row,
                .n_rows = std::min(block, x.n_rows - first_row),
                .out = out,
                .into = into},
               thread);
    });
  }
}

}  // namespace kvik::cpu
