#include "format/hf/names/ignored_names.h"

#include <algorithm>
#include <charconv>
#include <span>

namespace kvik::hf {
namespace {

constexpr std::string_view kMultimodalPrefixes[] = {
    "vision_tower.", "multi_modal_projector.", "audio_tower.", "model.vision_tower.",
    "model.multi_modal_projector.", "model.audio_tower.", "model.embed_vision.",
    "model.embed_audio.", "model.visual.", "model.vision_adapter.", "model.vision_projection.",
    "patch_merge_mlp.",
    // Mistral's own names
    "vision_encoder.", "vision_language_adapter.", "patch_merger.", "pre_mm_projector_norm."};
constexpr std::string_view kStepPrefixes[] = {"vision_model.", "vit_large_projector."};
// Ernie's and Mistral's names; others have the names of their families (MtpNames).
constexpr std::string_view kHeadPrefixes[] = {"mtp.", "model.mtp_", "mtp_dspark.", "model.switch.",
                                              "model.adapter_token_ids"};
constexpr std::string_view kTaskPrefixes[] = {"cls.", "lm_head.", "pooler.", "bert.pooler."};

bool starts_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool is_multimodal_tensor(std::string_view name) {
  return starts_with_any(name, kMultimodalPrefixes);
}

bool is_multimodal_tensor_of_step(std::string_view name) {
  return starts_with_any(name, kStepPrefixes);
}

bool is_of_unused_head(std::string_view name) { return starts_with_any(name, kHeadPrefixes); }

bool is_of_layers(std::string_view name, std::string_view prefix, uint32_t first, uint64_t n) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), layer);
  return error == std::errc() && end != name.end() && *end == '.' && layer >= first &&
         layer - first < n;
}

bool is_of_other_task(std::string_view name) {
  return name.ends_with("embeddings.position_ids") || starts_with_any(name, kTaskPrefixes);
}

}  // namespace kvik::hf
