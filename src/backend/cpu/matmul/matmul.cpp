#include "backend/cpu/matmul/matmul.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "backend/cpu/scratch.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

// Items of work per thread. Several items balance the load if another process takes a core.
constexpr uint32_t kItemsPerThread = 4;

// With few rows, most time is spent waiting for weights. They are prefetched, except for the first
// ones of a strip, so longer strips are better. With more rows, one panel is mostly enough work for
// an item (WeightKernels::strip_panels), and longer strips would make threads wait for each other
// at the end.
constexpr uint32_t kFewRows = 16;
constexpr uint32_t kStripOfFewRows = 4;

// Minimum number of row tiles in a block of rows, so that it is worth reading the weights once
// more.
constexpr uint32_t kMinTiles = 8;

// Maximum size of the packed activations of one block of rows. It may exceed the second-level
// cache, because the kernels prefetch rows. With fewer rows, the weights would be read and widened
// more often (at k = 5632, a limit of 1 MiB made f32 slower by a quarter).
constexpr size_t kRowBlockBytes = size_t{6} << 20;

// Minimum size of packed activations, so that they are in a huge page of their own.
constexpr size_t kHugePage = size_t{2} << 20;

// Returns the leading parts that need the activations in the same order.
std::span<const PanelMatrix::Part> of_one_order(std::span<const PanelMatrix::Part> parts) {
  const auto other = std::ranges::find_if(
      parts, [&](const PanelMatrix::Part& part) { return part.gather != parts[0].gather; });
  return {parts.begin(), other};
}

// Number of tensors that are packed into one matrix (Q, K and V), and into one expert's matrix
// (gate and up).
constexpr uint32_t kPartsOfMatrix = 3;
constexpr uint32_t kPartsOfExpert = 2;

uint32_t max_heads(const WorkLimits& limits) {
  uint32_t most = 0;
  for (const HeadsUse& use : limits.heads) most = std::max(most, use.n_heads);
  return most;
}

uint32_t rows_of(const WeightKind& weights, const WorkLimits& limits) {
  switch (weights.use) {
    case WeightUse::kRows:
      return limits.n_rows;
    case WeightUse::kExperts:
      return limits.n_expert_rows;
    case WeightUse::kHeads:
      break;
  }
  return limits.n_rows * max_heads(limits);
}

uint32_t ceil_div(uint32_t n, uint32_t unit) { return n / unit + (n % unit != 0); }

// Copies rows that are quantized as tiles of their own into one tile.
void join_rows(const std::byte* rows, size_t row_bytes, std::span<const uint32_t> numbers,
               uint32_t k, std::byte* out) {
  const uint32_t n_blocks = k / kActivationBlock;
  const size_t block_bytes = (row_bytes - sizeof(float)) / n_blocks;
  for (size_t at = 0; at < n_blocks * block_bytes; at += block_bytes) {
    for (const uint32_t row : numbers) {
      std::memcpy(out, rows + row * row_bytes + at, kActivationBlock);
      out += kActivationBlock;
    }
    for (size_t word = at + kActivationBlock; word < at + block_bytes; word += sizeof(float)) {
      for (const uint32_t row : numbers) {
        std::memcpy(out, rows + row * row_bytes + word, sizeof(float));
        out += sizeof(float);
      }
    }
  }
  for (const uint32_t row : numbers) {
    std::memcpy(out, rows + (row + 1) * row_bytes - sizeof(float), sizeof(float));
    out += sizeof(float);
  }
}

}  // namespace

struct Matmul::Strip {
  const PanelMatrix::Part& part;
  uint32_t k;
  uint32_t first_panel, n_panels;  // within the part
  uint32_t first_row, n_rows;      // of the packed activations and of out
  uint32_t tile_rows;
  uint32_t first_column;  // first column of the part in out
  float* out;
  size_t out_stride;
  MatmulInto into;
};

Matmul::Matmul(const MatmulKernels& kernels, Memory& memory, ThreadPool& pool)
    : kernels_(kernels), memory_(memory), pool_(pool), sums_(pool.n_threads()) {}

