#include "format/gguf/mtp_blocks.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"

namespace kvik {
namespace {

// Returns the number of the first part's layer: it has the projection of the MTP layer, and the
// next one its last norm.
std::optional<uint32_t> first_part_of(const ModelSource& source) {
  for (const TensorInfo& tensor : source.tensors()) {
    const auto id = tensor_named(tensor.name);
    if (!id || id->role != TensorRole::kMtpProjection || id->layer == UINT32_MAX) continue;
    const auto has = [&](TensorRole role, uint32_t layer) {
      return source.find(name_of(TensorId{role, layer})).has_value();
    };
    if (!has(TensorRole::kMtpOutputNorm, id->layer) &&
        has(TensorRole::kMtpOutputNorm, id->layer + 1) &&
        !has(TensorRole::kMtpProjection, id->layer + 1)) {
      return id->layer;
    }
  }
  return std::nullopt;
}

}  // namespace

void join_mtp_blocks(ModelSource& source) {
  const auto first = first_part_of(source);
  if (!first) return;
  const std::string from = fmt::format("{}{}.", kLayerPrefix, *first + 1);
  const std::string to = fmt::format("{}{}.", kLayerPrefix, *first);
  const std::string norm = name_of(TensorId{TensorRole::kAttentionNorm, *first + 1});
  std::vector<ArrangedTensor> tensors;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    ArrangedTensor tensor = unchanged_tensor(source, i);
    std::string& name = tensor.info.name;
    if (name == norm) {
      name = name_of(TensorId{TensorRole::kFfnNorm, *first});
    } else if (name.starts_with(from)) {
      name = to + name.substr(from.size());
    }
    if (name != source.tensors()[i].name && source.find(name)) return;  // it has both already
    tensors.push_back(std::move(tensor));
  }
  arrange(source, std::move(tensors));
}

}  // namespace kvik
