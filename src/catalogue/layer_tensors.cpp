#include "catalogue/layer_tensors.h"

#include <initializer_list>
#include <utility>
#include <variant>

namespace kvik {
namespace {

using enum TensorRole;

// Lists the tensors of one layer.
class LayerTensors {
 public:
  LayerTensors(const ModelConfig& config, uint32_t layer, std::vector<TensorSpec>& specs)
      : c_(config), layer_(layer), specs_(specs) {}

  void list() {
    const LayerConfig& layer = c_.layers[layer_];
    if (c_.eagle && layer_ == c_.n_layers) return list_eagle_head(layer.attention());
    if (c_.assistant && layer_ >= c_.n_layers) return list_assistant(layer.attention());
    const bool may_lack_norm = c_.encoder && layer_ == 0;  // its input is a norm's output
    if (c_.has_pre_norms) add_optional(kAttentionNorm, {c_.model_dim}, may_lack_norm);
    if (has_norm_biases()) add(kAttentionNormBias, {c_.model_dim});
    std::visit([this](const auto& mixer) { list(mixer); }, layer.mixer);
    if (layer.beside) list(*layer.beside);
    if (c_.has_post_norms) add(kPostAttentionNorm, {c_.model_dim});
    if (c_.has_post_norms) add(kPostFfnNorm, {c_.model_dim});
    if (c_.has_pre_norms && !c_.has_one_norm && layer.mixes() && layer.has_feed_forward()) {
      add(ffn_norm_role(), {c_.model_dim});
      if (has_norm_biases()) add(kFfnNormBias, {c_.model_dim});
    }
    std::visit([this](const auto& kind) { list(kind); }, layer.feed_forward);
    if (c_.encoder && c_.encoder->has_post_norms) list_sum_norms();
    list_per_layer();
    if (layer_ == c_.n_layers) list_mtp_head();
    if (c_.adapter_switch) list_factors(*c_.adapter_switch, layer.attention());
  }

 private:
  TensorRole ffn_norm_role() const {
    if (c_.is_ffn_norm_post_attention) return kPostAttentionNorm;
    return c_.is_ffn_norm_bare ? kBareFfnNorm : kFfnNorm;
  }
  bool has_gate() const { return kvik::has_gate(c_.activation); }
  bool has_norm_biases() const { return c_.norm == NormKind::kLayerWithBias; }
  void add(TensorRole role, std::vector<uint64_t> shape) {
    specs_.push_back({{role, layer_}, std::move(shape)});
  }
  void add_optional(TensorRole role, std::vector<uint64_t> shape, bool is_optional) {
    specs_.push_back({{role, layer_}, std::move(shape), is_optional});
  }

  void list_latent(const AttentionConfig& a) {
    const LatentConfig& l = a.latent;
    const uint64_t q_dim = uint64_t{a.n_heads} * l.q_dim();
    if (l.q_rank == 0) {
      add(kQ, {q_dim, c_.model_dim});
    } else {
      add(kQDown, {l.q_rank, c_.model_dim});
      add(kQDownNorm, {l.q_rank});
      add(kQUp, {q_dim, l.q_rank});
    }
    if (!a.shared_kv) {
      add(kKvDown, {a.head_dim, c_.model_dim});
      add(kKvDownNorm, {l.rank});
    }
    add(kKUp, {a.n_heads, l.rank, l.qk_nope_head_dim});
    add(kVUp, {a.n_heads, l.value_dim, l.rank});
    if (a.gate_dim()) add(kOutputGate, {a.gate_dim(), c_.model_dim});
    if (a.has_ssmax) {
      add(kSsmaxScale, {a.n_heads});
      add(kSsmaxBias, {a.n_heads});
    }
    if (a.indexer.is_own()) list_indexer(a);
  }

