#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "catalogue/family.h"
#include "catalogue/folder_types.h"

namespace kvik {
namespace {

using namespace folder_types;

constexpr Family kFamilies[] = {
    {.name = "llama",
     .has_qkv_bias = true,
     .has_output_bias = true,
     .is_qkv_bias_optional = true,
     .is_output_bias_optional = true,
     .may_have_mlp_biases = true,
     .has_experts = true,
     .folders = kLlamaFolders},
    {.name = "qwen2",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .norm_eps = 1e-6,
     .folders = kQwen2Folders},
    {.name = "qwen2moe",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .has_experts = true,
     .normalizes_experts = false,
     .has_shared_gate = true,
     .norm_eps = 1e-6,
     .folders = kQwen2MoeFolders},
    {.name = "qwen3",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .norm_eps = 1e-6,
     .folders = kQwen3Folders},
    {.name = "qwen3moe",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .has_experts = true,
     .norm_eps = 1e-6,
     .folders = kQwen3MoeFolders},
    {.name = "qwen3vl",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .norm_eps = 1e-6,
     .folders = kQwen3VlFolders},
    {.name = "qwen3vlmoe",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .has_experts = true,
     .norm_eps = 1e-6,
     .folders = kQwen3VlMoeFolders},
    {.name = "gemma2",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 2,
     .global_at = 1,
     .wide_scale_layers = 46,
     .norm_eps = 1e-6,
     .attention_soft_cap = 50,
     .logit_soft_cap = 30,
     .folders = kGemma2Folders},
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .qk_norm = QkNorm::kHead,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 6,
     .global_at = 5,
     .has_local_rope = true,
     .wide_scale_layers = 62,
     .norm_eps = 1e-6,
     .folders = kGemma3Folders},
    {.name = "gemma4",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .qk_norm = QkNorm::kHead,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 6,
     .global_at = 5,
     .has_experts = true,
     .is_unscaled = true,
     .has_layer_kinds = true,
     .has_mlp_beside_experts = true,
     .norm_eps = 1e-6,
     .logit_soft_cap = 30,
     .folders = kGemma4Folders},
    {.name = "phi3", .pairing = RopePairing::kHalves, .is_fused = true, .folders = kPhi3Folders},
    {.name = "granite", .has_scales = true, .folders = kGraniteFolders},
    {.name = "granitemoe", .has_scales = true, .has_experts = true, .folders = kGraniteMoeFolders},
    {.name = "olmo2",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kRow,
     .has_pre_norms = false,
     .has_post_norms = true,
     .norm_eps = 1e-6,
     .folders = kOlmo2Folders},
    {.name = "mistral3", .has_temperature = true, .folders = kMistral3Folders},
    {.name = "glm4moe",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .qk_norm = QkNorm::kHead,
     .is_qkv_bias_optional = true,
     .is_qk_norm_optional = true,
     .is_ffn_norm_post_attention = true,
     .has_experts = true,
     .normalizes_experts = false,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .folders = kGlm4MoeFolders},
    {.name = "minimax-m2",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kRow,
     .has_experts = true,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .norm_eps = 1e-6,
     .folders = kMiniMaxM2Folders},
    {.name = "deepseek2",
     .has_latent = true,
     .has_experts = true,
     .normalizes_experts = false,
     .has_choice_bias = true,
     .is_choice_bias_optional = true,
     .norm_eps = 1e-6,
     .folders = kDeepseek2Folders},
    {.name = "lfm2",
     .pairing = RopePairing::kHalves,
     .recurrence = Recurrence::kShortConv,
     .is_last_norm_embeddings = true,
     .qk_norm = QkNorm::kHead,
     .folders = kLfm2Folders},
    {.name = "lfm2moe",
     .pairing = RopePairing::kHalves,
     .recurrence = Recurrence::kShortConv,
     .is_last_norm_embeddings = true,
     .qk_norm = QkNorm::kHead,
     .has_experts = true,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .folders = kLfm2MoeFolders},
    {.name = "granitehybrid",
     .recurrence = Recurrence::kStateSpace,
     .may_lack_rope = true,
     .has_scales = true,
     .has_experts = true,
     .folders = kGraniteHybridFolders},
    {.name = "nemotron_h",
     .activation = Activation::kReluSquared,
     .recurrence = Recurrence::kStateSpace,
     .has_half_layers = true,
     .may_lack_rope = true,
     .modules = kNemotronHNames},
    {.name = "nemotron_h_moe",
     .activation = Activation::kReluSquared,
     .recurrence = Recurrence::kStateSpace,
     .has_half_layers = true,
     .may_lack_rope = true,
     .has_experts = true,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .folders = kNemotronHFolders},
    {.name = "qwen35",
     .pairing = RopePairing::kHalves,
     .has_output_gate = true,
     .recurrence = Recurrence::kDelta,
     .qk_norm = QkNorm::kHead,
     .is_ffn_norm_post_attention = true,
     .norm_eps = 1e-6,
     .folders = kQwen35Folders},
    {.name = "qwen35moe",
     .pairing = RopePairing::kHalves,
     .has_output_gate = true,
     .recurrence = Recurrence::kDelta,
     .qk_norm = QkNorm::kHead,
     .is_ffn_norm_post_attention = true,
     .has_experts = true,
     .has_shared_gate = true,
     .norm_eps = 1e-6,
     .folders = kQwen35MoeFolders},
    {.name = "qwen3next",
     .pairing = RopePairing::kHalves,
     .has_output_gate = true,
     .recurrence = Recurrence::kDelta,
     .value_heads = ValueHeadOrder::kGrouped,
     .is_delta_gate_fused = true,
     .qk_norm = QkNorm::kHead,
     .is_ffn_norm_post_attention = true,
     .has_experts = true,
     .has_shared_gate = true,
     .norm_eps = 1e-6,
     .folders = kQwen3NextFolders},
    {.name = "gpt-oss",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kClampedSwish,
     .has_qkv_bias = true,
     .has_output_bias = true,
     .has_sinks = true,
     .is_ffn_norm_post_attention = true,
     .global_every = 2,
     .global_at = 1,
     .has_experts = true,
     .has_score_bias = true,
     .has_expert_biases = true,
     .is_yarn_whole = false,
     .folders = kGptOssFolders},
};

}  // namespace

const Family* find_family(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (family.name == architecture) return &family;
  }
  return nullptr;
}

std::string known_architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string families_with_experts() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) {
    if (family.has_experts) names.push_back(family.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

FamilyFolder find_folder_type(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    for (const FolderType& type : family.folders) {
      if (type.model_type == model_type) return {&family, &type};
    }
  }
  return {};
}

namespace {

std::string_view name_among(std::span<const FolderName> names, TensorRole role) {
  for (const FolderName& name : names) {
    if (name.role == role) return name.name;
  }
  return usual_folder_name(role);
}

}  // namespace

std::string_view folder_name(const FolderType& type, TensorRole role) {
  return name_among(type.names, role);
}

bool is_folder_name(const Family& family, TensorRole role, std::string_view name) {
  if (family.folders.empty()) return name_among(family.modules, role) == name;
  return std::ranges::any_of(
      family.folders, [&](const FolderType& type) { return name_among(type.names, role) == name; });
}

std::string known_model_types() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) {
    for (const FolderType& type : family.folders) {
      names.push_back(type.model_type);
      if (!type.whole_type.empty()) names.push_back(type.whole_type);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace kvik
