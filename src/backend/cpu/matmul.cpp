#include "backend/cpu/matmul.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace kvik::cpu {
namespace {

// Items per thread that absorb a noisy neighbour.
constexpr uint32_t kItemsPerThread = 4;

// Few rows wait for weights, that are fetched ahead: the first ones of a strip are not. More rows
// are work enough in one panel, and wait for each other's last strip.
constexpr uint32_t kFewRows = 16;
constexpr uint32_t kStripOfFewRows = 4;

// Tiles of rows that make up for reading the weights once more.
constexpr uint32_t kLeastTiles = 8;

// Packed activations of one block of rows. More than the second-level cache holds is no loss, for
// the kernels fetch rows ahead; fewer rows read and widen the weights more often (at k = 5632, 1
// MiB cost f32 a quarter).
constexpr size_t kRowBlockBytes = size_t{6} << 20;

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

// How one part of the weights is cut into items: strips of panels, by blocks of rows.
struct Matmul::Cut {
  const CpuPackedMatrix::Part& part;
  uint32_t strip_panels, n_strips;
  uint32_t block_rows;
  size_t first_item;  // counted over all parts
};

struct Matmul::Strip {
  const CpuPackedMatrix::Part& part;
  uint32_t k;
  uint32_t first_panel, n_panels;  // within the part
  uint32_t first_row, n_rows;      // of x
  uint32_t n_rows_of_x;
  Rows out;
  MatmulInto into;
};

Matmul::Matmul(const MatmulKernels& kernels, Memory& memory, ThreadPool& pool)
    : kernels_(kernels), memory_(memory), pool_(pool), sums_(pool.n_threads()) {}

Matmul::~Matmul() = default;

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
    case ElementType::kQ4_K:
      return kernels_.q4_k;
    case ElementType::kQ5_K:
      return kernels_.q5_k;
    case ElementType::kQ6_K:
      return kernels_.q6_k;
    default:
      CHECK(can_pack(type));
      return kernels_.f32;
  }
}

size_t Matmul::activation_bytes(ActivationFormat format, uint32_t n_rows, uint32_t k) const {
  const ActivationKernels& kernels = kernels_.activations[std::to_underlying(format)];
  return std::max(n_rows * kernels.row_bytes(k), kHugePage);
}

size_t Matmul::sum_bytes(uint32_t n_rows) {
  return n_rows * kScratchFloatsPerRow * sizeof(float) + kWideBytes;
}

size_t Matmul::thread_bytes(const WorkLimits& limits) {
  size_t bytes = sum_bytes(limits.n_rows);
  for (const WeightKind& weights : limits.weights) {
    bytes = std::max(bytes, pack_scratch_floats(weights.n_cols) * sizeof(float));
  }
  return bytes;
}

uint64_t Matmul::scratch_bytes(const WorkLimits& limits) const {
  size_t by_format[kNumActivationFormats] = {};
  for (const WeightKind& weights : limits.weights) {
    const ActivationFormat format = kernels_of(weights.type).format;
    size_t& bytes = by_format[std::to_underlying(format)];
    bytes = std::max(bytes, activation_bytes(format, limits.n_rows, weights.n_cols));
  }
  uint64_t sum = pool_.n_threads() * thread_bytes(limits);
  for (const size_t bytes : by_format) sum += bytes;
  return sum;
}

void Matmul::reserve(const WorkLimits& limits) {
  for (const WeightKind& weights : limits.weights) {
    const ActivationFormat format = kernels_of(weights.type).format;
    grow(activations_[std::to_underlying(format)],
         activation_bytes(format, limits.n_rows, weights.n_cols), memory_);
  }
  for (Buffer& sums : sums_) grow(sums, thread_bytes(limits), memory_);
}