  void list_indexer(const AttentionConfig& a) {
    const IndexerConfig& i = a.indexer;
    const uint32_t n_inputs = i.has_input_norm ? c_.model_dim : a.latent.q_rank;
    add(kIndexQuery, {uint64_t{i.n_heads} * i.head_dim, n_inputs});
    add(kIndexKey, {i.head_dim, c_.model_dim});
    add(kIndexKeyNorm, {i.head_dim});
    add(kIndexKeyNormBias, {i.head_dim});
    add(kIndexWeights, {i.n_heads, c_.model_dim});
    if (i.has_weighted_means) {
      add(kIndexEntryGate, {i.head_dim, c_.model_dim});
      add(kIndexEntryPositions, {i.key_tokens, i.head_dim});
    }
    if (i.has_input_norm) {
      add(kIndexInputNorm, {c_.model_dim});
      add(kIndexInputNormBias, {c_.model_dim});
    }
    if (!a.has_ssmax) return;
    add(kIndexSsmaxScale, {i.n_heads});
    add(kIndexSsmaxBias, {i.n_heads});
  }

  void list_index_heads(const IndexerConfig& i) {
    add(kIndexHeadQuery, {uint64_t{i.n_heads} * i.head_dim, c_.model_dim});
    add(kIndexHeadKey, {i.head_dim, c_.model_dim});
    add(kIndexQueryNorm, {i.head_dim});
    add(kIndexKeyNorm, {i.head_dim});
  }

  void list_entries(const EntriesConfig& e, uint64_t head_dim, uint64_t q_rank) {
    if (!e.exist()) return;
    const auto list_parts = [&](std::initializer_list<TensorRole> roles, uint64_t dim) {
      const auto* role = roles.begin();
      add(role[0], {e.n_parts() * dim, c_.model_dim});
      add(role[1], {e.n_parts() * dim, c_.model_dim});
      add(role[2], {e.n_tokens, e.n_parts() * dim});
      add(role[3], {dim});
    };
    list_parts({kEntryValue, kEntryGate, kEntryPositions, kEntryNorm}, head_dim);
    if (!e.selects()) return;
    list_parts({kIndexEntryValue, kIndexEntryGate, kIndexEntryPositions, kIndexEntryNorm},
               e.index_dim);
    add(kIndexQuery, {uint64_t{e.n_index_heads} * e.index_dim, q_rank});
    add(kIndexWeights, {e.n_index_heads, c_.model_dim});
  }

  void list_joint(const AttentionConfig& a) {
    const JointConfig& j = a.joint;
    add(kQDown, {j.q_rank, c_.model_dim});
    add(kQDownNorm, {j.q_rank});
    add(kQUp, {a.q_dim(), j.q_rank});
    add(kJointKv, {a.head_dim, c_.model_dim});
    add(kKvDownNorm, {a.head_dim});
    add(kOutputDown, {a.output_dim(), a.q_dim() / j.n_groups});
    add(kOutputUp, {c_.model_dim, a.output_dim()});
    add(kSinks, {a.n_heads});
    list_entries(j.entries, a.head_dim, j.q_rank);
  }

  // The first of the stacked factors is unused, and zero.
  void list_factors(const AdapterSwitch& s, const AttentionConfig& a) {
    for (const LoraRoles& roles : kLoraRoles) {
      const auto [n_rows, n_cols] = shape_of(roles.matrix, a);
      add_optional(roles.a, {s.n_adapters + uint64_t{1}, s.rank, n_cols}, true);
      add_optional(roles.b, {s.n_adapters + uint64_t{1}, n_rows, s.rank}, true);
    }
  }
  std::pair<uint64_t, uint64_t> shape_of(TensorRole matrix, const AttentionConfig& a) const {
    switch (matrix) {
      case kQ:
        return {a.q_dim(), c_.model_dim};
      case kK:
        return {a.kv_dim(), c_.model_dim};
      case kV:
        return {a.v_dim(), c_.model_dim};
      case kAttentionOutput:
        return {c_.model_dim, a.output_dim()};
      case kDown:
        return {c_.model_dim, c_.ffn_dim};
      default:
        return {c_.ffn_dim, c_.model_dim};
    }
  }