Matmul::~Matmul() = default;

size_t Matmul::activation_bytes(ActivationFormat format, uint32_t n_rows, uint32_t k) const {
  const ActivationKernels& kernels = kernels_.activations(format);
  return std::max(n_rows * kernels.row_bytes(k), kHugePage);
}

// Returns the bytes of MultiplyTask::scratch.
size_t Matmul::sum_bytes(ElementType weights, uint32_t n_rows) const {
  const WeightKernels& kernels = kernels_.weights(weights);
  const uint32_t tile_rows = kernels_.activations(kernels.format).tile_rows(n_rows);
  const size_t rows = size_t{ceil_div(n_rows, tile_rows)} * tile_rows;
  return rows * kernels.strip_panels * kScratchFloatsPerRow * sizeof(float) + kWideBytes;
}

size_t Matmul::thread_bytes(const WorkLimits& limits) const {
  size_t bytes = 0;
  for (const WeightKind& weights : limits.weights) {
    bytes = std::max({bytes, sum_bytes(weights.type, limits.n_rows),
                      pack_scratch_floats(weights.n_cols) * sizeof(float)});
  }
  return bytes;
}

size_t Matmul::quantized_bytes(const WorkLimits& limits) const {
  size_t bytes = 0;
  for (const WeightKind& weights : limits.weights) {
    if (weights.use != WeightUse::kExperts || limits.n_expert_rows <= limits.n_rows) continue;
    const ActivationFormat format = kernels_.weights(weights.type).format;
    bytes = std::max(bytes, limits.n_rows * kernels_.activations(format).row_bytes(weights.n_cols));
  }
  return bytes;
}

uint64_t Matmul::scratch_bytes(const WorkLimits& limits) const {
  size_t by_format[kNumActivationFormats] = {};
  for (const WeightKind& weights : limits.weights) {
    const ActivationFormat format = kernels_.weights(weights.type).format;
    size_t& bytes = by_format[std::to_underlying(format)];
    bytes = std::max(bytes, activation_bytes(format, rows_of(weights, limits), weights.n_cols));
  }
  uint64_t sum = pool_.n_threads() * thread_bytes(limits) + quantized_bytes(limits);
  for (const size_t bytes : by_format) sum += bytes;
  return sum;
}

void Matmul::reserve(const WorkLimits& limits) {
  for (const WeightKind& weights : limits.weights) {
    const ActivationFormat format = kernels_.weights(weights.type).format;
    grow(activations_[std::to_underlying(format)],
         activation_bytes(format, rows_of(weights, limits), weights.n_cols), memory_);
  }
  for (Buffer& sums : sums_) grow(sums, thread_bytes(limits), memory_);
  grow(quantized_rows_, quantized_bytes(limits), memory_);
  const bool has_heads =
      std::ranges::count(limits.weights, WeightUse::kHeads, &WeightKind::use) > 0;
  const uint32_t n_heads = has_heads ? max_heads(limits) : 0;
  heads_.reserve(n_heads);
  head_rows_.reserve(size_t{n_heads} * limits.n_rows);
  tiles_.reserve(std::max({1u, limits.n_experts, n_heads}));
  cuts_.reserve(
      std::max<size_t>({kPartsOfMatrix, size_t{kPartsOfExpert} * limits.n_experts, n_heads}));
}

// Returns whether rows are quantized once and then copied to tiles: if the format is quantized and
// rows are multiplied by several matrices.
bool Matmul::quantizes_once(ActivationFormat format, Rows x, const GroupedRows& groups) {
  const bool is_quantized = format != ActivationFormat::kF32 && format != ActivationFormat::kBF16;
  return is_quantized && groups.rows.size() > x.n_rows;
}

