#include "format/hf/mtp_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "format/hf/names/config_names.h"

namespace kvik::hf {
namespace {

// Adds an entry for the MTP layer to lists with an entry per layer.
void extend_lists(const ModelConfig& model, Metadata& metadata) {
  for (const char* key :
       {"attention.head_count", "attention.head_count_kv", "feed_forward_length",
        "attention.sliding_window_pattern", "swiglu_clamp_exp", "swiglu_clamp_shexp"}) {
    const std::string full = fmt::format("{}.{}", model.architecture, key);
    const Metadata::Value* stated = metadata.find(full);
    if (!stated) continue;
    Metadata::Value value = *stated;
    std::visit(
        [&](auto& list) {
          if constexpr (requires { list.push_back(list.back()); }) {
            if (list.size() == model.n_layers) list.push_back(list.back());
          }
        },
        value);
    metadata.replace(full, std::move(value));
  }
}

Result<ModelConfig> read_named(const FolderConfig& folder) {
  auto config = read_config(folder.metadata);
  if (config) return config;
  return std::unexpected(
      with_config_names(std::move(config).error(), folder.architecture, folder.values));
}

}  // namespace

Result<ModelConfig> read_with_mtp_layer(const ModelSource& tensors, FolderConfig& folder) {
  TRY_ASSIGN(const ModelConfig model, read_named(folder));
  const std::string_view form = folder.type->mtp->sign;
  if (!find_family(model.architecture)->mtp_layer || form.empty()) return model;
  const std::string sign = fmt::format(fmt::runtime(form), model.n_layers);
  const bool is_there = std::ranges::any_of(tensors.tensors(), [&](const TensorInfo& tensor) {
    return tensor.name == sign || tensor.name.ends_with("." + sign);
  });
  if (!is_there) return without_mtp_head(model);
  Metadata& metadata = folder.metadata;
  metadata.replace(model.architecture + ".nextn_predict_layers", uint64_t{1});
  metadata.replace(model.architecture + ".block_count", uint64_t{model.n_layers} + 1);
  if (folder.type->mtp->norms_streams_together) {
    metadata.replace(model.architecture + ".mtp.norms_streams_together", true);
  }
  extend_lists(model, metadata);
  return read_named(folder);
}

}  // namespace kvik::hf
