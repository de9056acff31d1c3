#include "format/hf/parts/ngram_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "tensor/blocks.h"

namespace kvik::hf {

std::string NgramNames::shard(size_t i) const {
  return fmt::format("{}ngram_embedding.shard_{}.weight", prefix_, i);
}

std::vector<std::pair<std::string, std::vector<uint64_t>>> NgramNames::numbers(
    const NgramConfig& g) const {
  return {{prefix_ + "layer_multipliers", g.multipliers},
          {prefix_ + "ngram_heads_offsets", {g.offsets.begin(), g.offsets.end()}},
          {prefix_ + "ngram_heads_vocab_sizes", {g.rows.begin(), g.rows.end()}}};
}

Result<void> check_numbers(ModelSource& source, size_t index, std::span<const uint64_t> expected) {
  const TensorInfo& info = source.tensors()[index];
  std::vector<uint64_t> stored(expected.size());
  const bool fits = info.type == ElementType::kI64 && info.n_elements() == expected.size();
  if (fits) {
    TRY_ASSIGN(const auto bytes, source.read(index));
    std::memcpy(stored.data(), bytes.data(), bytes.size());
    source.release(index);
  }
  if (fits && std::ranges::equal(stored, expected)) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("tensor '{}' of type {} with {} values holds {}, expected the {} that "
                          "follow from config.json",
                          info.name, name_of(info.type), info.n_elements(),
                          fits ? fmt::format("{}", fmt::join(stored, ", ")) : "others",
                          fmt::join(expected, ", ")));
}

Result<ArrangedTensor> joined_rows(const ModelSource& source, std::span<const size_t> matrices,
                                   const TensorSpec& spec) {
  ArrangedTensor tensor;
  tensor.info = source.tensors()[matrices.front()];
  tensor.info.name = name_of(spec.id);
  tensor.info.shape = {0, spec.shape[1]};
  tensor.info.n_bytes = 0;
  tensor.is_joined = true;
  for (const size_t index : matrices) {
    const TensorInfo& info = source.tensors()[index];
    if (info.shape.size() != 2 || info.shape[1] != spec.shape[1] || info.type != tensor.info.type) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' of type {} has the shape [{}], expected rows of {} {}",
                              info.name, name_of(info.type), fmt::join(info.shape, ", "),
                              spec.shape[1], name_of(tensor.info.type)));
    }
    tensor.info.shape[0] += info.shape[0];
    tensor.info.n_bytes += info.n_bytes;
    tensor.pieces.push_back({index, 0, info.n_bytes});
  }
  if (tensor.info.shape == spec.shape) return tensor;
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("the {} pieces of '{}' have {} rows together, expected {}", matrices.size(),
                  source.tensors()[matrices.front()].name, tensor.info.shape[0], spec.shape[0]));
}

}  // namespace kvik::hf
