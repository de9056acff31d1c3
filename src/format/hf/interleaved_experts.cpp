#include "format/hf/interleaved_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "format/hf/stored_types.h"
#include "format/quoted.h"
#include "tensor/element_type.h"

namespace kvik::hf {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kBytes[] = {"U8"};  // of blocks and scales
constexpr std::string_view kScales = "_scales";
constexpr uint64_t kBlockElements = 32;
constexpr uint64_t kBlockNibbles = 16;  // bytes of nibbles in a block

enum class Change : uint8_t { kFp4, kTranspose, kPartBias };

struct ExpertTensor {
  size_t scales = 0;  // kFp4 only
  Change change = Change::kPartBias;
  bool is_alternating = false;  // rows of gate and up alternate
};

// Returns the position in the file of row `row` of a stack whose first half are gate rows.
uint64_t row_in_file(uint64_t row, uint64_t n_rows, bool is_alternating) {
  if (!is_alternating) return row;
  const uint64_t half = n_rows / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

// Writes an mxfp4 block. A byte of the folder holds adjacent elements; a byte of the block holds
// elements that are half a block apart.
void pack_block(const std::byte* nibbles, std::byte exponent, std::byte* out) {
  out[0] = exponent;
  const auto element = [&](uint64_t i) {
    const auto pair = std::to_integer<uint32_t>(nibbles[i / 2]);
    return i % 2 == 0 ? pair & 15 : pair >> 4;
  };
  for (uint64_t i = 0; i < kBlockNibbles; ++i) {
    out[1 + i] = static_cast<std::byte>(element(i) | element(i + kBlockNibbles) << 4);
  }
}

class ConvertedExperts final : public TensorTransform {
 public:
  ConvertedExperts(TensorSource& inputs, std::vector<ExpertTensor> tensors,
                   std::vector<Output> outputs)
      : TensorTransform(inputs, std::move(outputs)), tensors_(std::move(tensors)) {}

  // Makes the expert that contains the range, or all experts.
  Result<void> make(size_t index, Range wanted, Made& made) override {
    const ExpertTensor& tensor = tensors_[index];
    const size_t input = *outputs()[index].input;
    const uint64_t n_experts = info(index).shape[0];
    const uint64_t expert_bytes = info(index).n_bytes / n_experts;
    const uint64_t expert = wanted.begin / expert_bytes;
    const bool is_one = wanted.begin % expert_bytes + wanted.n_bytes <= expert_bytes;
    const uint64_t first = is_one ? expert : 0, n = is_one ? 1 : n_experts;
    const auto read = [&](size_t i) {
      const uint64_t n_bytes = inputs_.tensors()[i].n_bytes / n_experts;
      return inputs_.read_range(i, first * n_bytes, n * n_bytes);
    };
    made.allocate(first * expert_bytes, n * expert_bytes);
    TRY_ASSIGN(const Bytes from, read(input));
    switch (tensor.change) {
      case Change::kFp4: {
        TRY_ASSIGN(const Bytes scales, read(tensor.scales));
        join_fp4(index, from, scales, made.memory);
        inputs_.release(tensor.scales);
        break;
      }
      case Change::kTranspose:
        transpose(index, from, made.memory);
        break;
      case Change::kPartBias:
        part_bias(index, from, made.memory);
        break;
    }
    inputs_.release(input);
    return {};
  }

 private:
  // Returns the number of experts that `out` holds. The shape of the output is [experts, …].
  uint64_t n_experts_in(size_t index, std::span<const std::byte> out) const {
    return out.size() / (info(index).n_bytes / info(index).shape[0]);
  }

  // Joins nibbles [experts, rows, blocks, 16] and scales [experts, rows, blocks].
  void join_fp4(size_t index, Bytes nibbles, Bytes scales, std::span<std::byte> out) const {
    const auto& shape = info(index).shape;
    const uint64_t n_blocks = shape[2] / kBlockElements;
    std::byte* to = out.data();
    for (uint64_t expert = 0; expert < n_experts_in(index, out); ++expert) {
      for (uint64_t row = 0; row < shape[1]; ++row) {
        const uint64_t in_file = row_in_file(row, shape[1], tensors_[index].is_alternating);
        const uint64_t first = (expert * shape[1] + in_file) * n_blocks;
        for (uint64_t block = first; block < first + n_blocks; ++block) {
          pack_block(nibbles.data() + block * kBlockNibbles, scales[block], to);
          to += 1 + kBlockNibbles;
        }
      }
    }
  }

  // Transposes [experts, columns, rows] to [experts, rows, columns].
  void transpose(size_t index, Bytes from, std::span<std::byte> out) const {
    const auto& shape = info(index).shape;
    const size_t n_bytes = traits(info(index).type).block_bytes;
    const uint64_t n_rows = shape[1];
    const uint64_t n_cols = shape[2];
    for (uint64_t expert = 0; expert < n_experts_in(index, out); ++expert) {
      const std::byte* matrix = from.data() + expert * n_rows * n_cols * n_bytes;
      std::byte* to = out.data() + expert * n_rows * n_cols * n_bytes;
      for (uint64_t row = 0; row < n_rows; ++row) {
        const uint64_t in_file = row_in_file(row, n_rows, tensors_[index].is_alternating);
        for (uint64_t col = 0; col < n_cols; ++col, to += n_bytes) {
          std::memcpy(to, matrix + (col * n_rows + in_file) * n_bytes, n_bytes);
        }
      }
    }
  }

  // Puts the gate rows of a bias [experts, rows] before its up rows.
  void part_bias(size_t index, Bytes from, std::span<std::byte> out) const {
    const auto& shape = info(index).shape;
    const size_t n_bytes = traits(info(index).type).block_bytes;
    std::byte* to = out.data();
    for (uint64_t expert = 0; expert < n_experts_in(index, out); ++expert) {
      for (uint64_t row = 0; row < shape[1]; ++row, to += n_bytes) {
        const uint64_t in_file = expert * shape[1] + row_in_file(row, shape[1], true);
        std::memcpy(to, from.data() + in_file * n_bytes, n_bytes);
      }
    }
  }

  std::vector<ExpertTensor> tensors_;
};

bool is_gate_up(std::string_view name) {
  return name.find(".experts.gate_up_proj") != std::string_view::npos;
}
bool is_expert(std::string_view name) {
  return is_gate_up(name) || name.find(".experts.down_proj") != std::string_view::npos;
}

// The resulting tensors and how each is made.
struct Plan {
  std::vector<ExpertTensor> tensors;
  std::vector<TensorTransform::Output> outputs;
};

Result<void> add_fp4(const ModelSource& base, size_t index, Plan& plan) {
  const TensorInfo& blocks = base.tensors()[index];
  const std::string name = blocks.name.substr(0, blocks.name.size() - kBlocks.size());
  const std::string scales_name = fmt::format("{}{}", name, kScales);
  const auto scales = base.find(scales_name);
  if (!scales) {
    return fail(ErrorCode::kCorrupt, fmt::format("tensor {} is missing beside {}",
                                                 quoted(scales_name), quoted(blocks.name)));
  }
  const auto& shape = blocks.shape;
  const bool is_right = shape.size() == 4 && shape[3] == kBlockNibbles && shape[1] % 2 == 0 &&
                        blocks.n_bytes == blocks.n_elements();
  if (!is_right) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has the shape [{}], expected bytes of [experts, an even "
                            "number of rows, blocks, {}]",
                            quoted(blocks.name), fmt::join(shape, ", "), kBlockNibbles));
  }
  const TensorInfo& info = base.tensors()[*scales];
  if (!std::ranges::equal(info.shape, std::span(shape).first(3)) ||
      info.n_bytes != info.n_elements()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has the shape [{}], expected bytes of [{}], one for each "
                            "block of {}",
                            quoted(scales_name), fmt::join(info.shape, ", "),
                            fmt::join(std::span(shape).first(3), ", "), quoted(blocks.name)));
  }
  for (const size_t part : {index, *scales}) TRY(check_stored_type(base, part, kBytes));
  plan.tensors.push_back({*scales, Change::kFp4, is_gate_up(name)});
  const TensorInfo made = {.name = name,
                           .type = ElementType::kMXFP4,
                           .shape = {shape[0], shape[1], shape[2] * kBlockElements},
                           .n_bytes = shape[0] * shape[1] * shape[2] * (1 + kBlockNibbles)};
  plan.outputs.push_back({made, index, true});
  return {};
}