void Matmul::quantize_rows(Rows x, const PanelMatrix::Part& part, ActivationFormat format) {
  const ActivationKernels& kernels = kernels_.activations(format);
  const size_t row_bytes = kernels.row_bytes(x.n_cols);
  grow(quantized_rows_, x.n_rows * row_bytes, memory_);
  pool_.run(x.n_rows, [&](size_t row, uint32_t thread) {
    kernels.pack({.x = x.data + row * x.stride,
                  .rows = nullptr,
                  .stride = x.stride,
                  .n_rows = 1,
                  .k = x.n_cols,
                  .out = quantized_rows_.data() + row * row_bytes,
                  .scratch = sums_[thread].floats(),
                  .gather = part.gather});
  });
}

// Packs the activations of each group's rows as tiles in the format that the part needs, one group
// after another.
void Matmul::pack_activations(Rows x, const PanelMatrix::Part& part, const GroupedRows& groups) {
  const ActivationFormat format = kernels_.weights(part.type).format;
  const ActivationKernels& kernels = kernels_.activations(format);
  Buffer& packed = activations_[std::to_underlying(format)];
  const size_t row_bytes = kernels.row_bytes(x.n_cols);
  tiles_.clear();
  uint32_t n_tiles = 0;
  uint32_t n_rows = 0;
  for (const RowGroup& group : groups.groups) {
    CHECK(group.first == n_rows && group.n_rows > 0);
    const uint32_t tile_rows = kernels.tile_rows(group.n_rows);
    tiles_.push_back({group.first, group.n_rows, tile_rows, n_tiles});
    n_tiles += ceil_div(group.n_rows, tile_rows);
    n_rows += group.n_rows;
  }
  grow(packed, activation_bytes(format, n_rows, x.n_cols), memory_);
  for (Buffer& sums : sums_) {
    grow(sums, pack_scratch_floats(x.n_cols) * sizeof(float), memory_);
  }
  const bool once = quantizes_once(format, x, groups);
  if (once) quantize_rows(x, part, format);
  pool_.run(n_tiles, [&](size_t tile, uint32_t thread) {
    const auto next = std::ranges::upper_bound(tiles_, tile, {}, &TileRun::first_tile);
    const TileRun& run = *std::prev(next);
    const uint32_t in_run = (static_cast<uint32_t>(tile) - run.first_tile) * run.tile_rows;
    const uint32_t first = run.first_row + in_run;
    const uint32_t n_tile_rows = std::min(run.tile_rows, run.n_rows - in_run);
    if (once) {
      return join_rows(quantized_rows_.data(), row_bytes, groups.rows.subspan(first, n_tile_rows),
                       x.n_cols, packed.data() + first * row_bytes);
    }
    const bool is_gathered = !groups.rows.empty();
    kernels.pack({.x = is_gathered ? x.data : x.data + size_t{first} * x.stride,
                  .rows = is_gathered ? groups.rows.data() + first : nullptr,
                  .stride = x.stride,
                  .n_rows = n_tile_rows,
                  .k = x.n_cols,
                  .out = packed.data() + first * row_bytes,
                  .scratch = sums_[thread].floats(),
                  .gather = part.gather});
  });
}

// Packs the activations in each format that the parts need. All parts need the same order of
// activations.
void Matmul::pack_all(Rows x, std::span<const PanelMatrix::Part> parts, const GroupedRows& groups) {
  bool is_packed[kNumActivationFormats] = {};
  for (const PanelMatrix::Part& part : parts) {
    const ActivationFormat format = kernels_.weights(part.type).format;
    if (!std::exchange(is_packed[std::to_underlying(format)], true)) {
      pack_activations(x, part, groups);
    }
  }
}

