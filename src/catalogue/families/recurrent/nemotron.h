#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

Result<void> finish_nemotron_h(const KeyReader& keys, ModelConfig& config);
// The MTP layer is one with attention together with one with experts.
Result<LayerConfig> nemotron_h_mtp_layer(const KeyReader& keys, const ModelConfig& config);

// Every layer has one norm and one mixer, which may be a feed-forward block.
inline constexpr FolderName kNemotronHNames[] = {
    {kEmbedding, "embeddings.weight"},
    {kOutputNorm, "norm_f.weight"},
    {kAttentionNorm, "norm.weight"},
    {kQ, "mixer.q_proj.weight"},
    {kK, "mixer.k_proj.weight"},
    {kV, "mixer.v_proj.weight"},
    {kAttentionOutput, "mixer.o_proj.weight"},
    {kSpaceIn, "mixer.in_proj.weight"},
    {kStateConv, "mixer.conv1d.weight"},
    {kSpaceConvBias, "mixer.conv1d.bias"},
    {kStateStepBias, "mixer.dt_bias"},
    {kStateDecay, "mixer.A_log"},
    {kSpaceSkip, "mixer.D"},
    {kStateNorm, "mixer.norm.weight"},
    {kStateOutput, "mixer.out_proj.weight"},
    {kUp, "mixer.up_proj.weight"},
    {kDown, "mixer.down_proj.weight"},
    {kRouter, "mixer.gate.weight"},
    {kCorrectionBias, "mixer.gate.e_score_correction_bias"},
    {kExpertUp, "mixer.experts.{}.up_proj.weight"},
    {kExpertDown, "mixer.experts.{}.down_proj.weight"},
    {kSharedUp, "mixer.shared_experts.up_proj.weight"},
    {kSharedDown, "mixer.shared_experts.down_proj.weight"},
};
inline constexpr FolderName kNemotronHMtpNames[] = {
    {kMtpEmbeddingNorm, "0.enorm.weight"},
    {kMtpHiddenNorm, "0.hnorm.weight"},
    {kMtpProjection, "0.eh_proj.weight"},
    {kMtpOutputNorm, "1.final_layernorm.weight"},
    {kAttentionNorm, "0.norm.weight"},
    {kQ, "0.mixer.q_proj.weight"},
    {kK, "0.mixer.k_proj.weight"},
    {kV, "0.mixer.v_proj.weight"},
    {kAttentionOutput, "0.mixer.o_proj.weight"},
    {kFfnNorm, "1.norm.weight"},
    {kRouter, "1.mixer.gate.weight"},
    {kCorrectionBias, "1.mixer.gate.e_score_correction_bias"},
    {kExpertUp, "1.mixer.experts.{}.up_proj.weight"},
    {kExpertDown, "1.mixer.experts.{}.down_proj.weight"},
    {kExpertsLatentDown, "1.mixer.fc1_latent_proj.weight"},
    {kExpertsLatentUp, "1.mixer.fc2_latent_proj.weight"},
    {kSharedUp, "1.mixer.shared_experts.up_proj.weight"},
    {kSharedDown, "1.mixer.shared_experts.down_proj.weight"},
};
inline constexpr MtpNames kNemotronHMtp{.head_prefix = "mtp.layers.",
                                        .layer_prefix = "mtp.layers.",
                                        .names = kNemotronHMtpNames,
                                        .is_in_model = false,
                                        .sign = "mtp.layers.0.eh_proj.weight"};
// One model type for models with and without experts.
inline constexpr FolderType kNemotronHFolder{
    .model_type = "nemotron_h",
    .defaults = R"({"norm_eps": 1e-5, "tie_word_embeddings": false, "num_key_value_heads": 8,
                    "head_dim": 128, "norm_topk_prob": true, "n_groups": 8, "conv_kernel": 4,
                    "ssm_state_size": 128, "mamba_num_heads": 128, "mamba_head_dim": 64})",
    .has_experts = true,
    .names = kNemotronHNames,
    .gate_up_stack = "mixer.experts.up_proj",
    .down_stack = "mixer.experts.down_proj",
    .mtp = &kNemotronHMtp};
// Puzzle: experts that differ between layers. "mtp_block_configs" say whether it has an MTP layer.
consteval MtpNames puzzle_mtp() {
  MtpNames names = kNemotronHMtp;
  names.sign = {};
  return names;
}
inline constexpr MtpNames kPuzzleMtp = puzzle_mtp();
consteval FolderType puzzle_folder() {
  FolderType type = kNemotronHFolder;
  type.model_type = "nemotron_h_puzzle";
  type.has_block_keys = true;
  type.mtp = &kPuzzleMtp;
  return type;
}
inline constexpr FolderType kNemotronHFolders[] = {kNemotronHFolder, puzzle_folder()};

// Nemotron 3, 4 and Minitron: layer norms whose weights are stored minus one.
inline constexpr FolderType kNemotronPlainFolders[] = {
    {.model_type = "nemotron",
     .defaults = R"({"norm_eps": 1e-5, "tie_word_embeddings": false,
                     "partial_rotary_factor": 0.5})",
     .has_zero_centered_norms = true},
};

inline constexpr Family kNemotronFamilies[] = {
    {.name = "nemotron",
     .activation = Activation::kReluSquared,
     .attention = {.qkv_bias = Presence::kOptional, .output_bias = Presence::kOptional},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias},
     .mlp_bias = Presence::kOptional,
     .folders = kNemotronPlainFolders},
    {.name = "nemotron_h",
     .activation = Activation::kReluSquared,
     .rope = {.may_be_absent = true},
     .recurrence = {.kind = Recurrence::kStateSpace},
     .has_single_block_layers = true,
     .finish = finish_nemotron_h,
     .modules = kNemotronHNames},
    {.name = "nemotron_h_moe",
     .activation = Activation::kReluSquared,
     .rope = {.may_be_absent = true},
     .experts = ExpertTraits{.scoring = ExpertScoring::kSigmoid,
                             .correction_bias = Presence::kAlways,
                             .lists_sizes = true},
     .recurrence = {.kind = Recurrence::kStateSpace},
     .has_single_block_layers = true,
     .finish = finish_nemotron_h,
     .mtp_layer = nemotron_h_mtp_layer,
     .folders = kNemotronHFolders},
};

}  // namespace kvik::families
