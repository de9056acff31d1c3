#include "format/draft/joined_head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "format/arranged_tensors.h"
#include "format/hf/tensor_shapes.h"
#include "format/joined_files.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

constexpr uint64_t kReadBytes = uint64_t{16} << 20;  // bytes of a tensor that are read at a time

std::unexpected<Error> wrong_tensor(const ModelSource& source, size_t index, ErrorCode code,
                                    std::string_view what) {
  return fail(code, fmt::format("tensor '{}' {}", source.name_in_file(index), what));
}

// Checks that all numbers of a tensor are finite.
Result<void> check_values(ModelSource& source, size_t index) {
  const TensorInfo& info = source.tensors()[index];
  const uint64_t n_cols = info.shape.back();
  const uint64_t n_rows = info.n_elements() / n_cols;
  const uint64_t row_bytes = info.n_bytes / n_rows;
  const uint64_t step = std::max<uint64_t>(kReadBytes / row_bytes, 1);
  std::vector<float> values(n_cols);
  for (uint64_t first = 0; first < n_rows; first += step) {
    const uint64_t n = std::min(step, n_rows - first);
    TRY_ASSIGN(const auto bytes, source.read_range(index, first * row_bytes, n * row_bytes));
    if (const auto scale = invalid_scale(info.type, bytes)) {
      return wrong_tensor(source, index, ErrorCode::kCorrupt,
                          fmt::format("has a scale of {}, which is not a valid scale of {}", *scale,
                                      name_of(info.type)));
    }
    const float factor = source.scale(index, 0);
    for (uint64_t row = 0; row < n; ++row) {
      dequantize_row(info.type, bytes.data() + row * row_bytes, values);
      bool is_finite = true;
      for (const float value : values) is_finite &= std::isfinite(value * factor);
      if (is_finite) continue;
      return wrong_tensor(source, index, ErrorCode::kCorrupt, "holds a number that is not finite");
    }
  }
  source.release(index);
  return {};
}

// Checks that a tensor can be loaded. A list of numbers may be of any type that can be decoded.
Result<void> check_tensor(ModelSource& source, size_t index, TensorKind kind,
                          const HeadLimits& limits) {
  const ElementType type = source.tensors()[index].type;
  if (!can_dequantize(type) || (!is_list(kind) && !limits.can_compute(type))) {
    return wrong_tensor(source, index, ErrorCode::kUnsupported,
                        fmt::format("is of type {}, which is not computed with", name_of(type)));
  }
  return check_values(source, index);
}

// Checks that the device computes attention with heads of the size of those of the head's layers.
Result<void> check_head_dims(const ModelConfig& config, uint32_t most) {
  for (const LayerConfig& layer : std::span(config.layers).subspan(config.n_layers)) {
    if (!layer.if_attention() || layer.attention().head_dim <= most) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("its attention heads have {} dimensions, expected at most {}",
                            layer.attention().head_dim, most));
  }
  return {};
}

// Checks that the head has the tensors of its layers, in the right shapes, and that they can be
// loaded.
Result<void> check_tensors(const DraftHead& head, const HeadLimits& limits) {
  const TensorTable table(head.config);
  for (const TensorSpec& spec : table.all()) {
    if (!is_of_layer(spec.id.role) || spec.id.layer < head.config.n_layers) continue;
    const auto found = head.source->find(name_of(spec.id));
    if (!found && spec.is_optional) continue;
    const auto known = std::ranges::find(head.tensors, spec.id, &HeadTensor::id);
    const std::string name = known == head.tensors.end() ? name_of(spec.id) : known->name;
    if (!found) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' of the head is missing", name));
    }
    const std::vector<uint64_t>& shape = head.source->tensors()[*found].shape;
    if (shape != spec.shape) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' of the head has the shape [{}], expected [{}]", name,
                              fmt::join(shape, ", "), fmt::join(spec.shape, ", ")));
    }
    TRY(check_tensor(*head.source, *found, kind_of(spec.id.role), limits));
  }
  return {};
}

// Removes the tensors of the model's own MTP layers: the head's tensors have the same names.
void leave_out_mtp_layers(ModelSource& source, uint32_t n_layers) {
  std::vector<ArrangedTensor> rest;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const auto id = tensor_named(source.tensors()[i].name);
    const bool is_of_mtp = id && is_of_layer(id->role) && id->layer >= n_layers;
    if (!is_of_mtp) rest.push_back(unchanged_tensor(source, i));
  }
  if (rest.size() < source.tensors().size()) arrange(source, std::move(rest));
}

}  // namespace

void rename_tensors(ModelSource& source, const std::vector<TensorId>& ids,
                    const std::vector<size_t>& indices) {
  std::vector<ArrangedTensor> arranged;
  for (size_t i = 0; i < indices.size(); ++i) {
    ArrangedTensor tensor = unchanged_tensor(source, indices[i]);
    tensor.info.name = name_of(ids[i]);
    if (is_list(kind_of(ids[i].role))) hf::store_floats(tensor, Arrangement::kFloats);
    arranged.push_back(std::move(tensor));
  }
  arrange(source, std::move(arranged));
}

Result<std::unique_ptr<ModelSource>> join_head(std::unique_ptr<ModelSource>& model, DraftHead head,
                                               const HeadLimits& limits) {
  TRY(check_head_dims(head.config, limits.max_head_dim));
  TRY(check_tensors(head, limits));
  Metadata all = model->metadata();
  for (const auto& [key, value] : head.keys.values()) {
    if (key.starts_with(head.prefix)) all.replace(key, value);
  }
  const bool has_own_keys = head.config.eagle || head.config.assistant;
  std::string label = model->label();
  leave_out_mtp_layers(*model, head.config.n_layers);
  std::vector<std::unique_ptr<ModelSource>> pieces;
  pieces.push_back(std::move(model));
  pieces.push_back(std::move(head.source));
  TRY_ASSIGN(auto joined, join_files(std::move(pieces)));
  joined->describe(std::move(label), std::move(all));
  if (has_own_keys) joined->set_draft_head();
  return joined;
}

}  // namespace kvik
