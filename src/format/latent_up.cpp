#include "format/latent_up.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>

#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik {

Result<ArrangedTensor> latent_up(const ModelSource& source, size_t joined, TensorId part,
                                 const AttentionConfig& attention) {
  const TensorInfo& info = source.tensors()[joined];
  const LatentConfig& l = attention.latent;
  const uint64_t head_rows = l.qk_nope_head_dim + l.value_dim;
  const std::vector<uint64_t> expected = {attention.n_heads * head_rows, l.rank};
  if (info.shape != expected) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has the shape [{}], expected [{}]",
                            quoted(source.name_in_file(joined)), fmt::join(info.shape, ", "),
                            fmt::join(expected, ", ")));
  }
  const bool is_key = part.role == TensorRole::kKUp;
  const uint64_t n_rows = is_key ? l.qk_nope_head_dim : l.value_dim;
  const uint64_t row_bytes = info.n_bytes / info.shape[0];
  ArrangedTensor tensor;
  tensor.info = {.name = name_of(part),
                 .type = info.type,
                 .shape = {attention.n_heads, n_rows, l.rank},
                 .n_bytes = attention.n_heads * n_rows * row_bytes};
  for (uint64_t head = 0; head < attention.n_heads; ++head) {
    const uint64_t first = head * head_rows + (is_key ? 0 : l.qk_nope_head_dim);
    tensor.pieces.push_back({joined, first * row_bytes, n_rows * row_bytes});
  }
  if (!is_key) return tensor;
  std::swap(tensor.info.shape[1], tensor.info.shape[2]);
  tensor.arrangement = Arrangement::kTransposed;
  tensor.head_dim = l.qk_nope_head_dim;
  if (traits(info.type).block_elements == 1 || !can_dequantize(info.type)) return tensor;
  tensor.info.type = ElementType::kF16;
  tensor.info.n_bytes = tensor.info.n_elements() * sizeof(uint16_t);
  return tensor;
}

Result<void> split_gguf_latents(ModelSource& source) {
  std::optional<ModelConfig> config;  // read on demand
  std::vector<ArrangedTensor> tensors;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    const auto id = tensor_named(info.name);
    if (!id || id->role != TensorRole::kKvUp) {
      tensors.push_back(unchanged_tensor(source, i));
      continue;
    }
    if (!config) {
      auto read = read_config(source.metadata());
      if (!read) return {};  // loading reports the error
      config = *std::move(read);
    }
    const AttentionConfig* attention =
        id->layer < config->n_layers ? config->layers[id->layer].if_attention() : nullptr;
    if (!attention || attention->latent.rank == 0) return {};
    for (const TensorRole role : {TensorRole::kKUp, TensorRole::kVUp}) {
      auto tensor = latent_up(source, i, {role, id->layer}, *attention);
      if (!tensor) {
        return fail(tensor.error().code,
                    fmt::format("'{}': {}", source.label(), tensor.error().message));
      }
      tensors.push_back(*std::move(tensor));
    }
  }
  if (!config) return {};
  arrange(source, std::move(tensors));
  return {};
}

}  // namespace kvik
