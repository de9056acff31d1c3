#include "format/hf/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>

#include "catalogue/family.h"
#include "catalogue/limits.h"

namespace kvik::hf {
namespace {

constexpr float kNotRotated =
    1e30f;  // divisor of dimensions that are not rotated, as in GGUF files

// Arguments of the functions that read one kind of scaling, and the destination of its keys.
struct Rope {
  const Family& family;
  GgufKeys& keys;
  std::vector<ConfigVector>& vectors;
  double base;
  uint32_t n_dims;
  uint32_t n_ctx;  // trained context
};

Result<double> positive(const JsonObject& fields, std::string_view key,
                        std::optional<double> otherwise = std::nullopt) {
  TRY_ASSIGN(const auto found, fields.real(key));
  const double value = found ? *found : otherwise.value_or(0);
  if (value > 0) return value;
  return fields.unexpected_value(key, "a number > 0");
}

// Returns the factor of rotated queries and keys. A large one would make scores infinite.
Result<double> attention_factor(const JsonObject& scaling, double usual) {
  constexpr double kMost = 1000;
  TRY_ASSIGN(const double factor, positive(scaling, "attention_factor", usual));
  if (factor <= kMost) return factor;
  return scaling.unexpected_value("attention_factor", fmt::format("at most {}", kMost));
}

std::vector<float> as_floats(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

// Computes the divisors of Llama 3.1: long wavelengths are scaled by the factor, short ones are
// kept, and those between are interpolated.
Result<void> read_llama3(const JsonObject& scaling, const Rope& rope) {
  TRY_ASSIGN(const double factor, positive(scaling, "factor"));
  TRY_ASSIGN(const double low, positive(scaling, "low_freq_factor"));
  TRY_ASSIGN(const double high, positive(scaling, "high_freq_factor"));
  TRY_ASSIGN(const uint32_t original,
             scaling.count("original_max_position_embeddings", kMaxContext));
  if (low > high) {
    return scaling.unexpected_value("low_freq_factor", "at most high_freq_factor");
  }
  ConfigVector divisors{TensorRole::kRopeDivisors, {}};
  for (uint32_t i = 0; i < rope.n_dims; i += 2) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(rope.base, static_cast<double>(i) / rope.n_dims);
    const double turns = original / wavelength;
    const double stays = low == high ? (turns < low ? 0.0 : 1.0)
                                     : std::clamp((turns - low) / (high - low), 0.0, 1.0);
    divisors.values.push_back(static_cast<float>(1 / ((1 - stays) / factor + stays)));
  }
  if (rope.family.rope.is_global_halved) divisors.values.resize(rope.n_dims, 1.0f);
  rope.vectors.push_back(std::move(divisors));
  return {};
}

// Returns the factor that sharpens attention in a context extended by `factor` (Peng et al. 2023).
double yarn_magnitude(double factor, double scale = 1) {
  return factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1;
}

Result<void> read_yarn(const JsonObject& scaling, const Rope& rope) {
  TRY_ASSIGN(const double factor, positive(scaling, "factor"));
  TRY_ASSIGN(const auto original, scaling.number("original_max_position_embeddings"));
  TRY_ASSIGN(const double fast, positive(scaling, "beta_fast", 32));
  TRY_ASSIGN(const double slow, positive(scaling, "beta_slow", 1));
  TRY_ASSIGN(const auto truncates, scaling.flag("truncate"));
  if (truncates.value_or(true) != rope.family.rope.is_yarn_whole) {
    return scaling.unexpected_value("truncate", rope.family.rope.is_yarn_whole ? "true" : "false",
                                    ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto mscale, scaling.real("mscale"));
  TRY_ASSIGN(const auto mscale_all_dim, scaling.real("mscale_all_dim"));
  double magnitude = yarn_magnitude(factor);
  if (mscale && mscale_all_dim && *mscale != 0 && *mscale_all_dim != 0) {
    magnitude = yarn_magnitude(factor, *mscale) / yarn_magnitude(factor, *mscale_all_dim);
  }
  TRY_ASSIGN(magnitude, attention_factor(scaling, magnitude));
  rope.keys.text("rope.scaling.type", "yarn");
  rope.keys.real("rope.scaling.factor", factor);
  rope.keys.number("rope.scaling.original_context_length", original.value_or(rope.n_ctx));
  rope.keys.real("rope.scaling.yarn_beta_fast", fast);
  rope.keys.real("rope.scaling.yarn_beta_slow", slow);
  TRY_ASSIGN(const auto temperature, scaling.real("llama_4_scaling_beta"));
  if (temperature) rope.keys.real("attention.temperature_scale", *temperature);
  // MLA scales scores instead; its files state a tenth of the multiplier.
  if (rope.family.attention.is_latent && mscale_all_dim.value_or(0) != 0) {
    rope.keys.real("rope.scaling.yarn_log_multiplier", 0.1 * *mscale_all_dim);
    if (magnitude != 1) rope.keys.real("rope.scaling.attn_factor", magnitude);
    return {};
  }
  // The key is relative to the usual magnitude.
  if (magnitude != yarn_magnitude(factor)) {
    rope.keys.real("rope.scaling.attn_factor", magnitude / (1 + 0.1 * std::log(factor)));
  }
  return {};
}

// Reads the two sets of divisors of LongRoPE, for short and long contexts (Ding et al. 2024).
Result<void> read_longrope(const JsonObject& config, const JsonObject& scaling, const Rope& rope) {
  const bool is_within = scaling.find("original_max_position_embeddings") != nullptr;
  TRY_ASSIGN(const uint32_t original,
             (is_within ? scaling : config).count("original_max_position_embeddings", kMaxContext));
  if (original == 1 && rope.n_ctx > 1) {  // its logarithm divides
    return (is_within ? scaling : config)
        .unexpected_value("original_max_position_embeddings", "at least 2");
  }
  for (const auto& [key, role] : {std::pair("long_factor", TensorRole::kLongRopeDivisors),
                                  std::pair("short_factor", TensorRole::kShortRopeDivisors)}) {
    TRY_ASSIGN(const std::vector<double> divisors, scaling.reals(key));
    if (divisors.size() != rope.n_dims / 2) {
      return scaling.unexpected_value(key, fmt::format("{} numbers", rope.n_dims / 2));
    }
    rope.vectors.push_back({role, as_floats(divisors)});
  }
  const double stretch = static_cast<double>(rope.n_ctx) / original;
  const double usual = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(original)) : 1;
  TRY_ASSIGN(const double magnitude, attention_factor(scaling, usual));
  rope.keys.number("rope.scaling.original_context_length", original);
  rope.keys.real("rope.scaling.attn_factor", magnitude);
  return {};
}

// Reads the RoPE of Gemma 4: frequencies are those of the whole head, but only the first dimensions
// are rotated. GGUF files express this by divisors larger than any position.
Result<void> read_proportional(const JsonObject& scaling, uint32_t head_dim, double share,
                               std::vector<ConfigVector>& vectors, GgufKeys& keys) {
  TRY_ASSIGN(const double factor, positive(scaling, "factor", 1));
  if (factor != 1) return scaling.unexpected_value("factor", "1", ErrorCode::kUnsupported);
  const uint32_t n_pairs = head_dim / 2;
  const auto n_rotated = static_cast<uint32_t>(share * head_dim / 2);
  ConfigVector divisors{TensorRole::kRopeDivisors, std::vector<float>(n_rotated, 1.0f)};
  divisors.values.resize(n_pairs, kNotRotated);
  vectors.push_back(std::move(divisors));
  keys.number("rope.dimension_count", head_dim);
  return {};
}

Result<void> read_scaling(const JsonObject& config, const JsonObject& scaling, const Rope& rope) {
  TRY_ASSIGN(const auto type, scaling.text("rope_type"));
  TRY_ASSIGN(const auto old_type, scaling.text("type"));
  const std::string name = type ? *type : old_type.value_or("default");
  if (name == "default") return {};
  if (name == "linear") {
    TRY_ASSIGN(const double factor, positive(scaling, "factor"));
    rope.keys.text("rope.scaling.type", "linear");
    rope.keys.real("rope.scaling.factor", factor);
    return {};
  }
  if (name == "dynamic" && scaling.find("alpha")) return {};  // stretched_base() uses it
  if (name == "llama3") return read_llama3(scaling, rope);
  if (name == "yarn") return read_yarn(scaling, rope);
  if (name == "longrope" || name == "su") return read_longrope(config, scaling, rope);
  return scaling.unexpected_value(type ? "rope_type" : "type",
                                  "default, linear, llama3, yarn or longrope",
                                  ErrorCode::kUnsupported);
}

// Checks the RoPE base of sliding-window layers. It is fixed, because no key of a GGUF file changes
// it.
Result<void> check_local_base(const JsonObject& fields, std::string_view key) {
  TRY_ASSIGN(const auto base, fields.real(key));
  if (!base || *base == kLocalRopeBase) return {};
  return fields.unexpected_value(key, fmt::format("{}", kLocalRopeBase), ErrorCode::kUnsupported);
}

// Reads the RoPE of layers with a window, which has no scaling.
Result<void> read_local(const JsonObject& local, uint32_t head_dim, GgufKeys& keys) {
  TRY_ASSIGN(const auto type, local.text("rope_type"));
  if (type.value_or("default") != "default") {
    return local.unexpected_value("rope_type", "default", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const double base, positive(local, "rope_theta", 10000));
  TRY_ASSIGN(const double share, positive(local, "partial_rotary_factor", 1));
  if (share > 1) return local.unexpected_value("partial_rotary_factor", "at most 1");
  keys.real("rope.freq_base_swa", base);
  keys.number("rope.dimension_count_swa", static_cast<uint64_t>(head_dim * share));
  return {};
}

// Returns the part of "rope_parameters" for full-attention layers: all of it, or the part with that
// name.
Result<JsonObject> global_part(const JsonObject& parameters, const Family& family,
                               uint32_t head_dim, GgufKeys& keys) {
  TRY_ASSIGN(const auto global, parameters.object("full_attention"));
  TRY_ASSIGN(const auto local, parameters.object("sliding_attention"));
  if (local && global && family.rope.is_window_unscaled) {
    TRY(read_local(*local, head_dim, keys));
  } else if (local && !family.has_layer_kinds) {
    TRY(check_local_base(*local, "rope_theta"));
  }
  return global ? *global : parameters;
}

// Returns the RoPE base stretched by a fixed "alpha" (NTK-aware scaling, Hunyuan).
Result<double> stretched_base(const JsonObject& scaling, double base, uint32_t n_dims) {
  if (!scaling.find("alpha")) return base;
  TRY_ASSIGN(const double alpha, positive(scaling, "alpha"));
  if (n_dims <= 2) return base;
  return base * std::pow(alpha, n_dims / (n_dims - 2.0));
}

}  // namespace

Result<void> read_rope(const JsonObject& config, const Family& family, RopeHead head,
                       GgufKeys& keys, std::vector<ConfigVector>& vectors) {
  TRY_ASSIGN(std::optional<JsonObject> scaling, config.object("rope_scaling"));
  TRY_ASSIGN(const auto parameters, config.object("rope_parameters"));
  if (parameters) {
    TRY_ASSIGN(scaling, global_part(*parameters, family, head.n_dims, keys));
  }
  TRY(check_local_base(config, "rope_local_base_freq"));
  const auto part_with = [&](std::string_view key) -> const JsonObject& {
    return scaling && scaling->find(key) ? *scaling : config;
  };
  TRY_ASSIGN(double base, positive(part_with("rope_theta"), "rope_theta", 10000));
  const JsonObject& partial = part_with("partial_rotary_factor");
  TRY_ASSIGN(double share, positive(partial, "partial_rotary_factor", 1));
  if (share > 1) return partial.unexpected_value("partial_rotary_factor", "at most 1");
  if (family.attention.is_latent) share = 1;  // head.n_dims are the rotated ones
  TRY_ASSIGN(const auto n_stated, config.number("rotary_dim"));
  if (n_stated && (*n_stated == 0 || *n_stated > head.n_dims || *n_stated % 2 != 0)) {
    return config.unexpected_value(
        "rotary_dim", fmt::format("an even number up to the {} of a head", head.n_dims));
  }
  const auto n_dims =
      n_stated ? static_cast<uint32_t>(*n_stated) : static_cast<uint32_t>(head.n_dims * share);
  if (scaling) {
    TRY_ASSIGN(base, stretched_base(*scaling, base, n_dims));
  }
  keys.real("rope.freq_base", base);
  TRY_ASSIGN(const auto type, part_with("rope_type").text("rope_type"));
  if (type == "proportional") {
    return read_proportional(part_with("rope_type"), head.n_dims, share, vectors, keys);
  }
  // GGUF files have the number of layers with a window, and divisors for as many dimensions.
  if (family.rope.is_global_halved && 2 * n_dims != head.n_dims) {
    return partial.unexpected_value("partial_rotary_factor", "0.5", ErrorCode::kUnsupported);
  }
  keys.number("rope.dimension_count", family.rope.is_global_halved ? head.n_dims : n_dims);
  if (!scaling) return {};
  return read_scaling(config, *scaling, {family, keys, vectors, base, n_dims, head.n_ctx});
}

}  // namespace kvik::hf
