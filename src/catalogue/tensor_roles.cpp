#include "catalogue/tensor_roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "catalogue/kv_source.h"
#include "catalogue/layer_tensors.h"

namespace kvik {
namespace {

using enum TensorRole;
using enum TensorKind;

struct RoleEntry {
  TensorRole role;
  TensorKind kind;
  std::string_view name;  // name in a GGUF file, after "blk.N." for tensors of a layer
  std::string_view folder_name = {};
};

constexpr RoleEntry kRoles[] = {
    {kEmbedding, kMatrix, "token_embd.weight", "embed_tokens.weight"},
    {kRopeDivisors, kDivisors, "rope_freqs.weight"},
    {kLongRopeDivisors, kDivisors, "rope_factors_long.weight"},
    {kShortRopeDivisors, kDivisors, "rope_factors_short.weight"},
    {kOutputNorm, kNorm, "output_norm.weight", "norm.weight"},
    {kOutputNormBias, kBias, "output_norm.bias", "norm.bias"},
    {kEmbeddingsNorm, kNorm, "token_embd_norm.weight"},
    {kEmbeddingsNormBias, kBias, "token_embd_norm.bias"},
    {kPositions, kRouting, "position_embd.weight"},
    {kTokenTypes, kRouting, "token_types.weight"},
    {kPooler, kRouting, "cls.weight"},
    {kPoolerBias, kBias, "cls.bias"},
    {kClassifier, kRouting, "cls.output.weight"},
    {kClassifierBias, kBias, "cls.output.bias"},
    {kDenseOut, kRouting, "dense_2.weight", "dense_2.weight"},
    {kDenseBack, kRouting, "dense_3.weight", "dense_3.weight"},
    {kHead, kMatrix, "output.weight", "lm_head.weight"},
    {kHeadBias, kBias, "output.bias"},
    {kPerLayerEmbedding, kMatrix, "per_layer_token_embd.weight", "embed_tokens_per_layer.weight"},
    {kPerLayerProjection, kMatrix, "per_layer_model_proj.weight",
     "per_layer_model_projection.weight"},
    {kPerLayerProjectionNorm, kNorm, "per_layer_proj_norm.weight",
     "per_layer_projection_norm.weight"},
    {kStreamProjections, kHeads, "altup_proj.weight", "altup_projections.{}.weight"},
    {kStreamOutputs, kHeads, "altup_unembd_proj.weight", "altup_unembed_projections.{}.weight"},
    {kHyperNorm, kNorm, "output_hc_norm.weight", "hyper_connection_mixer.hc_norm.weight"},
    {kHyperDown, kMatrix, "output_hc_down.weight",
     "hyper_connection_mixer.input_mix_weight_down.weight"},
    {kHyperUp, kMatrix, "output_hc_up.weight", "hyper_connection_mixer.input_mix_weight_up.weight"},
    {kHyperProjection, kRouting, "output_hc_fn.weight", "hc_head_fn"},
    {kHyperBase, kBias, "output_hc_base.weight", "hc_head_base"},
    {kHyperScale, kBias, "output_hc_scale.weight", "hc_head_scale"},
    {kAttentionNorm, kNorm, "attn_norm.weight", "input_layernorm.weight"},
    {kAttentionNormBias, kBias, "attn_norm.bias", "input_layernorm.bias"},
    {kQkv, kMatrix, "attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {kQkvBias, kBias, "attn_qkv.bias", "self_attn.qkv_proj.bias"},
    {kQ, kMatrix, "attn_q.weight", "self_attn.q_proj.weight"},
    {kK, kMatrix, "attn_k.weight", "self_attn.k_proj.weight"},
    {kV, kMatrix, "attn_v.weight", "self_attn.v_proj.weight"},
    {kQDown, kMatrix, "attn_q_a.weight", "self_attn.q_a_proj.weight"},
    {kQDownNorm, kNorm, "attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
    {kQUp, kMatrix, "attn_q_b.weight", "self_attn.q_b_proj.weight"},
    {kKvDown, kMatrix, "attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
    {kKvDownNorm, kNorm, "attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
    {kKvUp, kMatrix, "attn_kv_b.weight", "self_attn.kv_b_proj.weight"},
    {kKUp, kHeads, "attn_k_b.weight"},
    {kVUp, kHeads, "attn_v_b.weight"},
    {kJointKv, kMatrix, "attn_kv.weight", "self_attn.kv_proj.weight"},
    {kOutputDown, kHeads, "attn_output_a.weight", "self_attn.o_a_proj.weight"},
    {kOutputUp, kMatrix, "attn_output_b.weight", "self_attn.o_b_proj.weight"},
    {kEntryValue, kMatrix, "attn_compressor_kv.weight"},
    {kEntryGate, kMatrix, "attn_compressor_gate.weight"},
    {kEntryPositions, kConvKernel, "attn_compressor_ape.weight"},
    {kEntryNorm, kNorm, "attn_compressor_norm.weight"},
    {kIndexEntryValue, kMatrix, "indexer_compressor_kv.weight"},
    {kIndexEntryGate, kMatrix, "indexer_compressor_gate.weight",
     "self_attn.indexer.index_kpool_compress_gate"},
    {kIndexEntryPositions, kConvKernel, "indexer_compressor_ape.weight",
     "self_attn.indexer.index_kpool_compress_ape"},
    {kIndexEntryNorm, kNorm, "indexer_compressor_norm.weight"},
    {kIndexQuery, kMatrix, "indexer.attn_q_b.weight", "self_attn.indexer.wq_b.weight"},
    {kIndexKey, kMatrix, "indexer.attn_k.weight", "self_attn.indexer.wk.weight"},
    {kIndexKeyNorm, kNorm, "indexer.k_norm.weight", "self_attn.indexer.k_norm.weight"},
    {kIndexKeyNormBias, kBias, "indexer.k_norm.bias", "self_attn.indexer.k_norm.bias"},
    {kIndexWeights, kRouting, "indexer.proj.weight", "self_attn.indexer.weights_proj.weight"},
    {kIndexHeadQuery, kMatrix, "indexer.q_proj.weight", "self_attn.indexer.q_proj.weight"},
    {kIndexHeadKey, kMatrix, "indexer.k_proj.weight", "self_attn.indexer.k_proj.weight"},
    {kIndexQueryNorm, kNorm, "indexer.q_norm.weight", "self_attn.indexer.q_norm.weight"},
    {kIndexInputNorm, kNorm, "indexer.q_input_norm.weight",
     "self_attn.indexer.q_input_norm.weight"},
    {kIndexInputNormBias, kBias, "indexer.q_input_norm.bias",
     "self_attn.indexer.q_input_norm.bias"},
    {kIndexSsmaxScale, kBias, "indexer.ssmax.weight", "self_attn.indexer.softmax_scaling.scale"},
    {kIndexSsmaxBias, kNorm, "indexer.ssmax.bias", "self_attn.indexer.softmax_scaling.bias"},
    {kSsmaxScale, kBias, "attn_ssmax.weight", "self_attn.softmax_scaling.scale"},
    {kSsmaxBias, kNorm, "attn_ssmax.bias", "self_attn.softmax_scaling.bias"},
    {kAttentionOutput, kMatrix, "attn_output.weight", "self_attn.o_proj.weight"},
    {kAttentionOutputBias, kBias, "attn_output.bias", "self_attn.o_proj.bias"},
    {kSinks, kBias, "attn_sinks.weight", "self_attn.sinks"},
    {kQBias, kBias, "attn_q.bias", "self_attn.q_proj.bias"},
    {kKBias, kBias, "attn_k.bias", "self_attn.k_proj.bias"},
    {kVBias, kBias, "attn_v.bias", "self_attn.v_proj.bias"},
    {kQNorm, kNorm, "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {kKNorm, kNorm, "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {kOutputGate, kMatrix, "attn_gate.weight", "linear_attn.in_proj_z.weight"},
    {kStateBeta, kMatrix, "ssm_beta.weight", "linear_attn.in_proj_b.weight"},
    {kStateAlpha, kMatrix, "ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
    {kStateGates, kMatrix, "ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
    {kStateConv, kConvKernel, "ssm_conv1d.weight", "linear_attn.conv1d.weight"},
    {kStateStepBias, kBias, "ssm_dt.bias", "linear_attn.dt_bias"},
    {kStateDecay, kDecay, "ssm_a", "linear_attn.A_log"},
    {kStateNorm, kNorm, "ssm_norm.weight", "linear_attn.norm.weight"},
    {kStateOutput, kMatrix, "ssm_out.weight", "linear_attn.out_proj.weight"},
    {kSpaceIn, kMatrix, "ssm_in.weight"},
    {kSpaceConvBias, kBias, "ssm_conv1d.bias"},
    {kSpaceSkip, kConvKernel, "ssm_d"},
    {kSelect, kMatrix, "ssm_x.weight", "mamba.x_proj.weight"},
    {kStepUp, kMatrix, "ssm_dt.weight", "mamba.dt_proj.weight"},
    {kStepNorm, kNorm, "ssm_dt_norm.weight", "mamba.dt_layernorm.weight"},
    {kSelectInNorm, kNorm, "ssm_b_norm.weight", "mamba.b_layernorm.weight"},
    {kSelectOutNorm, kNorm, "ssm_c_norm.weight", "mamba.c_layernorm.weight"},
    {kQConv, kConvKernel, "ssm_conv1d_q.weight", "self_attn.q_conv1d.weight"},
    {kKConv, kConvKernel, "ssm_conv1d_k.weight", "self_attn.k_conv1d.weight"},
    {kVConv, kConvKernel, "ssm_conv1d_v.weight", "self_attn.v_conv1d.weight"},
    {kDecayDown, kMatrix, "ssm_f_a.weight", "self_attn.f_a_proj.weight"},
    {kDecayUp, kMatrix, "ssm_f_b.weight", "self_attn.f_b_proj.weight"},
    {kGateDown, kMatrix, "ssm_g_a.weight", "self_attn.g_a_proj.weight"},
    {kGateUp, kMatrix, "ssm_g_b.weight", "self_attn.g_b_proj.weight"},
    {kConvIn, kMatrix, "shortconv.in_proj.weight"},
    {kConvWeights, kConvKernel, "shortconv.conv.weight"},
    {kConvOutput, kMatrix, "shortconv.out_proj.weight"},
    {kAttentionOutputNorm, kNorm, "attn_output_norm.weight"},
    {kAttentionOutputNormBias, kBias, "attn_output_norm.bias"},
    {kLayerOutputNorm, kNorm, "layer_output_norm.weight"},
    {kLayerOutputNormBias, kBias, "layer_output_norm.bias"},
    {kPostAttentionNorm, kNorm, "post_attention_norm.weight", "post_attention_layernorm.weight"},
    {kPostFfnNorm, kNorm, "post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {kFfnNorm, kNorm, "ffn_norm.weight", "post_attention_layernorm.weight"},
    {kFfnNormBias, kBias, "ffn_norm.bias", "post_attention_layernorm.bias"},
    {kBareFfnNorm, kNorm, "ffn_norm"},
    {kGate, kMatrix, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {kUp, kMatrix, "ffn_up.weight", "mlp.up_proj.weight"},
    {kDown, kMatrix, "ffn_down.weight", "mlp.down_proj.weight"},
    {kGateBias, kBias, "ffn_gate.bias", "mlp.gate_proj.bias"},
    {kUpBias, kBias, "ffn_up.bias", "mlp.up_proj.bias"},
    {kDownBias, kBias, "ffn_down.bias", "mlp.down_proj.bias"},
    {kRouter, kRouting, "ffn_gate_inp.weight", "mlp.gate.weight"},
    {kScoreBias, kBias, "ffn_gate_inp.bias", "mlp.router.bias"},
    {kCorrectionBias, kBias, "exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {kExpertTable, kNumbers, "ffn_gate_tid2eid.weight", "mlp.gate.tid2eid"},
    {kExpertGate, kExperts, "ffn_gate_exps.weight", "mlp.experts.{}.gate_proj.weight"},
    {kExpertUp, kExperts, "ffn_up_exps.weight", "mlp.experts.{}.up_proj.weight"},
    {kExpertDown, kExperts, "ffn_down_exps.weight", "mlp.experts.{}.down_proj.weight"},
    {kExpertGateBias, kBias, "ffn_gate_exps.bias"},
    {kExpertUpBias, kBias, "ffn_up_exps.bias"},
    {kExpertDownBias, kBias, "ffn_down_exps.bias"},
    {kExpertsLatentDown, kMatrix, "ffn_latent_down.weight", "mixer.fc1_latent_proj.weight"},
    {kExpertsLatentUp, kMatrix, "ffn_latent_up.weight", "mixer.fc2_latent_proj.weight"},
    {kSharedExpertGate, kRouting, "ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    {kSharedGate, kMatrix, "ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {kSharedUp, kMatrix, "ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {kSharedDown, kMatrix, "ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    {kRouterNorm, kNorm, "ffn_gate_inp.scale", "router.scale"},
    {kExpertFactors, kNorm, "ffn_down_exps.scale", "router.per_expert_scale"},
    {kExpertsNorm, kNorm, "pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
    {kMlpPostNorm, kNorm, "post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
    {kExpertsPostNorm, kNorm, "post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"},
    {kPerLayerGate, kMatrix, "inp_gate.weight", "per_layer_input_gate.weight"},
    {kPerLayerOutput, kMatrix, "proj.weight", "per_layer_projection.weight"},
    {kPerLayerPostNorm, kNorm, "post_norm.weight", "post_per_layer_input_norm.weight"},
    {kStreamNorm, kNorm, "altup_router_norm.weight", "altup.router_norm.weight"},
    {kStreamRouter, kRouting, "altup_router.weight", "altup.modality_router.weight"},
    {kStreamPredict, kRouting, "altup_predict_coef.weight", "altup.prediction_coefs.weight"},
    {kStreamCorrect, kRouting, "altup_correct_coef.weight", "altup.correction_coefs.weight"},
    {kStreamScale, kNorm, "altup_correct_scale.weight", "altup.correct_output_scale"},
    {kLaurelDown, kMatrix, "laurel_l.weight", "laurel.linear_left.weight"},
    {kLaurelUp, kMatrix, "laurel_r.weight", "laurel.linear_right.weight"},
    {kLaurelNorm, kNorm, "laurel_post_norm.weight", "laurel.post_laurel_norm.weight"},
    {kLayerScale, kNorm, "layer_output_scale.weight", "layer_scalar"},
    {kMixerHyperNorm, kNorm, "hc_attn_norm.weight", "attn_hyper_connection.hc_norm.weight"},
    {kMixerHyperDown, kMatrix, "hc_attn_down.weight",
     "attn_hyper_connection.input_mix_weight_down.weight"},
    {kMixerHyperUp, kMatrix, "hc_attn_up.weight",
     "attn_hyper_connection.input_mix_weight_up.weight"},
    {kMixerHyperInject, kRouting, "hc_attn_inject.weight",
     "attn_hyper_connection.block_inject_weight.weight"},
    {kFfnHyperNorm, kNorm, "hc_ffn_norm.weight", "mlp_hyper_connection.hc_norm.weight"},
    {kFfnHyperDown, kMatrix, "hc_ffn_down.weight",
     "mlp_hyper_connection.input_mix_weight_down.weight"},
    {kFfnHyperUp, kMatrix, "hc_ffn_up.weight", "mlp_hyper_connection.input_mix_weight_up.weight"},
    {kFfnHyperInject, kRouting, "hc_ffn_inject.weight",
     "mlp_hyper_connection.block_inject_weight.weight"},
    {kMixerHyperProjection, kRouting, "hc_attn_fn.weight", "hc_attn_fn"},
    {kMixerHyperBase, kBias, "hc_attn_base.weight", "hc_attn_base"},
    {kMixerHyperScale, kBias, "hc_attn_scale.weight", "hc_attn_scale"},
    {kFfnHyperProjection, kRouting, "hc_ffn_fn.weight", "hc_ffn_fn"},
    {kFfnHyperBase, kBias, "hc_ffn_base.weight", "hc_ffn_base"},
    {kFfnHyperScale, kBias, "hc_ffn_scale.weight", "hc_ffn_scale"},
    {kNgramKey, kMatrix, "ple_key.weight", "ple.key_proj.weight"},
    {kNgramValue, kMatrix, "ple_value.weight", "ple.value_proj.weight"},
    {kNgramKeyNorm, kNorm, "ple_norm_key.weight", "ple.norm_key.weight"},
    {kNgramQueryNorm, kNorm, "ple_norm_query.weight", "ple.norm_query.weight"},
    {kNgramConvNorm, kNorm, "ple_norm_conv.weight", "ple.norm_conv.weight"},
    {kNgramConv, kConvKernel, "ple_conv1d.weight", "ple.conv1d.weight"},
    {kMtpEmbeddingNorm, kNorm, "nextn.enorm.weight", "pre_fc_norm_embedding.weight"},
    {kMtpHiddenNorm, kNorm, "nextn.hnorm.weight", "pre_fc_norm_hidden.weight"},
    {kMtpProjection, kMatrix, "nextn.eh_proj.weight", "fc.weight"},
    {kMtpOutputNorm, kNorm, "nextn.shared_head_norm.weight", "norm.weight"},
    {kMtpHyperNorm, kNorm, "nextn.hc_head_norm.weight", "hyper_connection_mixer.hc_norm.weight"},
    {kMtpHyperDown, kMatrix, "nextn.hc_head_down.weight",
     "hyper_connection_mixer.input_mix_weight_down.weight"},
    {kMtpHyperUp, kMatrix, "nextn.hc_head_up.weight",
     "hyper_connection_mixer.input_mix_weight_up.weight"},
    {kMtpHyperProjection, kRouting, "nextn.hc_head_fn.weight", "hc_head_fn"},
    {kMtpHyperBase, kBias, "nextn.hc_head_base.weight", "hc_head_base"},
    {kMtpHyperScale, kBias, "nextn.hc_head_scale.weight", "hc_head_scale"},
    {kMtpEmbedding, kMatrix, "nextn.embed_tokens.weight", "embed_tokens.weight"},
    {kMtpHead, kMatrix, "nextn.shared_head_head.weight", "lm_head.weight"},
    {kMtpPost, kMatrix, "nextn.post_projection.weight"},
    {kQLoraA, kLoraFactor, "attn_q.lora_a", "self_attn.qkv_proj.lora_A_slices.0"},
    {kQLoraB, kLoraFactor, "attn_q.lora_b", "self_attn.qkv_proj.lora_B_slices.0"},
    {kKLoraA, kLoraFactor, "attn_k.lora_a", "self_attn.qkv_proj.lora_A_slices.1"},
    {kKLoraB, kLoraFactor, "attn_k.lora_b", "self_attn.qkv_proj.lora_B_slices.1"},
    {kVLoraA, kLoraFactor, "attn_v.lora_a", "self_attn.qkv_proj.lora_A_slices.2"},
    {kVLoraB, kLoraFactor, "attn_v.lora_b", "self_attn.qkv_proj.lora_B_slices.2"},
    {kAttentionOutputLoraA, kLoraFactor, "attn_output.lora_a", "self_attn.o_proj.lora_A"},
    {kAttentionOutputLoraB, kLoraFactor, "attn_output.lora_b", "self_attn.o_proj.lora_B"},
    {kGateLoraA, kLoraFactor, "ffn_gate.lora_a", "shared_mlp.input_linear.lora_A_slices.0"},
    {kGateLoraB, kLoraFactor, "ffn_gate.lora_b", "shared_mlp.input_linear.lora_B_slices.0"},
    {kUpLoraA, kLoraFactor, "ffn_up.lora_a", "shared_mlp.input_linear.lora_A_slices.1"},
    {kUpLoraB, kLoraFactor, "ffn_up.lora_b", "shared_mlp.input_linear.lora_B_slices.1"},
    {kDownLoraA, kLoraFactor, "ffn_down.lora_a", "shared_mlp.output_linear.lora_A"},
    {kDownLoraB, kLoraFactor, "ffn_down.lora_b", "shared_mlp.output_linear.lora_B"},
};

// The table must be in the order of the roles.
constexpr bool is_in_order() {
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    if (std::to_underlying(kRoles[i].role) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

// Prefixes of the vision and audio tensors of multimodal models.
constexpr std::string_view kMultimodalPrefixes[] = {"v.", "a.", "mm."};

bool is_multimodal_tensor(std::string_view name) {
  return std::ranges::any_of(kMultimodalPrefixes,
                             [&](std::string_view sense) { return name.starts_with(sense); });
}

const RoleEntry& entry(TensorRole role) { return kRoles[std::to_underlying(role)]; }

}  // namespace

TensorKind kind_of(TensorRole role) { return entry(role).kind; }

bool is_down_projection(TensorRole role) {
  return role == kDown || role == kExpertDown || role == kSharedDown;
}

std::string name_of(TensorId tensor) {
  const std::string_view name = entry(tensor.role).name;
  if (!is_of_layer(tensor.role)) return std::string(name);
  return fmt::format("{}{}.{}", kLayerPrefix, tensor.layer, name);
}

std::optional<TensorId> tensor_named(std::string_view name) {
  TensorId tensor;
  const bool has_layer = name.starts_with(kLayerPrefix);
  if (has_layer) {
    name.remove_prefix(kLayerPrefix.size());
    const auto [end, error] = std::from_chars(name.begin(), name.end(), tensor.layer);
    if (error != std::errc() || end == name.end() || *end != '.') return std::nullopt;
    name.remove_prefix(static_cast<size_t>(end - name.begin()) + 1);
  }
  const auto* found = std::ranges::find(kRoles, name, &RoleEntry::name);
  if (found == std::end(kRoles) || is_of_layer(found->role) != has_layer) return std::nullopt;
  tensor.role = found->role;
  return tensor;
}

std::string_view usual_folder_name(TensorRole role) { return entry(role).folder_name; }

TensorTable::TensorTable(const ModelConfig& c)
    : n_layers_(c.n_layers), n_mtp_layers_(c.n_mtp_layers) {
  CHECK(c.layers.size() == c.n_layers + c.n_draft_layers() && !c.ropes.empty());
  uint64_t n_pairs = 0;
  for (const RopeConfig& rope : c.ropes) n_pairs = std::max<uint64_t>(n_pairs, rope.n_dims / 2);
  specs_ = {{{kEmbedding}, {c.n_vocab, c.model_dim}},
            {{kRopeDivisors}, {n_pairs}, !c.has_learned_rope},
            {{kLongRopeDivisors}, {n_pairs}, true},
            {{kShortRopeDivisors}, {n_pairs}, true}};
  if (c.per_layer_dim) {
    const uint64_t n_cols = uint64_t{c.n_layers} * c.per_layer_dim;
    const uint32_t n_rows = c.n_per_layer_vocab ? c.n_per_layer_vocab : c.n_vocab;
    specs_.push_back({{kPerLayerEmbedding}, {n_rows, n_cols}});
    specs_.push_back({{kPerLayerProjection}, {n_cols, c.model_dim}});
    specs_.push_back({{kPerLayerProjectionNorm}, {c.per_layer_dim}});
  }
  if (c.streams) {
    for (const TensorRole role : {kStreamProjections, kStreamOutputs}) {
      specs_.push_back({{role}, {c.streams->n - 1, c.model_dim, c.model_dim}});
    }
  }
  if (c.ngrams) specs_.push_back({{kPerLayerEmbedding}, {c.ngrams->n_rows, c.ngrams->row_dim}});
  if (c.has_positions) specs_.push_back({{kPositions}, {c.n_ctx_train, c.model_dim}});
  if (c.encoder) list_embeddings(c, *c.encoder);
  for (uint32_t layer = 0; layer < c.layers.size(); ++layer) list_layer(c, layer, specs_);
  if (c.encoder) {
    list_classifier(c, *c.encoder);
  } else {
    list_head(c);
  }
  for (size_t i = 0; i < specs_.size(); ++i) places_.emplace(specs_[i].id, i);
  for (uint32_t layer = 0; layer < c.n_layers; ++layer) {
    if (!kv_source_of(c.layers[layer])) continue;
    for (const TensorRole role : {kK, kV, kKNorm}) unused_.insert({role, layer});
  }
}

void TensorTable::list_embeddings(const ModelConfig& c, const EncoderConfig& encoder) {
  if (encoder.n_token_types)
    specs_.push_back({{kTokenTypes}, {encoder.n_token_types, c.model_dim}});
  if (encoder.has_rms_norms) return;
  specs_.push_back({{kEmbeddingsNorm}, {c.model_dim}});
  if (encoder.has_norm_biases) specs_.push_back({{kEmbeddingsNormBias}, {c.model_dim}});
}

void TensorTable::list_classifier(const ModelConfig& c, const EncoderConfig& encoder) {
  if (!encoder.has_post_norms) specs_.push_back({{kOutputNorm}, {c.model_dim}});
  if (encoder.dense_dim > 0) {
    specs_.push_back({{kDenseOut}, {encoder.dense_dim, c.model_dim}});
    specs_.push_back({{kDenseBack}, {c.model_dim, encoder.dense_dim}});
  }
  if (encoder.n_labels == 0) return;
  specs_.push_back({{kPooler}, {c.model_dim, c.model_dim}, true});
  specs_.push_back({{kPoolerBias}, {c.model_dim}, true});
  specs_.push_back({{kClassifier}, {encoder.n_labels, c.model_dim}});
  specs_.push_back({{kClassifierBias}, {encoder.n_labels}, true});
}

void TensorTable::list_head(const ModelConfig& c) {
  if (c.hyper && c.hyper->sinkhorn) {
    if (c.hyper->sinkhorn->has_output_weights) {
      specs_.push_back({{kHyperProjection}, {c.hyper->n, uint64_t{c.hyper->n} * c.model_dim}});
      specs_.push_back({{kHyperBase}, {c.hyper->n}});
      specs_.push_back({{kHyperScale}, {1}});
    }
    specs_.push_back({{kOutputNorm}, {c.model_dim}});
  } else if (c.hyper) {
    const uint64_t n_cols = uint64_t{c.hyper->n} * c.model_dim;
    specs_.push_back({{kHyperNorm}, {n_cols}});
    specs_.push_back({{kHyperDown}, {c.hyper->rank, n_cols}});
    specs_.push_back({{kHyperUp}, {n_cols, c.hyper->rank}});
  } else {
    specs_.push_back({{c.is_last_norm_embeddings ? kEmbeddingsNorm : kOutputNorm}, {c.model_dim}});
  }
  if (c.norm == NormKind::kLayerWithBias) specs_.push_back({{kOutputNormBias}, {c.model_dim}});
  specs_.push_back({{kHead}, {c.n_vocab, c.model_dim}, true});
  if (c.has_head_bias) specs_.push_back({{kHeadBias}, {c.n_vocab}});
  if (c.reranker) specs_.push_back({{kClassifier}, {2, c.model_dim}});
}

const TensorSpec* TensorTable::find(TensorId tensor) const {
  const auto found = places_.find(tensor);
  return found == places_.end() ? nullptr : &specs_[found->second];
}

bool TensorTable::may_be_unused(std::string_view name) const {
  if (is_multimodal_tensor(name)) return true;
  if (const auto id = tensor_named(name)) {
    if (find(*id)) return false;
    if (unused_.contains(*id)) return true;
  }
  if (!name.starts_with(kLayerPrefix)) return false;
  name.remove_prefix(kLayerPrefix.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), layer);
  if (error != std::errc() || end == name.end() || *end != '.') return false;
  return layer >= n_layers_ && layer - n_layers_ < n_mtp_layers_;
}

}  // namespace kvik
