#include "format/source_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

// Tensors of an MTP head that does not share the model's embedding or head.
constexpr std::string_view kOwnTensors[] = {"nextn.embed_tokens.weight",
                                            "nextn.shared_head_head.weight"};

bool has_complete_mtp_head(const ModelSource& source, const ModelConfig& config) {
  const TensorTable table(config);
  const bool is_there = std::ranges::all_of(table.all(), [&](const TensorSpec& spec) {
    return spec.id.layer != config.n_layers || spec.is_optional || source.find(name_of(spec.id));
  });
  return is_there && std::ranges::none_of(kOwnTensors, [&](std::string_view name) {
           return source.find(fmt::format("{}{}.{}", kLayerPrefix, config.n_layers, name))
               .has_value();
         });
}

}  // namespace

Result<ModelConfig> config_of(const ModelSource& source) {
  TRY_ASSIGN(ModelConfig config, read_config(source.metadata()));
  if (!config.has_mtp_head || has_complete_mtp_head(source, config)) return config;
  return without_mtp_head(std::move(config));
}

}  // namespace kvik