  void list(const AttentionConfig& a) {
    if (a.joint.exists()) return list_joint(a);
    if (a.latent.rank) {
      list_latent(a);
    } else if (a.is_fused) {
      add(kQkv, {a.qkv_dim(), c_.model_dim});
    } else {
      const uint64_t gate_rows = a.output_gate == OutputGate::kInQ ? a.gate_dim() : 0;
      add(kQ, {a.q_dim() + gate_rows, c_.model_dim});
      if (!a.shared_kv) add(kK, {a.kv_dim(), c_.model_dim});
      if (!a.shared_kv) add_optional(kV, {a.v_dim(), c_.model_dim}, a.is_v_optional);
      if (a.gate_dim() > gate_rows) add(kOutputGate, {a.gate_dim(), c_.model_dim});
    }
    if (a.indexer.is_own() && !a.latent.rank) list_index_heads(a.indexer);
    add(kAttentionOutput, {c_.model_dim, a.output_dim()});
    if (a.has_output_bias) {
      add_optional(kAttentionOutputBias, {c_.model_dim}, a.is_output_bias_optional);
    }
    if (a.has_sinks) add(kSinks, {a.n_heads});
    if (a.has_qkv_bias && a.is_fused) {
      add(kQkvBias, {a.qkv_dim()});
    } else if (a.has_qkv_bias) {
      add_optional(kQBias, {a.q_dim()}, a.is_qkv_bias_optional);
      add_optional(kKBias, {a.kv_dim()}, a.is_qkv_bias_optional);
      add_optional(kVBias, {a.v_dim()}, a.is_qkv_bias_optional);
    }
    if (a.qk_norm == QkNorm::kNone || a.qk_norm == QkNorm::kPlain) return;
    if (a.qk_norm == QkNorm::kLayerPerHead) {
      add_optional(kQNorm, {a.n_heads, a.head_dim}, a.is_qk_norm_optional);
      add_optional(kKNorm, {a.n_kv_heads, a.head_dim}, a.is_qk_norm_optional);
      return;
    }
    add_optional(kQNorm, {a.q_norm_dim()}, a.is_qk_norm_optional);
    if (!a.shared_kv) add_optional(kKNorm, {a.k_norm_dim()}, a.is_qk_norm_optional);
  }

  void list(const DeltaConfig& d) {
    add(kQkv, {d.conv_dim(), c_.model_dim});
    add(kOutputGate, {d.values_dim(), c_.model_dim});
    if (d.is_gate_fused) {
      add(kStateGates, {uint64_t{2} * d.n_value_heads, c_.model_dim});
    } else {
      add(kStateBeta, {d.n_value_heads, c_.model_dim});
      add(kStateAlpha, {d.n_value_heads, c_.model_dim});
    }
    add(kStateConv, {d.conv_dim(), d.kernel_size});
    add(kStateStepBias, {d.n_value_heads});
    add(kStateDecay, {d.n_value_heads});
    add(kStateNorm, {d.value_dim});
    add(kStateOutput, {c_.model_dim, d.values_dim()});
  }

  void list(const ShortConvConfig& s) {
    add(kConvIn, {uint64_t{3} * s.dim, c_.model_dim});
    add(kConvWeights, {s.dim, s.kernel_size});
    add(kConvOutput, {c_.model_dim, s.dim});
  }

  void list(const StateSpaceConfig& s) {
    add(kSpaceIn, {s.in_dim(), c_.model_dim});
    add(kStateConv, {s.conv_dim(), s.kernel_size});
    add(kSpaceConvBias, {s.conv_dim()});
    add(kStateStepBias, {s.n_heads});
    add(kStateDecay, {s.n_heads, 1});
    add(kSpaceSkip, {s.n_heads, 1});
    add_optional(kStateNorm, {s.n_groups, s.inner_dim() / s.n_groups}, s.is_norm_optional);
    add(kStateOutput, {c_.model_dim, s.inner_dim()});
  }

