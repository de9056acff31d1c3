#include "format/hf/block_floats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/hf/compressed_tensors.h"
#include "format/quoted.h"
#include "tensor/blocks.h"
#include "tensor/blocks_32.h"
#include "tensor/e4m3.h"
#include "tensor/half.h"

namespace kvik::hf {
namespace {

using Bytes = std::span<const std::byte>;

uint64_t ceil_div(uint64_t n, uint64_t of) { return n / of + (n % of != 0); }

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPacked = ".weight_packed";
constexpr uint64_t kNvGroup = 16, kMxGroup = 32;  // columns per scale
constexpr std::string_view kFp8Scales[] = {"_scale_inv", "_scale"};
constexpr std::string_view kBareScale = ".scale";  // in place of ".weight", DeepSeek V4

// Returns the value of an E2M1 number (OCP's microscaling formats, 2023).
float e2m1(uint32_t nibble) {
  constexpr float kLevels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (nibble & 8) != 0 ? -kLevels[nibble & 7] : kLevels[nibble & 7];
}

// Returns the value of an E8M0 scale of OCP's microscaling formats, which is only an exponent.
float e8m0(std::byte bits) {
  const int exponent = std::to_integer<int>(bits);
  return exponent == 255 ? std::numeric_limits<float>::quiet_NaN()
                         : std::ldexp(1.0f, exponent - 127);
}

// Returns the type whose blocks have one scale per row; bf16 if there is none.
ElementType fp8_type(const BlockFloats& how, uint64_t n_cols) {
  const uint64_t of_scale = how.block_cols ? how.block_cols : n_cols;
  for (const ElementType type : {ElementType::kFp8, ElementType::kFp8G32}) {
    const uint64_t n = traits(type).block_elements;
    if (n_cols % n == 0 && of_scale % n == 0) return type;
  }
  return ElementType::kBF16;
}

ElementType fp4_type(const BlockFloats& how, uint64_t n_cols) {
  if (how.kind == BlockFloats::Kind::kMxFp4) return ElementType::kMXFP4;  // rows are whole groups
  const bool fits = n_cols % traits(ElementType::kNvFp4).block_elements == 0;
  return fits ? ElementType::kNvFp4 : ElementType::kBF16;
}

uint64_t n_matrices(const TensorInfo& info) {
  return info.shape.size() == 3 ? info.shape.front() : 1;
}

struct BlockTensor {
  std::optional<size_t> scales = {};  // std::nullopt: the tensor is unchanged
  std::optional<size_t> scale = {};   // scale of the whole matrix, for kNvFp4
};

class BlockFloatTensors final : public TensorTransform {
 public:
  BlockFloatTensors(TensorSource& inputs, const BlockFloats& how, std::vector<BlockTensor> tensors,
                    std::vector<Output> outputs)
      : TensorTransform(inputs, std::move(outputs)), how_(how), tensors_(std::move(tensors)) {
    for (uint32_t i = 0; i < 256; ++i) numbers_.push_back(e4m3_to_f32(static_cast<uint8_t>(i)));
  }