void Matmul::pack_activations(Rows x, ActivationFormat format) {
  const ActivationKernels& kernels = kernels_.activations[std::to_underlying(format)];
  Buffer& packed = activations_[std::to_underlying(format)];
  const size_t row_bytes = kernels.row_bytes(x.n_cols);
  grow(packed, activation_bytes(format, x.n_rows, x.n_cols), memory_);
  for (Buffer& sums : sums_) {
    grow(sums, pack_scratch_floats(x.n_cols) * sizeof(float), memory_);
  }
  const uint32_t tile_rows = kernels.tile_rows(x.n_rows);
  pool_.run(ceil_div(x.n_rows, tile_rows), [&](size_t tile, uint32_t thread) {
    const uint32_t first = static_cast<uint32_t>(tile) * tile_rows;
    kernels.pack({.x = x.data + size_t{first} * x.stride,
                  .stride = x.stride,
                  .n_rows = std::min(tile_rows, x.n_rows - first),
                  .k = x.n_cols,
                  .out = packed.data() + first * row_bytes,
                  .scratch = sums_[thread].floats()});
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
      .tile_rows = kernels_.activations[format].tile_rows(strip.n_rows_of_x),
      .out = strip.out.data + size_t{strip.first_row} * strip.out.stride + part.first_row +
             first_column,
      .out_stride = strip.out.stride,
      .n_columns = std::min(strip.n_panels * kPanelColumns, part.n_rows - first_column),
      .accumulate = strip.into == MatmulInto::kAdd,
      .scratch = sums_[thread].floats(),
  });
}

// All parts in one list of items: a barrier between them would cost more than a small part.
size_t Matmul::cut(const CpuPackedMatrix& w, uint32_t n_rows) {
  cuts_.clear();
  size_t n_items = 0;
  const uint32_t n_wanted = kItemsPerThread * pool_.n_threads();
  for (const CpuPackedMatrix::Part& part : w.parts()) {
    const auto format = std::to_underlying(kernels_of(part.type).format);
    const ActivationKernels& kernels = kernels_.activations[format];
    const uint32_t tile_rows = kernels.tile_rows(n_rows);
    const uint32_t most_panels = n_rows <= kFewRows ? kStripOfFewRows : 1;
    const uint32_t strip_panels = std::clamp(part.n_panels / (2 * n_wanted), 1u, most_panels);
    const uint32_t n_strips = ceil_div(part.n_panels, strip_panels);
    const size_t x_bytes = n_rows * kernels.row_bytes(w.n_cols());
    const auto by_bytes = static_cast<uint32_t>(x_bytes / kRowBlockBytes + 1);
    const uint32_t n_blocks = std::max(by_bytes, n_wanted / std::max(1u, n_strips));
    const uint32_t tiles = std::max(kLeastTiles, ceil_div(ceil_div(n_rows, n_blocks), tile_rows));
    const uint32_t block_rows = std::min(n_rows, tiles * tile_rows);
    cuts_.push_back({part, strip_panels, n_strips, block_rows, n_items});
    n_items += size_t{n_strips} * ceil_div(n_rows, block_rows);
  }
  return n_items;
}

void Matmul::run(Rows x, const CpuPackedMatrix& w, Rows out, MatmulInto into) {
  CHECK(x.n_cols == w.n_cols() && out.n_cols == w.n_rows() && x.n_rows == out.n_rows);
  if (x.n_rows == 0) return;
  bool is_packed[kNumActivationFormats] = {};
  for (const CpuPackedMatrix::Part& part : w.parts()) {
    const ActivationFormat format = kernels_of(part.type).format;
    if (!std::exchange(is_packed[std::to_underlying(format)], true)) pack_activations(x, format);
  }
  const size_t n_items = cut(w, x.n_rows);
  uint32_t most_rows = 0;
  for (const Cut& cut : cuts_) most_rows = std::max(most_rows, cut.block_rows);
  for (Buffer& sums : sums_) {
    grow(sums, sum_bytes(most_rows), memory_);
  }
  pool_.run(n_items, [&](size_t item, uint32_t thread) {
    const auto behind = std::ranges::upper_bound(cuts_, item, {}, &Cut::first_item);
    const Cut& cut = *std::prev(behind);
    const size_t in_part = item - cut.first_item;
    const uint32_t first_panel = static_cast<uint32_t>(in_part % cut.n_strips) * cut.strip_panels;
    const uint32_t first_row = static_cast<uint32_t>(in_part / cut.n_strips) * cut.block_rows;
    multiply({.part = cut.part,
              .k = x.n_cols,
              .first_panel = first_panel,
              .n_panels = std::min(cut.strip_panels, cut.part.n_panels - first_panel),
              .first_row = first_row,
              .n_rows = std::min(cut.block_rows, x.n_rows - first_row),
              .n_rows_of_x = x.n_rows,
              .out = out,
              .into = into},
             thread);
  });
}

}  // namespace kvik::cpu