  void list(const KdaConfig& k) {
    for (const TensorRole role : {kQ, kK, kV}) add(role, {k.inner_dim(), c_.model_dim});
    for (const TensorRole role : {kQConv, kKConv, kVConv}) {
      add(role, {k.inner_dim(), 1, k.kernel_size});
    }
    const uint32_t rank = k.is_low_rank ? k.head_dim : k.inner_dim();
    add(kDecayDown, {rank, c_.model_dim});
    if (k.is_low_rank) add(kDecayUp, {k.inner_dim(), rank});
    add(kGateDown, {rank, c_.model_dim});
    if (k.is_low_rank) add(kGateUp, {k.inner_dim(), rank});
    add(kStateBeta, {k.n_heads, c_.model_dim});
    add(kStateStepBias, {k.inner_dim()});
    add(kStateDecay, {k.n_heads, 1});
    add(kStateNorm, {k.head_dim});
    add(kAttentionOutput, {c_.model_dim, k.inner_dim()});
  }

  void list(const SelectiveConfig& s) {
    add(kSpaceIn, {uint64_t{2} * s.inner_dim, c_.model_dim});
    add(kStateConv, {s.inner_dim, s.kernel_size});
    add(kSpaceConvBias, {s.inner_dim});
    add(kSelect, {s.selected_dim(), s.inner_dim});
    add(kStepUp, {s.inner_dim, s.step_rank});
    add(kStateStepBias, {s.inner_dim});
    add(kStepNorm, {s.step_rank});
    add(kSelectInNorm, {s.state_dim});
    add(kSelectOutNorm, {s.state_dim});
    add(kStateDecay, {s.inner_dim, s.state_dim});
    add(kSpaceSkip, {s.inner_dim});
    add(kStateOutput, {c_.model_dim, s.inner_dim});
  }

  void list(const NoMixer&) {}
  void list(const NoFeedForward&) {}

  void list(const MlpConfig& mlp) {
    if (has_gate() && !mlp.is_fused) add(kGate, {mlp.ffn_dim, c_.model_dim});
    add(kUp, {uint64_t{mlp.is_fused ? 2u : 1u} * mlp.ffn_dim, c_.model_dim});
    add(kDown, {c_.model_dim, mlp.ffn_dim});
    if (!mlp.has_biases) return;
    if (has_gate()) add_optional(kGateBias, {mlp.ffn_dim}, mlp.are_biases_optional);
    add_optional(kUpBias, {mlp.ffn_dim}, mlp.are_biases_optional);
    add_optional(kDownBias, {c_.model_dim}, mlp.are_biases_optional);
  }

  void list(const ExpertsConfig& e) {
    add(kRouter, {e.n_experts, c_.model_dim});
    if (e.has_score_bias) add(kScoreBias, {e.n_experts});
    if (e.has_correction_bias)
      add_optional(kCorrectionBias, {e.n_experts}, e.is_correction_bias_optional);
    if (e.has_token_table) add(kExpertTable, {c_.n_vocab, e.n_used});
    const uint32_t dim = e.latent_dim ? e.latent_dim : c_.model_dim;
    if (has_gate()) add(kExpertGate, {e.n_experts, e.ffn_dim, dim});
    add(kExpertUp, {e.n_experts, e.ffn_dim, dim});
    add(kExpertDown, {e.n_experts, dim, e.ffn_dim});
    if (e.latent_dim) {
      add(kExpertsLatentDown, {e.latent_dim, c_.model_dim});
      add(kExpertsLatentUp, {c_.model_dim, e.latent_dim});
    }
    if (e.has_biases) {
      add(kExpertGateBias, {e.n_experts, e.ffn_dim});
      add(kExpertUpBias, {e.n_experts, e.ffn_dim});
      add(kExpertDownBias, {e.n_experts, c_.model_dim});
    }
    if (e.parallel_ffn_dim) {
      list(MlpConfig{.ffn_dim = e.parallel_ffn_dim});
      add(kRouterNorm, {c_.model_dim});
      add_optional(kExpertFactors, {e.n_experts}, true);
      for (const TensorRole norm : {kExpertsNorm, kMlpPostNorm, kExpertsPostNorm}) {
        add(norm, {c_.model_dim});
      }
    }
    if (e.has_shared_gate) add(kSharedExpertGate, {c_.model_dim});
    if (e.shared_ffn_dim == 0) return;
    if (has_gate()) add(kSharedGate, {e.shared_ffn_dim, c_.model_dim});
    add(kSharedUp, {e.shared_ffn_dim, c_.model_dim});
    add(kSharedDown, {c_.model_dim, e.shared_ffn_dim});
  }

