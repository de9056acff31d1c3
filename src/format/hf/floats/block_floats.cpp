#include "format/hf/floats/block_floats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/hf/floats/float_pairs.h"
#include "format/quoted.h"
#include "tensor/blocks.h"
#include "tensor/blocks_32.h"
#include "tensor/e4m3.h"
#include "tensor/half.h"

namespace kvik::hf {
namespace {

using Bytes = std::span<const std::byte>;

// Returns the value of an E2M1 number (OCP's microscaling formats, 2023).
float e2m1(uint32_t nibble) {
  constexpr float kLevels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (nibble & 8) != 0 ? -kLevels[nibble & 7] : kLevels[nibble & 7];
}

constexpr std::byte kNoNumber{255};  // among E8M0 scales

// Returns the value of an E8M0 scale of OCP's microscaling formats, which is only an exponent.
float e8m0(std::byte bits) {
  const int exponent = std::to_integer<int>(bits);
  return bits == kNoNumber ? std::numeric_limits<float>::quiet_NaN()
                           : std::ldexp(1.0f, exponent - 127);
}

class BlockFloatTensors final : public TensorTransform {
 public:
  BlockFloatTensors(TensorSource& inputs, const BlockFloats& how, FloatPairs pairs)
      : TensorTransform(inputs, std::move(pairs.outputs)),
        how_(how),
        tensors_(std::move(pairs.tensors)) {
    for (uint32_t i = 0; i < 256; ++i) numbers_.push_back(e4m3_to_f32(static_cast<uint8_t>(i)));
  }

  Result<void> make(size_t index, Range wanted, Made& made) override {
    switch (tensors_[index].kind) {
      case BlockFloats::Kind::kFp8:
        return make_fp8(index, wanted, made);
      case BlockFloats::Kind::kMxFp4:
        return make_mxfp4(index, wanted, made);
      case BlockFloats::Kind::kNvFp4:
        return make_nvfp4(index, made);
    }
    return {};
  }

  void release(size_t index) override {
    TensorTransform::release(index);
    grids_.erase(index);
  }

 private:
  struct Fp4Scales {
    Bytes of_blocks;
    float of_all;
  };
  struct RowRange {
    uint64_t first, n;
  };

  size_t input_of(size_t index) const { return *outputs()[index].input; }

  Result<std::vector<float>> floats(size_t input) {
    const TensorInfo& info = inputs_.tensors()[input];
    TRY_ASSIGN(const Bytes bytes, inputs_.read(input));
    std::vector<float> values(info.n_elements());
    if (info.type == ElementType::kI8) {
      std::ranges::transform(bytes, values.begin(), e8m0);
    } else {
      dequantize_row(info.type, bytes.data(), values);
    }
    inputs_.release(input);
    return values;
  }

  // Scales of a matrix or a stack of matrices, and the position of an element's scale.
  struct Grid {
    std::vector<float> scales;
    uint64_t n_rows, block_rows, block_cols;  // n_rows: of a matrix
    uint64_t n_high, n_wide;                  // blocks of a matrix
    std::span<const float> of_row(uint64_t row) const {
      const uint64_t line = row / n_rows * n_high + row % n_rows / block_rows;
      return std::span(scales).subspan(line * n_wide, n_wide);
    }
  };