void Matmul::multiply(const Strip& strip, uint32_t thread) {
  const PanelMatrix::Part& part = strip.part;
  const WeightKernels& kernels = kernels_.weights(part.type);
  const size_t row_bytes = kernels_.activations(kernels.format).row_bytes(strip.k);
  const uint32_t first_column = strip.first_panel * kPanelColumns;
  kernels.multiply({
      .weights = part.panels + strip.first_panel * part.panel_bytes,
      .panel_bytes = part.panel_bytes,
      .n_panels = strip.n_panels,
      .k = strip.k,
      .x = activations_[std::to_underlying(kernels.format)].data() + strip.first_row * row_bytes,
      .n_rows = strip.n_rows,
      .tile_rows = strip.tile_rows,
      .out = strip.out + strip.first_column + first_column,
      .out_stride = strip.out_stride,
      .n_columns = std::min(strip.n_panels * kPanelColumns, part.n_rows - first_column),
      .accumulate = strip.into == MatmulInto::kAdd,
      .in_one_step = kernels_.prefetches_in_one_step,
      .scale = part.scale,
      .scratch = sums_[thread].floats(),
  });
}

// Appends the items of one part and one group of rows to the list of items. All parts and groups
// are in one list, because a barrier between them would cost more time than a small part takes.
void Matmul::cut(const PanelMatrix::Part& part, const RowGroup& rows, const CutShape& shape) {
  const uint32_t n_wanted = kItemsPerThread * pool_.n_threads();
  const WeightKernels& weights = kernels_.weights(part.type);
  const ActivationKernels& kernels = kernels_.activations(weights.format);
  const uint32_t tile_rows = kernels.tile_rows(rows.n_rows);
  const uint32_t max_panels = rows.n_rows <= kFewRows ? kStripOfFewRows : weights.strip_panels;
  const uint32_t n_panels = part.n_panels * shape.n_groups;
  const uint32_t strip_panels = std::clamp(n_panels / (2 * n_wanted), 1u, max_panels);
  const uint32_t n_strips = ceil_div(part.n_panels, strip_panels);
  const size_t x_bytes = rows.n_rows * kernels.row_bytes(shape.k);
  const auto by_bytes = static_cast<uint32_t>(x_bytes / kRowBlockBytes + 1);
  const uint32_t n_strips_in_all = std::max(1u, n_strips * shape.n_groups);
  const uint32_t n_blocks = std::max(by_bytes, n_wanted / n_strips_in_all);
  const uint32_t tiles = std::max(kMinTiles, ceil_div(ceil_div(rows.n_rows, n_blocks), tile_rows));
  const uint32_t block_rows = std::min(rows.n_rows, tiles * tile_rows);
  cuts_.push_back({.part = part,
                   .strip_panels = strip_panels,
                   .n_strips = n_strips,
                   .first_row = rows.first,
                   .n_rows = rows.n_rows,
                   .tile_rows = tile_rows,
                   .block_rows = block_rows,
                   .first_column = part.first_row - shape.first_column,
                   .out = shape.out,
                   .first_item = n_items_});
  n_items_ += size_t{n_strips} * ceil_div(rows.n_rows, block_rows);
}

void Matmul::run_cuts(uint32_t k, size_t out_stride, MatmulInto into) {
  size_t bytes = 0;
  for (const Cut& cut : cuts_) {
    bytes = std::max(bytes, sum_bytes(cut.part.type, cut.block_rows));
  }
  for (Buffer& sums : sums_) grow(sums, bytes, memory_);
  pool_.run(n_items_, [&](size_t item, uint32_t thread) {
    const auto next = std::ranges::upper_bound(cuts_, item, {}, &Cut::first_item);
    const Cut& cut = *std::prev(next);
    const size_t in_cut = item - cut.first_item;
    const uint32_t first_panel = static_cast<uint32_t>(in_cut % cut.n_strips) * cut.strip_panels;
    const uint32_t first_row = static_cast<uint32_t>(in_cut / cut.n_strips) * cut.block_rows;
    multiply({.part = cut.part,
              .k = k,
              .first_panel = first_panel,
              .n_panels = std::min(cut.strip_panels, cut.part.n_panels - first_panel),
              .first_row = cut.first_row + first_row,
              .n_rows = std::min(cut.block_rows, cut.n_rows - first_row),
              .tile_rows = cut.tile_rows,
              .first_column = cut.first_column,
              .out = cut.out + first_row * out_stride,
              .out_stride = out_stride,
              .into = into},
             thread);
  });
}