  Result<void> make(size_t index, Range wanted, Made& made) override {
    if (how_.kind == BlockFloats::Kind::kFp8) return make_fp8(index, wanted, made);
    const size_t input = input_of(index);
    TRY_ASSIGN(const Bytes from, inputs_.read(input));
    made.allocate(0, info(index).n_bytes);
    TRY(read_fp4(index, from, made));
    inputs_.release(input);
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
    grid.n_high = ceil_div(n_rows, grid.block_rows);
    grid.n_wide = ceil_div(n_cols, grid.block_cols);
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

  // Makes some or all rows.
  Result<void> make_fp8(size_t index, Range wanted, Made& made) {
    const uint64_t n_cols = info(index).shape.back();
    const uint64_t row_bytes = info(index).n_bytes / (info(index).n_elements() / n_cols);
    CHECK(wanted.begin % row_bytes == 0 && wanted.n_bytes % row_bytes == 0);
    const uint64_t first = wanted.begin / row_bytes;
    TRY_ASSIGN(const Bytes from, inputs_.read_range(input_of(index), first * n_cols,
                                                    wanted.n_bytes / row_bytes * n_cols));
    if (!grids_.contains(index)) {
      TRY_ASSIGN(grids_[index], grid_of(index));
    }
    TRY(put_fp8(index, {first, from}, grids_[index], made.allocate(wanted.begin, wanted.n_bytes)));
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

  Result<void> read_fp4(size_t index, Bytes from, Made& made) {
    const BlockTensor& tensor = tensors_[index];
    TRY_ASSIGN(const Bytes of_blocks, inputs_.read(*tensor.scales));
    if (how_.kind == BlockFloats::Kind::kMxFp4) {
      block_fp4(from, of_blocks, {.n_scales = 1, .group = kMxGroup}, made.memory.data());
      inputs_.release(*tensor.scales);
      return {};
    }
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
      block_fp4(from, of_blocks, {.n_scales = sizeof(BlockNVFP4::scales), .group = kNvGroup},
                made.memory.data());
    } else {
      made.scales.clear();
      TRY(widen_fp4(index, from, {of_blocks, of_all}, made.memory));
    }
    inputs_.release(*tensor.scales);
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
    const auto at = [&](size_t i) { return from[i / 2] >> (i % 2 * 4) & std::byte{15}; };
    const size_t half = blocks.group / 2;
    for (; !scales.empty(); scales = scales.subspan(blocks.n_scales)) {
      std::memcpy(to, scales.data(), blocks.n_scales);
      to += blocks.n_scales;
      for (size_t s = 0; s < blocks.n_scales; ++s, from = from.subspan(half)) {
        for (size_t i = 0; i < half; ++i) *to++ = at(i) | at(i + half) << 4;
      }
    }
  }

  Result<void> widen_fp4(size_t index, Bytes from, const Fp4Scales& scales,
                         std::span<std::byte> out) {
    const uint64_t n = info(index).n_elements();
    for (uint64_t at = 0; at < n; ++at) {
      const auto pair = std::to_integer<uint32_t>(from[at / 2]);
      const float level = e2m1(at % 2 == 0 ? pair & 15 : pair >> 4);
      const float of_block = numbers_[std::to_integer<size_t>(scales.of_blocks[at / kNvGroup])];
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
  std::vector<BlockTensor> tensors_;
  std::vector<float> numbers_;    // [256], values of E4M3
  std::map<size_t, Grid> grids_;  // of tensors that are read in ranges
};

// Finds the tensors that belong to each matrix. Used while a folder is opened.
class Pairing {
 public:
  Pairing(const ModelSource& base, const BlockFloats& how) : base_(base), how_(how) {
    const auto all = base.tensors();
    for (size_t i = 0; i < all.size(); ++i) by_name_.emplace(all[i].name, i);
  }

  Result<void> pair() {
    for (size_t i = 0; i < base_.tensors().size(); ++i) TRY(add(i));
    return {};
  }

  std::vector<BlockTensor> tensors;
  std::vector<TensorTransform::Output> outputs;

 private:
  bool is_fp8() const { return how_.kind == BlockFloats::Kind::kFp8; }

  Result<void> add(size_t i) {
    const TensorInfo& info = base_.tensors()[i];
    if (is_scale(info.name) || is_of_activations(info.name)) return {};
    BlockTensor tensor{.scales = scales_of(info)};
    TensorInfo widened = info;
    if (tensor.scales) {
      TRY(check_shapes(info, *tensor.scales));
      if (!is_fp8()) {
        if (how_.kind == BlockFloats::Kind::kNvFp4) {
          TRY_ASSIGN(tensor.scale, scale_of_all(info.name));
        }
        widened.shape[1] *= 2;
        widened.name = std::string(stem_of(info.name)) + std::string(kWeight);
      }
      const uint64_t n_cols = widened.shape.back();
      widened.type = is_fp8() ? fp8_type(how_, n_cols) : fp4_type(how_, n_cols);
      widened.n_bytes = *bytes_of(widened.type, widened.shape);
    }
    outputs.push_back({std::move(widened), i, tensor.scales.has_value()});
    tensors.push_back(tensor);
    return {};
  }

  std::optional<size_t> find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<size_t> scales_of(const TensorInfo& info) const {
    const bool is_stack = is_fp8() && info.shape.size() == 3;
    if (how_.is_packed) {
      return info.name.ends_with(kPacked) ? find(fmt::format("{}.weight_scale", stem_of(info.name)))
                                          : std::nullopt;
    }
    if (!info.name.ends_with(kWeight) && !is_stack) return std::nullopt;
    if (!is_fp8()) return find(info.name + "_scale");
    for (const std::string_view ending : kFp8Scales) {
      if (const auto found = find(fmt::format("{}{}", info.name, ending))) return found;
    }
    if (is_stack) return std::nullopt;
    return find(fmt::format("{}{}", stem_of(info.name), kBareScale));
  }

  // Returns "NAME" of the tensor that has a matrix's elements.
  std::string_view stem_of(std::string_view name) const {
    return name.substr(0, name.size() - (how_.is_packed ? kPacked : kWeight).size());
  }

  // Returns whether the tensor is the scale of an existing matrix or stack.
  bool is_scale(std::string_view name) const {
    if (!is_fp8()) return name.ends_with(".weight_scale") || name.ends_with(of_all());
    if (name.ends_with(kBareScale)) {
      return find(fmt::format("{}{}", name.substr(0, name.size() - kBareScale.size()), kWeight))
          .has_value();
    }
    return std::ranges::any_of(kFp8Scales, [&](std::string_view ending) {
      if (!name.ends_with(ending)) return false;
      const std::string stem(name.substr(0, name.size() - ending.size()));
      return stem.ends_with(kWeight) || find(stem);
    });
  }

  std::string_view of_all() const {
    return how_.is_packed ? ".weight_global_scale" : ".weight_scale_2";
  }

  Result<size_t> scale_of_all(std::string_view weight) const {
    const std::string name = fmt::format("{}{}", stem_of(weight), of_all());
    const auto found = find(name);
    if (!found) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} is missing beside {}", quoted(name), quoted(weight)));
    }
    if (base_.tensors()[*found].n_elements() != 1) return wrong_shape(*found, {1});
    TRY(check_floats(*found));
    return *found;
  }

  Result<void> check_shapes(const TensorInfo& weight, size_t index) const {
    const TensorInfo& scales = base_.tensors()[index];
    const auto& shape = weight.shape;
    const bool is_right = shape.size() == 2 || (is_fp8() && shape.size() == 3);
    if (!is_right || weight.n_bytes != weight.n_elements()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} has scales and the shape [{}] of {}, expected a matrix of "
                              "bytes",
                              quoted(weight.name), fmt::join(shape, ", "), name_of(weight.type)));
    }
    if (!is_fp8()) {
      const uint64_t n_cols = 2 * shape[1];
      const uint64_t group = how_.kind == BlockFloats::Kind::kMxFp4 ? kMxGroup : kNvGroup;
      const std::vector<uint64_t> expected = {shape[0], n_cols / group};
      if (n_cols % group != 0 || scales.shape != expected ||
          scales.n_bytes != scales.n_elements()) {
        return wrong_shape(index, expected);
      }
      return {};
    }
    const auto blocks = [](uint64_t n, uint64_t of) { return of == 0 ? 1 : ceil_div(n, of); };
    std::vector<uint64_t> expected = shape;
    expected.back() = blocks(shape.back(), how_.block_cols);
    uint64_t& n_high = expected[expected.size() - 2];
    n_high = blocks(n_high, how_.block_rows);
    const bool is_whole = how_.block_rows == 0 && how_.block_cols == 0;
    const uint64_t n = scales.n_elements();
    const bool is_one_each = is_whole && (n == 1 || n == n_matrices(weight));
    if (scales.shape != expected && !is_one_each) return wrong_shape(index, expected);
    if (scales.type == ElementType::kI8) return {};  // E8M0
    return check_floats(index);
  }

  Result<void> check_floats(size_t index) const {
    const TensorInfo& info = base_.tensors()[index];
    if (traits(info.type).block_elements == 1 && can_dequantize(info.type)) return {};
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {} is of type {}, expected f32, f16 or bf16", quoted(info.name),
                            name_of(info.type)));
  }

  std::unexpected<Error> wrong_shape(size_t index, const std::vector<uint64_t>& expected) const {
    const TensorInfo& info = base_.tensors()[index];
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has the shape [{}], expected [{}]", quoted(info.name),
                            fmt::join(info.shape, ", "), fmt::join(expected, ", ")));
  }

  const ModelSource& base_;
  const BlockFloats& how_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace

Result<void> join_block_floats(ModelSource& source, const BlockFloats& how) {
  Pairing pairing(source, how);
  TRY(pairing.pair());
  source.add(std::make_unique<BlockFloatTensors>(source.top(), how, std::move(pairing.tensors),
                                                 std::move(pairing.outputs)));
  return {};
}

}  // namespace kvik::hf