Result<void> check_transposable(const TensorInfo& info) {
  if (traits(info.type).block_elements == 1) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("tensor {} is of type {} and is stored transposed, expected floats of 16 or 32 "
                  "bits",
                  quoted(info.name), name_of(info.type)));
}

}  // namespace

bool are_experts_transposed(const ModelSource& base, const ExpertShape& usual) {
  for (const TensorInfo& info : base.tensors()) {
    if (info.shape.size() != 3 || !is_expert(info.name)) continue;
    const bool is_ups = is_gate_up(info.name);
    const uint64_t n_rows = is_ups ? 2 * usual.ffn_dim : usual.model_dim;
    const uint64_t n_cols = is_ups ? usual.model_dim : usual.ffn_dim;
    if (n_rows != n_cols) return info.shape[1] != n_rows || info.shape[2] != n_cols;
  }
  return true;
}

Result<void> convert_experts(ModelSource& source, ExpertStacks stacks) {
  const bool take_turns = stacks == ExpertStacks::kInterleaved;
  Plan plan;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    TensorInfo info = source.tensors()[i];
    const std::string_view name = info.name;
    if (is_expert(name) && name.ends_with(kBlocks)) {
      TRY(add_fp4(source, i, plan));
      continue;
    }
    if (is_expert(name) && name.ends_with(kScales)) continue;
    const bool is_stack = is_expert(name) && info.shape.size() == 3;
    const bool is_bias = is_gate_up(name) && info.shape.size() == 2;
    plan.tensors.push_back({.change = is_stack ? Change::kTranspose : Change::kPartBias,
                            .is_alternating = take_turns && is_gate_up(name)});
    if (is_stack) {
      TRY(check_transposable(info));
      std::swap(info.shape[1], info.shape[2]);
    }
    plan.outputs.push_back({std::move(info), i, is_stack || is_bias});
  }
  source.add(std::make_unique<ConvertedExperts>(source.top(), std::move(plan.tensors),
                                                std::move(plan.outputs)));
  return {};
}

}  // namespace kvik::hf