void Matmul::run(Rows x, const PanelMatrix& w, Rows out, MatmulInto into) {
  CHECK(x.n_cols == w.n_cols() && out.n_cols == w.n_rows() && x.n_rows == out.n_rows);
  if (x.n_rows == 0) return;
  const RowGroup all = {.matrix = 0, .first = 0, .n_rows = x.n_rows};
  for (auto left = w.parts(); !left.empty();) {
    const auto parts = of_one_order(left);
    left = left.subspan(parts.size());
    pack_all(x, parts, {.rows = {}, .groups = {&all, 1}, .n_matrices = 1});
    cuts_.clear();
    n_items_ = 0;
    for (const PanelMatrix::Part& part : parts) {
      cut(part, all, {.k = x.n_cols, .out = out.data});
    }
    run_cuts(x.n_cols, out.stride, into);
  }
}

void Matmul::run_grouped(Rows x, const PanelMatrix& w, const GroupedRows& groups, Rows out) {
  CHECK(groups.n_matrices > 0 && w.parts().size() % groups.n_matrices == 0);
  CHECK(x.n_cols == w.n_cols() && size_t{out.n_cols} * groups.n_matrices == w.n_rows());
  if (groups.groups.empty()) return;
  const RowGroup& last = groups.groups.back();
  CHECK(out.n_rows == last.first + last.n_rows);
  CHECK(groups.rows.empty() ? x.n_rows == out.n_rows : groups.rows.size() == out.n_rows);
  CHECK(of_one_order(w.parts()).size() == w.parts().size());
  const size_t n_parts = w.parts().size() / groups.n_matrices;
  pack_all(x, w.parts().first(n_parts), groups);
  cuts_.clear();
  n_items_ = 0;
  for (const RowGroup& group : groups.groups) {
    CHECK(group.matrix < groups.n_matrices);
    const auto parts = w.parts().subspan(group.matrix * n_parts, n_parts);
    for (const PanelMatrix::Part& part : parts) {
      cut(part, group,
          {.k = x.n_cols,
           .n_groups = static_cast<uint32_t>(groups.groups.size()),
           .first_column = parts.front().first_row,
           .out = out.data + size_t{group.first} * out.stride});
    }
  }
  run_cuts(x.n_cols, out.stride, MatmulInto::kOverwrite);
}

// Heads are groups of rows. Each head of a row is a separate row of the packed activations.
void Matmul::run_heads(const HeadRows& x, const PanelMatrix& w, const HeadRows& out) {
  const uint32_t n_rows = x.rows.n_rows;
  CHECK(x.n_heads > 0 && x.n_heads == out.n_heads && n_rows == out.rows.n_rows);
  CHECK(w.parts().size() == x.n_heads && x.n_cols == w.n_cols());
  CHECK(size_t{out.n_cols} * x.n_heads == w.n_rows());
  CHECK(of_one_order(w.parts()).size() == w.parts().size());
  if (n_rows == 0) return;
  heads_.clear();
  head_rows_.clear();
  for (uint32_t head = 0; head < x.n_heads; ++head) {
    heads_.push_back({head, head * n_rows, n_rows});
    for (uint32_t row = 0; row < n_rows; ++row) {
      head_rows_.push_back(row * x.rows.stride + head * x.step);
    }
  }
  // These rows overlap: a row begins at every float.
  const Rows all = {x.rows.data + x.first, n_rows * x.rows.stride, x.n_cols, 1};
  pack_all(all, w.parts().first(1), {head_rows_, heads_, x.n_heads});
  cuts_.clear();
  n_items_ = 0;
  for (uint32_t head = 0; head < x.n_heads; ++head) {
    const PanelMatrix::Part& part = w.parts()[head];
    cut(part, heads_[head],
        {.k = x.n_cols,
         .n_groups = x.n_heads,
         .first_column = part.first_row,
         .out = out.rows.data + out.first + size_t{head} * out.step});
  }
  run_cuts(x.n_cols, out.rows.stride, MatmulInto::kOverwrite);
}

}  // namespace kvik::cpu
