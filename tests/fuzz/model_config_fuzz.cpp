// Any values of the keys that make a config: it is read, and what is planned from it holds, or the
// error is one sentence. Of each key: its number, the value's type, and eight bytes.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "catalogue/family.h"
#include "catalogue/model_config.h"
#include "fuzz/read_everything.h"
#include "model/layer_groups.h"
#include "model/recurrent/state_layout.h"
#include "model/rope.h"

namespace kvik {
namespace {

constexpr const char* kKeys[] = {"block_count",
                                 "embedding_length",
                                 "feed_forward_length",
                                 "attention.head_count",
                                 "attention.head_count_kv",
                                 "attention.key_length",
                                 "attention.value_length",
                                 "context_length",
                                 "vocab_size",
                                 "attention.layer_norm_rms_epsilon",
                                 "attention.sliding_window",
                                 "attention.scale",
                                 "attn_logit_softcapping",
                                 "final_logit_softcapping",
                                 "embedding_scale",
                                 "residual_scale",
                                 "logit_scale",
                                 "expert_count",
                                 "expert_used_count",
                                 "expert_feed_forward_length",
                                 "expert_shared_feed_forward_length",
                                 "expert_weights_norm",
                                 "expert_weights_scale",
                                 "expert_gating_func",
                                 "rope.freq_base",
                                 "rope.dimension_count",
                                 "rope.scaling.type",
                                 "rope.scaling.factor",
                                 "rope.scaling.original_context_length",
                                 "rope.scaling.attn_factor",
                                 "rope.scaling.yarn_beta_fast",
                                 "rope.scaling.yarn_beta_slow",
                                 "rope.scaling.low_freq_factor",
                                 "rope.scaling.high_freq_factor",
                                 "rope.scaling.yarn_log_multiplier",
                                 "attention.temperature_scale",
                                 "attention.temperature_length",
                                 "attention.kv_lora_rank",
                                 "attention.q_lora_rank",
                                 "attention.key_length_mla",
                                 "attention.value_length_mla",
                                 "leading_dense_block_count",
                                 "nextn_predict_layers",
                                 "expert_shared_count",
                                 "expert_group_count",
                                 "expert_group_used_count",
                                 "attention.sliding_window_pattern",
                                 "attention.key_length_swa",
                                 "attention.value_length_swa",
                                 "attention.shared_kv_layers",
                                 "rope.freq_base_swa",
                                 "rope.dimension_count_swa",
                                 "embedding_length_per_layer_input",
                                 "ssm.conv_kernel",
                                 "ssm.state_size",
                                 "ssm.group_count",
                                 "ssm.time_step_rank",
                                 "ssm.inner_size",
                                 "full_attention_interval",
                                 "shortconv.l_cache",
                                 "rope.scaling.finetuned",
                                 "attention.recurrent_layers",
                                 "moe_latent_size"};
constexpr const char* kWords[] = {"linear", "yarn", "llama3", "longrope", "none", "dynamic"};
constexpr size_t kRecordBytes = 10;

Metadata::Value value_of(uint8_t type, const uint8_t* bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes, sizeof(number));
  double real = 0;
  std::memcpy(&real, bytes, sizeof(real));
  switch (type % 8) {
    case 0:
      return number;
    case 1:
      return uint64_t{static_cast<uint16_t>(number)};
    case 2:
      return static_cast<int64_t>(number);
    case 3:
      return real;
    case 4:
      return (number & 1) != 0;
    case 5:
      return std::string(kWords[number % std::size(kWords)]);
    case 6: {  // of each layer, or of a few
      std::vector<uint64_t> list;
      for (size_t i = 0; i < bytes[0] % 8u; ++i) list.push_back(bytes[1 + i]);
      return list;
    }
    default: {
      std::vector<bool> list;
      for (size_t i = 0; i < bytes[0] % 8u; ++i) list.push_back((bytes[1] >> i & 1) != 0);
      return list;
    }
  }
}

// A model that is right but for what the fuzzer says before.
void add_defaults(const std::string& prefix, Metadata& metadata) {
  metadata.insert(prefix + "block_count", uint64_t{6});
  metadata.insert(prefix + "embedding_length", uint64_t{64});
  if (prefix.starts_with("nemotron_h")) {
    metadata.insert(prefix + "feed_forward_length", std::vector<uint64_t>{0, 160, 0, 0, 160, 0});
  }
  metadata.insert(prefix + "feed_forward_length", uint64_t{160});
  metadata.insert(prefix + "attention.head_count", uint64_t{4});
  metadata.insert(prefix + "context_length", uint64_t{2048});
  metadata.insert(prefix + "vocab_size", uint64_t{260});
  metadata.insert(prefix + "ssm.conv_kernel", uint64_t{4});
  metadata.insert(prefix + "ssm.state_size", uint64_t{16});
  metadata.insert(prefix + "ssm.group_count", uint64_t{2});
  metadata.insert(prefix + "ssm.time_step_rank", uint64_t{4});
  metadata.insert(prefix + "ssm.inner_size", uint64_t{64});
  metadata.insert(prefix + "shortconv.l_cache", uint64_t{3});
  const bool has_halves = prefix.starts_with("nemotron_h");
  if (!prefix.starts_with("lfm2") && !prefix.starts_with("granitehybrid") && !has_halves) return;
  metadata.insert(prefix + "attention.head_count_kv", std::vector<uint64_t>{0, 0, 2, 0, 0, 2});
}

void check_config(const ModelConfig& config) {
  CHECK(config.layers.size() == config.n_layers);
  CHECK(config.attention().n_heads % config.attention().n_kv_heads == 0);
  const LayerGroups groups = group_layers(config);
  CHECK(groups.places.size() == config.n_layers);
  CHECK(groups.n_groups() <= kMaxLayerGroups);
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (!config.layers[i].if_attention()) continue;
    const AttentionConfig& a = config.layers[i].attention();
    CHECK(a.n_heads % a.n_kv_heads == 0 && a.rope < config.ropes.size());
    CHECK(config.ropes[a.rope].n_dims <= a.head_dim);
    CHECK(groups.places[i].layer < groups.n_layers[groups.places[i].group]);
    const auto& heads = groups.heads[groups.places[i].group];
    CHECK(heads.n_kv_heads == a.n_kv_heads && heads.head_dim == a.head_dim);
  }
  const StateLayout state = state_layout(config);
  CHECK((state.n_floats > 0) == config.has_state());
  for (uint32_t i = 1; i < config.n_layers; ++i) CHECK(state.offsets[i - 1] <= state.offsets[i]);
  for (const RopeConfig& rope : config.ropes) {
    for (uint32_t pair = 0; pair < rope.n_dims / 2; ++pair) (void)rope_frequency(rope, pair, 1.0);
  }
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  if (n_bytes == 0) return 0;
  const auto families = all_families();
  const std::string architecture(families[data[0] % families.size()]->name);
  const std::string prefix = architecture + ".";
  Metadata metadata;
  metadata.insert("general.architecture", architecture);
  for (size_t at = 1; at + kRecordBytes <= n_bytes; at += kRecordBytes) {
    const char* key = kKeys[data[at] % std::size(kKeys)];
    metadata.insert(prefix + key, value_of(data[at + 1], data + at + 2));
  }
  add_defaults(prefix, metadata);
  const auto config = read_config(metadata);
  if (config) {
    check_config(*config);
  } else {
    check_error(config.error());
  }
  return 0;
}
