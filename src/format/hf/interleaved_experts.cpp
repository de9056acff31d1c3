#include "format/hf/interleaved_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/quoted.h"
#include "tensor/element_type.h"

namespace kvik::hf {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kScales = "_scales";
constexpr uint64_t kBlockElements = 32;
constexpr uint64_t kBlockNibbles = 16;  // bytes

enum class Change : uint8_t { kNone, kFp4, kTranspose, kPartBias };

struct ExpertTensor {
  size_t base;        // of it, or of its blocks
  size_t scales = 0;  // kFp4 alone
  Change change = Change::kNone;
  bool takes_turns = false;  // gates and ups
};

// Row `row` of a stack whose first half of rows are gates.
uint64_t row_in_file(uint64_t row, uint64_t n_rows, bool takes_turns) {
  if (!takes_turns) return row;
  const uint64_t half = n_rows / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

// Bytes there hold neighbours, of a GGUF file elements that are half a block apart.
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

class InterleavedExperts final : public ModelSource {
 public:
  InterleavedExperts(std::unique_ptr<ModelSource> base, std::vector<ExpertTensor> tensors,
                     std::vector<TensorInfo> infos)
      : base_(std::move(base)), tensors_(std::move(tensors)), infos_(std::move(infos)) {}

  const std::string& label() const override { return base_->label(); }
  const Metadata& metadata() const override { return base_->metadata(); }
  std::span<const TensorInfo> tensors() const override { return infos_; }

  std::span<const float> scales(size_t index) const override {
    return base_->scales(tensors_[index].base);
  }
  std::span<const uint32_t> gather(size_t index) const override {
    return base_->gather(tensors_[index].base);
  }

  Result<Bytes> read(size_t index) override {
    CHECK(index < tensors_.size());
    const ExpertTensor& tensor = tensors_[index];
    if (tensor.change == Change::kNone) return base_->read(tensor.base);
    if (const auto kept = copies_.find(index); kept != copies_.end()) return Bytes(kept->second);
    TRY_ASSIGN(std::vector<std::byte> bytes, make(index, {0, infos_[index].shape[0]}));
    return Bytes(copies_[index] = std::move(bytes));
  }

  // Of a stack, the expert before is given back.
  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    CHECK(index < tensors_.size());
    const ExpertTensor& tensor = tensors_[index];
    if (tensor.change == Change::kNone) {
      return base_->read_range(tensor.base, begin_byte, n_bytes);
    }
    const uint64_t expert_bytes = infos_[index].n_bytes / infos_[index].shape[0];
    const uint64_t first = begin_byte % expert_bytes;
    if (copies_.contains(index) || first + n_bytes > expert_bytes) {
      return ModelSource::read_range(index, begin_byte, n_bytes);
    }
    Made& made = made_[index];
    const uint64_t expert = begin_byte / expert_bytes;
    if (made.bytes.empty() || made.expert != expert) {
      made.bytes.clear();
      TRY_ASSIGN(made.bytes, make(index, {expert, 1}));
      made.expert = expert;
    }
    return Bytes(made.bytes).subspan(first, n_bytes);
  }

  void release(size_t index) override {
    CHECK(index < tensors_.size());
    if (tensors_[index].change == Change::kNone) return base_->release(tensors_[index].base);
    copies_.erase(index);
    made_.erase(index);
  }

  std::string name_in_file(size_t index) const override {
    return base_->name_in_file(tensors_[index].base);
  }

 private:
  struct Experts {
    uint64_t first, n;
  };
  struct Made {
    uint64_t expert = 0;
    std::vector<std::byte> bytes;
  };

  Result<std::vector<std::byte>> make(size_t index, Experts experts) {
    const ExpertTensor& tensor = tensors_[index];
    const uint64_t n_experts = infos_[index].shape[0];
    const auto read = [&](size_t in_base) {
      const uint64_t n_bytes = base_->tensors()[in_base].n_bytes / n_experts;
      return base_->read_range(in_base, experts.first * n_bytes, experts.n * n_bytes);
    };
    std::vector<std::byte> bytes(infos_[index].n_bytes / n_experts * experts.n);
    TRY_ASSIGN(const Bytes from, read(tensor.base));
    switch (tensor.change) {
      case Change::kFp4: {
        TRY_ASSIGN(const Bytes scales, read(tensor.scales));
        join_fp4(index, from, scales, bytes);
        base_->release(tensor.scales);
        break;
      }
      case Change::kTranspose:
        transpose(index, from, bytes);
        break;
      case Change::kPartBias:
      case Change::kNone:
        part_bias(index, from, bytes);
        break;
    }
    base_->release(tensor.base);
    return bytes;
  }

  // How many experts there are in `out`, whose tensor has the shape [experts, …].
  uint64_t n_experts_in(size_t index, std::span<const std::byte> out) const {
    return out.size() / (infos_[index].n_bytes / infos_[index].shape[0]);
  }

  // nibbles: [experts, rows, blocks, 16], scales: [experts, rows, blocks]
  void join_fp4(size_t index, Bytes nibbles, Bytes scales, std::span<std::byte> out) const {
    const auto& shape = infos_[index].shape;
    const uint64_t n_blocks = shape[2] / kBlockElements;
    std::byte* to = out.data();
    for (uint64_t expert = 0; expert < n_experts_in(index, out); ++expert) {
      for (uint64_t row = 0; row < shape[1]; ++row) {
        const uint64_t in_file = row_in_file(row, shape[1], tensors_[index].takes_turns);
        const uint64_t first = (expert * shape[1] + in_file) * n_blocks;
        for (uint64_t block = first; block < first + n_blocks; ++block) {
          pack_block(nibbles.data() + block * kBlockNibbles, scales[block], to);
          to += 1 + kBlockNibbles;
        }
      }
    }
  }

  // [experts, columns, rows] → [experts, rows, columns]
  void transpose(size_t index, Bytes from, std::span<std::byte> out) const {
    const auto& shape = infos_[index].shape;
    const size_t n_bytes = traits(infos_[index].type).block_bytes;
    const uint64_t n_rows = shape[1];
    const uint64_t n_cols = shape[2];
    for (uint64_t expert = 0; expert < n_experts_in(index, out); ++expert) {
      const std::byte* matrix = from.data() + expert * n_rows * n_cols * n_bytes;
      std::byte* to = out.data() + expert * n_rows * n_cols * n_bytes;
      for (uint64_t row = 0; row < n_rows; ++row) {
        const uint64_t in_file = row_in_file(row, n_rows, tensors_[index].takes_turns);
        for (uint64_t col = 0; col < n_cols; ++col, to += n_bytes) {
          std::memcpy(to, matrix + (col * n_rows + in_file) * n_bytes, n_bytes);
        }
      }
    }
  }

  // [experts, rows]
  void part_bias(size_t index, Bytes from, std::span<std::byte> out) const {
    const auto& shape = infos_[index].shape;
    const size_t n_bytes = traits(infos_[index].type).block_bytes;
    std::byte* to = out.data();
    for (uint64_t expert = 0; expert < n_experts_in(index, out); ++expert) {
      for (uint64_t row = 0; row < shape[1]; ++row, to += n_bytes) {
        const uint64_t in_file = expert * shape[1] + row_in_file(row, shape[1], true);
        std::memcpy(to, from.data() + in_file * n_bytes, n_bytes);
      }
    }
  }

  std::unique_ptr<ModelSource> base_;
  std::vector<ExpertTensor> tensors_;
  std::vector<TensorInfo> infos_;
  std::map<size_t, std::vector<std::byte>> copies_;  // what has been read and not released
  std::map<size_t, Made> made_;                      // likewise, of what is read range by range
};

bool is_gate_up(std::string_view name) {
  return name.find(".experts.gate_up_proj") != std::string_view::npos;
}
bool is_expert(std::string_view name) {
  return is_gate_up(name) || name.find(".experts.down_proj") != std::string_view::npos;
}

Result<void> add_fp4(const ModelSource& base, size_t index, std::vector<ExpertTensor>& tensors,
                     std::vector<TensorInfo>& infos) {
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
  tensors.push_back({index, *scales, Change::kFp4, is_gate_up(name)});
  infos.push_back({.name = name,
                   .type = ElementType::kMXFP4,
                   .shape = {shape[0], shape[1], shape[2] * kBlockElements},
                   .n_bytes = shape[0] * shape[1] * shape[2] * (1 + kBlockNibbles)});
  return {};
}

Result<void> check_can_turn(const TensorInfo& info) {
  if (traits(info.type).block_elements == 1) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("tensor {} is of type {} and lies transposed, expected floats of 16 or 32 "
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

Result<std::unique_ptr<ModelSource>> part_experts(std::unique_ptr<ModelSource> base,
                                                  ExpertStacks stacks) {
  const bool take_turns = stacks == ExpertStacks::kInterleaved;
  std::vector<ExpertTensor> tensors;
  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < base->tensors().size(); ++i) {
    const TensorInfo& info = base->tensors()[i];
    const std::string_view name = info.name;
    if (!is_expert(name)) {
      tensors.push_back({i});
      infos.push_back(info);
    } else if (name.ends_with(kBlocks)) {
      TRY(add_fp4(*base, i, tensors, infos));
    } else if (!name.ends_with(kScales)) {
      TensorInfo changed = info;
      Change change = Change::kNone;
      if (info.shape.size() == 3) {
        TRY(check_can_turn(info));
        std::swap(changed.shape[1], changed.shape[2]);
        change = Change::kTranspose;
      } else if (info.shape.size() == 2 && is_gate_up(name)) {
        change = Change::kPartBias;
      }
      tensors.push_back({i, 0, change, take_turns && is_gate_up(name)});
      infos.push_back(std::move(changed));
    }
  }
  return std::make_unique<InterleavedExperts>(std::move(base), std::move(tensors),
                                              std::move(infos));
}

}  // namespace kvik::hf