  void list_sum_norms() {
    add(kAttentionOutputNorm, {c_.model_dim});
    add(kLayerOutputNorm, {c_.model_dim});
    if (!c_.encoder->has_norm_biases) return;
    add(kAttentionOutputNormBias, {c_.model_dim});
    add(kLayerOutputNormBias, {c_.model_dim});
  }

  void list_mtp_head() {
    add(kMtpEmbeddingNorm, {c_.model_dim});
    const bool is_shared = c_.mtp_streams == StreamNorm::kShared;
    add(kMtpHiddenNorm, {is_shared ? c_.model_dim : c_.mtp_hidden_dim()});
    if (c_.mtp_streams) list_mtp_streams(*c_.hyper);
    // Without a norm of its own, the MTP head of a model with mixed streams has the model's.
    const bool may_lack_norm = c_.mtp_streams && c_.hyper->sinkhorn;
    if (!c_.lacks_mtp_output_norm) add_optional(kMtpOutputNorm, {c_.model_dim}, may_lack_norm);
    const uint64_t n_inputs = c_.eagle ? c_.eagle->taps.size() : 2;
    add(kMtpProjection, {c_.model_dim, n_inputs * c_.model_dim});
    if (c_.has_mtp_embedding) add(kMtpEmbedding, {c_.n_vocab, c_.model_dim});
    const bool is_part = c_.eagle && c_.eagle->tokens;
    if (c_.has_mtp_output) {
      add(kMtpHead, {is_part ? c_.eagle->tokens->size() : c_.n_vocab, c_.model_dim});
    }
  }

  // Hyper-connections of its output; without own weights, mixed streams have those of the model.
  void list_mtp_streams(const HyperConnectionsConfig& h) {
    const uint64_t n_cols = uint64_t{h.n} * c_.model_dim;
    if (!h.sinkhorn) {
      add(kMtpHyperNorm, {n_cols});
      add(kMtpHyperDown, {h.rank, n_cols});
      add(kMtpHyperUp, {n_cols, h.rank});
    } else if (h.sinkhorn->has_output_weights) {
      add_optional(kMtpHyperProjection, {h.n, n_cols}, true);
      add_optional(kMtpHyperBase, {h.n}, true);
      add_optional(kMtpHyperScale, {1}, true);
    }
  }

  void list_assistant(const AttentionConfig& a) {
    const uint64_t dim = c_.draft_dim();
    for (const TensorRole norm : {kAttentionNorm, kPostAttentionNorm, kFfnNorm, kPostFfnNorm}) {
      add(norm, {dim});
    }
    add(kQ, {a.q_dim(), dim});
    add(kQNorm, {a.head_dim});
    add(kAttentionOutput, {dim, a.output_dim()});
    const uint64_t ffn_dim = std::get<MlpConfig>(c_.layers[layer_].feed_forward).ffn_dim;
    add(kGate, {ffn_dim, dim});
    add(kUp, {ffn_dim, dim});
    add(kDown, {dim, ffn_dim});
    add_optional(kLayerScale, {1}, true);
    if (layer_ > c_.n_layers) return;
    add(kMtpProjection, {dim, uint64_t{2} * c_.model_dim});
    add(kMtpPost, {c_.model_dim, dim});
    add(kMtpOutputNorm, {dim});
    add(kMtpHead, {c_.n_vocab, dim});
  }