  Result<Grid> grid_of(size_t index) {
    const auto& shape = info(index).shape;
    const uint64_t n_rows = shape[shape.size() - 2], n_cols = shape.back();
    Grid grid = {.scales = {},
                 .n_rows = n_rows,
                 .block_rows = how_.block_rows ? how_.block_rows : n_rows,
                 .block_cols = how_.block_cols ? how_.block_cols : n_cols,
                 .n_high = 0,
                 .n_wide = 0};
    grid.n_high = n_blocks_of(n_rows, grid.block_rows);
    grid.n_wide = n_blocks_of(n_cols, grid.block_cols);
    const size_t input = *tensors_[index].scales;
    TRY_ASSIGN(grid.scales, floats(input));
    if (grid.scales.size() == 1) grid.scales.resize(n_matrices(info(index)), grid.scales[0]);
    for (const float scale : grid.scales) {
      if (std::isfinite(scale * kLargestE4m3)) continue;
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} holds {}, expected scales by which {} stays finite",
                              quoted(inputs_.name_in_file(input)), scale, kLargestE4m3));
    }
    return grid;
  }

  // Returns the rows of a range of bytes, counted over all matrices of the tensor.
  RowRange rows_in(size_t index, Range wanted) const {
    const uint64_t row_bytes =
        info(index).n_bytes / (info(index).n_elements() / info(index).shape.back());
    CHECK(wanted.begin % row_bytes == 0 && wanted.n_bytes % row_bytes == 0);
    return {wanted.begin / row_bytes, wanted.n_bytes / row_bytes};
  }

  // Reads rows of an input that has `row_bytes` bytes for each row of the output.
  Result<Bytes> read_rows(size_t input, RowRange rows, uint64_t row_bytes) {
    return inputs_.read_range(input, rows.first * row_bytes, rows.n * row_bytes);
  }

  // Makes some or all rows.
  Result<void> make_fp8(size_t index, Range wanted, Made& made) {
    const RowRange rows = rows_in(index, wanted);
    TRY_ASSIGN(const Bytes from, read_rows(input_of(index), rows, info(index).shape.back()));
    if (!grids_.contains(index)) {
      TRY_ASSIGN(grids_[index], grid_of(index));
    }
    TRY(put_fp8(index, {rows.first, from}, grids_[index],
                made.allocate(wanted.begin, wanted.n_bytes)));
    if (wanted.n_bytes == info(index).n_bytes) release(index);
    return {};
  }

  // Rows of bytes, counted over all matrices of the tensor.
  struct ByteRows {
    uint64_t first;
    Bytes bytes;
  };

  // Writes the rows as blocks of 8-bit floats. Each row has its own copy of the scales.
  static void block_fp8(const TensorInfo& info, ByteRows rows, const Grid& grid, std::byte* to) {
    const uint64_t n = traits(info.type).block_elements;
    Bytes from = rows.bytes;
    for (uint64_t row = rows.first; !from.empty(); ++row) {
      const auto scales = grid.of_row(row);
      for (uint64_t col = 0; col < info.shape.back(); col += n, from = from.subspan(n)) {
        std::memcpy(to, &scales[col / grid.block_cols], sizeof(float));
        std::memcpy(to + sizeof(float), from.data(), n);
        to += sizeof(float) + n;
      }
    }
  }

  // Converts the rows to bf16, for scales that do not cover whole blocks.
  void widen_fp8(const TensorInfo& info, ByteRows rows, const Grid& grid, std::byte* to) const {
    const uint64_t n_cols = info.shape.back();
    for (Bytes from = rows.bytes; !from.empty(); from = from.subspan(n_cols)) {
      const auto scales = grid.of_row(rows.first++);
      for (uint64_t col = 0; col < n_cols; ++col, to += sizeof(uint16_t)) {
        const size_t number = std::to_integer<size_t>(from[col]);
        const uint16_t bits = f32_to_bf16(numbers_[number] * scales[col / grid.block_cols]);
        std::memcpy(to, &bits, sizeof(bits));
      }
    }
  }

  Result<void> put_fp8(size_t index, ByteRows from, const Grid& grid, std::byte* to) const {
    const TensorInfo& tensor = info(index);
    const auto is_none = [](std::byte b) { return !is_e4m3_number(std::to_integer<uint8_t>(b)); };
    if (std::ranges::count_if(from.bytes, is_none) != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} holds a byte that is not a number in E4M3",
                              quoted(inputs_.name_in_file(input_of(index)))));
    }
    tensor.type == ElementType::kBF16 ? widen_fp8(tensor, from, grid, to)
                                      : block_fp8(tensor, from, grid, to);
    return {};
  }

  // Makes some or all rows.
  Result<void> make_mxfp4(size_t index, Range wanted, Made& made) {
    const RowRange rows = rows_in(index, wanted);
    const size_t scales = *tensors_[index].scales;
    const uint64_t n_cols = info(index).shape.back();
    TRY_ASSIGN(const Bytes from, read_rows(input_of(index), rows, n_cols / 2));
    TRY_ASSIGN(const Bytes of_blocks, read_rows(scales, rows, n_cols / kMxFp4Columns));
    if (std::ranges::count(of_blocks, kNoNumber) != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} has a scale of 255, which is not a valid scale of mxfp4, "
                              "expected 0 to 254",
                              quoted(inputs_.name_in_file(scales))));
    }
    block_fp4(from, of_blocks, {.n_scales = 1, .group = kMxFp4Columns},
              made.allocate(wanted.begin, wanted.n_bytes));
    inputs_.release(scales);
    inputs_.release(input_of(index));
    return {};
  }

  Result<void> make_nvfp4(size_t index, Made& made) {
    const FloatMatrix& tensor = tensors_[index];
    TRY_ASSIGN(const Bytes from, inputs_.read(input_of(index)));
    TRY_ASSIGN(const Bytes of_blocks, inputs_.read(*tensor.scales));
    made.allocate(0, info(index).n_bytes);
    TRY_ASSIGN(made.scales, floats(*tensor.scale));
    if (how_.is_packed) made.scales.front() = 1 / made.scales.front();
    const float of_all = made.scales.front();
    if (!std::isfinite(of_all * kLargestE4m3 * kLargestE2m1)) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} holds {}, expected a scale by which {} stays finite",
                              quoted(inputs_.name_in_file(*tensor.scale)), of_all,
                              kLargestE4m3 * kLargestE2m1));
    }
    if (info(index).type == ElementType::kNvFp4) {
      block_fp4(from, of_blocks, {.n_scales = sizeof(BlockNVFP4::scales), .group = kNvFp4Columns},
                made.memory.data());
    } else {
      made.scales.clear();
      TRY(widen_fp4(index, from, {of_blocks, of_all}, made.memory));
    }
    inputs_.release(*tensor.scales);
    inputs_.release(input_of(index));
    return {};
  }

  // A block consists of n_scales scales followed by the nibbles of as many groups of columns.
  struct Fp4Blocks {
    size_t n_scales;
    uint64_t group;
  };

  // Writes nibbles and scales as blocks. A byte of the folder holds adjacent columns, the first in
  // its low half; a byte of a block holds columns that are half a group apart.
  static void block_fp4(Bytes from, Bytes scales, Fp4Blocks blocks, std::byte* to) {
    constexpr std::byte kLow{0x0f};
    const size_t half = blocks.group / 2;
    for (; !scales.empty(); scales = scales.subspan(blocks.n_scales)) {
      std::memcpy(to, scales.data(), blocks.n_scales);
      to += blocks.n_scales;
      for (size_t s = 0; s < blocks.n_scales; ++s, from = from.subspan(half)) {
        for (size_t i = 0; i < half / 2; ++i) {
          const std::byte a = from[i], b = from[i + half / 2];
          *to++ = (a & kLow) | b << 4;
          *to++ = a >> 4 | (b & ~kLow);
        }
      }
    }
  }

  Result<void> widen_fp4(size_t index, Bytes from, const Fp4Scales& scales,
                         std::span<std::byte> out) {
    const uint64_t n = info(index).n_elements();
    for (uint64_t at = 0; at < n; ++at) {
      const auto pair = std::to_integer<uint32_t>(from[at / 2]);
      const float level = e2m1(at % 2 == 0 ? pair & 15 : pair >> 4);
      const float of_block =
          numbers_[std::to_integer<size_t>(scales.of_blocks[at / kNvFp4Columns])];
      const float value = level * of_block * scales.of_all;
      if (!std::isfinite(value)) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("tensor {} has a scale that is not a number",
                                quoted(inputs_.name_in_file(input_of(index)))));
      }
      const uint16_t bits = f32_to_bf16(value);
      std::memcpy(out.data() + at * sizeof(bits), &bits, sizeof(bits));
    }
    return {};
  }

  BlockFloats how_;
  std::vector<FloatMatrix> tensors_;
  std::vector<float> numbers_;    // [256], values of E4M3
  std::map<size_t, Grid> grids_;  // of tensors that are read in ranges
};

}  // namespace

Result<void> join_block_floats(ModelSource& source, const BlockFloats& how) {
  TRY_ASSIGN(FloatPairs pairs, pair_floats(source, how));
  source.add(std::make_unique<BlockFloatTensors>(source.top(), how, std::move(pairs)));
  return {};
}

}  // namespace kvik::hf
