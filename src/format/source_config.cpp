#include "format/source_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

bool has_complete_mtp_head(const ModelSource& source, const ModelConfig& config) {
  const TensorTable table(config);
  return std::ranges::all_of(table.all(), [&](const TensorSpec& spec) {
    return spec.id.layer < config.n_layers || spec.is_optional || source.find(name_of(spec.id));
  });
}

// Gives layers an output gate with a value per element if they have a tensor of that size, because
// no key tells it from one with a value per head (Laguna).
void widen_gates(const ModelSource& source, ModelConfig& config) {
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    auto* a = std::get_if<AttentionConfig>(&config.layers[i].mixer);
    if (!a || a->output_gate != OutputGate::kPerHead) continue;
    const auto gate = source.find(name_of(TensorId{TensorRole::kOutputGate, i}));
    if (!gate) continue;
    const std::vector<uint64_t>& shape = source.tensors()[*gate].shape;
    if (!shape.empty() && shape[0] == a->q_dim()) a->output_gate = OutputGate::kOwn;
  }
}

// Gives layers an MLP if they have no experts, because files of Jamba do not say which layers have
// them.
void replace_absent_experts(const ModelSource& source, ModelConfig& config) {
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const auto has = [&](TensorRole role) {
      return source.find(name_of(TensorId{role, i})).has_value();
    };
    const bool has_experts = has(TensorRole::kRouter) || has(TensorRole::kExpertDown);
    if (!config.layers[i].experts() || has_experts || !has(TensorRole::kDown)) continue;
    config.layers[i].feed_forward = MlpConfig{.ffn_dim = config.ffn_dim};
  }
}

// Gives a table of n-grams the number of rows that it has, where no key states it, as in
// llama.cpp's files.
void take_ngram_rows(const ModelSource& source, ModelConfig& config) {
  if (!config.ngrams || source.metadata().contains(config.architecture + ".ple.row_count")) return;
  const auto table = source.find(name_of(TensorId{TensorRole::kPerLayerEmbedding}));
  if (!table) return;
  const std::vector<uint64_t>& shape = source.tensors()[*table].shape;
  const uint32_t n_used = config.ngrams->offsets.back() + config.ngrams->rows.back();
  if (shape.empty() || shape[0] < n_used || shape[0] > UINT32_MAX) return;
  config.ngrams->n_rows = static_cast<uint32_t>(shape[0]);
}

// Returns whether the layer `first`, which should be the first MTP layer, is one of the others: it
// has tensors, but none that only MTP layers have.
bool is_no_mtp_layer(const ModelSource& source, uint64_t first) {
  bool has_layer = false;
  for (const TensorInfo& tensor : source.tensors()) {
    const auto id = tensor_named(tensor.name);
    if (!id || !is_of_layer(id->role) || id->layer != first) continue;
    if (is_of_mtp_head(id->role)) return false;
    has_layer = true;
  }
  return has_layer;
}

// Returns the metadata without the number of MTP layers if the layers that it covers are none: some
// files of DeepSeek V4 state MTP layers that they neither have nor count. Otherwise returns
// std::nullopt.
Result<std::optional<Metadata>> metadata_without_mtp_layers(const ModelSource& source) {
  const Metadata& stated = source.metadata();
  TRY_ASSIGN(const auto architecture, stated.get_string("general.architecture"));
  const std::string prefix = architecture.value_or("") + ".";
  TRY_ASSIGN(const auto n_layers, stated.get_uint(prefix + "block_count"));
  TRY_ASSIGN(const auto n_mtp_layers, stated.get_uint(prefix + "nextn_predict_layers"));
  const uint64_t n = n_mtp_layers.value_or(0);
  if (n == 0 || n >= n_layers.value_or(0) || !is_no_mtp_layer(source, *n_layers - n)) {
    return std::nullopt;
  }
  Metadata metadata = stated;
  metadata.replace(prefix + "nextn_predict_layers", uint64_t{0});
  return metadata;
}

}  // namespace

Result<ModelConfig> config_of(const ModelSource& source) {
  TRY_ASSIGN(const auto metadata, metadata_without_mtp_layers(source));
  TRY_ASSIGN(ModelConfig config,
             read_config(metadata ? *metadata : source.metadata(),
                         source.has_draft_head() ? DraftHeadKeys::kRead : DraftHeadKeys::kIgnored));
  widen_gates(source, config);
  replace_absent_experts(source, config);
  take_ngram_rows(source, config);
  if (config.reranker && !source.find(name_of(TensorId{TensorRole::kClassifier}))) {
    config.reranker.reset();
  }
  if (!config.has_mtp_head) return config;
  if (source.is_mtp_head_left_out()) return without_mtp_head(std::move(config));
  const auto has = [&](TensorRole role) {
    return source.find(name_of(TensorId{role, config.n_layers})).has_value();
  };
  config.has_mtp_embedding = has(TensorRole::kMtpEmbedding);
  config.has_mtp_output = has(TensorRole::kMtpHead);
  if (has_complete_mtp_head(source, config)) return config;
  return without_mtp_head(std::move(config));
}

}  // namespace kvik
