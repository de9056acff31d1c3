#include "format/draft/joined_head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "format/arranged_tensors.h"
#include "format/hf/tensor_shapes.h"
#include "format/joined_files.h"

namespace kvik {
namespace {

// Checks that the head has the tensors of its layers, in the right shapes.
Result<void> check_tensors(const DraftHead& head) {
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
    if (shape == spec.shape) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' of the head has the shape [{}], expected [{}]", name,
                            fmt::join(shape, ", "), fmt::join(spec.shape, ", ")));
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

Result<std::unique_ptr<ModelSource>> join_head(std::unique_ptr<ModelSource>& model,
                                               DraftHead head) {
  TRY(check_tensors(head));
  Metadata all = model->metadata();
  for (const auto& [key, value] : head.keys.values()) {
    if (key.starts_with(head.prefix)) all.replace(key, value);
  }
  std::string label = model->label();
  leave_out_mtp_layers(*model, head.config.n_layers);
  std::vector<std::unique_ptr<ModelSource>> pieces;
  pieces.push_back(std::move(model));
  pieces.push_back(std::move(head.source));
  TRY_ASSIGN(auto joined, join_files(std::move(pieces)));
  joined->describe(std::move(label), std::move(all));
  return joined;
}

}  // namespace kvik