  // Q, K and V are projections of the embedding and the projected hidden states, concatenated.
  void list_eagle_head(const AttentionConfig& a) {
    const uint64_t n_cols = uint64_t{2} * c_.model_dim;
    add(kQ, {a.q_dim(), n_cols});
    add(kK, {a.kv_dim(), n_cols});
    add(kV, {a.v_dim(), n_cols});
    if (a.has_qkv_bias) {
      for (const auto& [role, n] : {std::pair(kQBias, a.q_dim()), std::pair(kKBias, a.kv_dim()),
                                    std::pair(kVBias, a.v_dim())}) {
        add_optional(role, {n}, true);
      }
    }
    add(kAttentionOutput, {c_.model_dim, a.output_dim()});
    add(ffn_norm_role(), {c_.model_dim});
    const uint64_t ffn_dim = std::get<MlpConfig>(c_.layers[layer_].feed_forward).ffn_dim;
    add(kGate, {ffn_dim, c_.model_dim});
    add(kUp, {ffn_dim, c_.model_dim});
    add(kDown, {c_.model_dim, ffn_dim});
    list_mtp_head();
  }

  void list_per_layer() {
    if (c_.per_layer_dim) {
      add(kPerLayerGate, {c_.per_layer_dim, c_.model_dim});
      add(kPerLayerOutput, {c_.model_dim, c_.per_layer_dim});
      add(kPerLayerPostNorm, {c_.model_dim});
    }
    if (c_.streams) list_streams(*c_.streams);
    if (c_.hyper && (layer_ < c_.n_layers || c_.mtp_streams)) list_hyper_connections(*c_.hyper);
    if (c_.ngrams && c_.ngrams->layer == layer_) list_ngrams(*c_.ngrams, c_.hyper->n);
    if (c_.has_layer_scales) add_optional(kLayerScale, {1}, true);
  }

  void list_streams(const StreamsConfig& s) {
    add(kStreamNorm, {c_.model_dim});
    add(kStreamRouter, {s.n, c_.model_dim});
    add(kStreamPredict, {uint64_t{s.n} * s.n, s.n});
    add(kStreamCorrect, {s.n, s.n});
    add(kStreamScale, {c_.model_dim});
    add(kLaurelDown, {s.laurel_rank, c_.model_dim});
    add(kLaurelUp, {c_.model_dim, s.laurel_rank});
    add(kLaurelNorm, {c_.model_dim});
  }

  void list_hyper_connections(const HyperConnectionsConfig& h) {
    const uint64_t n_cols = uint64_t{h.n} * c_.model_dim;
    if (h.sinkhorn) {
      const uint64_t n_weights = (uint64_t{2} + h.n) * h.n;
      for (const TensorRole projection : {kMixerHyperProjection, kFfnHyperProjection}) {
        add(projection, {n_weights, n_cols});
      }
      for (const TensorRole base : {kMixerHyperBase, kFfnHyperBase}) add(base, {n_weights});
      for (const TensorRole scale : {kMixerHyperScale, kFfnHyperScale}) add(scale, {3});
      return;
    }
    for (const TensorRole norm : {kMixerHyperNorm, kFfnHyperNorm}) add(norm, {n_cols});
    for (const TensorRole down : {kMixerHyperDown, kFfnHyperDown}) add(down, {h.rank, n_cols});
    for (const TensorRole up : {kMixerHyperUp, kFfnHyperUp}) add(up, {n_cols, h.rank});
    for (const TensorRole inject : {kMixerHyperInject, kFfnHyperInject}) add(inject, {h.n, n_cols});
  }

  void list_ngrams(const NgramConfig& g, uint64_t n_streams) {
    const uint64_t n_cols = n_streams * c_.model_dim;
    add(kNgramKey, {n_cols, g.dim()});
    add(kNgramValue, {c_.model_dim, g.dim()});
    for (const TensorRole norm : {kNgramKeyNorm, kNgramQueryNorm, kNgramConvNorm}) {
      add(norm, {n_cols});
    }
    add(kNgramConv, {n_cols, g.kernel_size});
  }

  const ModelConfig& c_;
  uint32_t layer_;
  std::vector<TensorSpec>& specs_;
};

}  // namespace

void list_layer(const ModelConfig& config, uint32_t layer, std::vector<TensorSpec>& specs) {
  LayerTensors(config, layer, specs).list();
}

}  // namespace kvik
