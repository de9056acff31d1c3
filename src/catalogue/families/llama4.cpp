#include "catalogue/families/llama4.h"

#include <fmt/format.h>

#include <variant>

#include "catalogue/key_reader.h"
#include "catalogue/limits.h"
#include "tensor/kv_type.h"

namespace kvik::families {
namespace {

// Values of models whose files do not state them.
constexpr uint32_t kChunkTokens = 8192;
constexpr double kTemperatureScale = 0.1;
constexpr uint32_t kExpertsWithoutNorm = 128;  // Maverick does not normalize Q and K

Result<void> check(const KeyReader& keys, const ExpertsConfig* experts, uint32_t chunk_tokens) {
  if (chunk_tokens % kPageTokens != 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected a multiple of {}",
                            keys.full("attention.sliding_window"), chunk_tokens, kPageTokens));
  }
  if (!experts || experts->n_used == 1) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("'{}' is {}, expected 1", keys.full("expert_used_count"), experts->n_used));
}

}  // namespace

Result<void> finish_llama4(const KeyReader& keys, ModelConfig& c) {
  constexpr std::string_view kWindow = "attention.sliding_window";
  TRY_ASSIGN(uint32_t chunk_tokens, keys.optional_count(kWindow, kMaxContext));
  const bool is_chunked = chunk_tokens > 0 || !keys.has(kWindow);
  if (chunk_tokens == 0) chunk_tokens = kChunkTokens;
  const ExpertsConfig* experts = c.experts();
  TRY(check(keys, experts, chunk_tokens));
  TRY_ASSIGN(const bool has_norm, keys.flag("attention.has_plain_qk_norm",
                                            experts && experts->n_experts != kExpertsWithoutNorm));
  TemperatureConfig temperature{.first = 1};
  TRY_ASSIGN(temperature.scale, keys.real("attention.temperature_scale", kTemperatureScale));
  TRY_ASSIGN(temperature.length,
             keys.count("attention.temperature_length", kMaxContext, kChunkTokens));
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    LayerConfig& layer = c.layers[i];
    AttentionConfig& a = std::get<AttentionConfig>(layer.mixer);
    if (!is_chunked) a.has_rope = true;
    if (!a.has_rope) {
      a.temperature = temperature;
    } else {
      a.is_chunked = is_chunked;
      a.window = is_chunked ? chunk_tokens : 0;
      a.is_norm_after_rope = true;
      if (has_norm) a.qk_norm = QkNorm::kPlain;
    }
    auto* own = std::get_if<ExpertsConfig>(&layer.feed_forward);
    if (own && own->shared_ffn_dim == 0) own->shared_ffn_dim = own->ffn_dim;
  }
  return {};
}

}  // namespace kvik::families
