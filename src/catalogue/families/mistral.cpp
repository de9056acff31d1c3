#include "catalogue/families/mistral.h"

#include "catalogue/key_reader.h"
#include "catalogue/limits.h"

namespace kvik::families {

// Reads the attention temperature (TemperatureConfig).
Result<void> finish_mistral3(const KeyReader& keys, ModelConfig& config) {
  TemperatureConfig temperature;
  TRY_ASSIGN(temperature.scale, keys.real("attention.temperature_scale", 0));
  if (temperature.scale == 0) return {};
  TRY_ASSIGN(const uint32_t usual,
             keys.optional_count("rope.scaling.original_context_length", kMaxContext));
  TRY_ASSIGN(temperature.length, keys.count("attention.temperature_length", kMaxContext, usual));
  for (LayerConfig& layer : config.layers) {
    std::get<AttentionConfig>(layer.mixer).temperature = temperature;
  }
  return {};
}

}  // namespace kvik::families
