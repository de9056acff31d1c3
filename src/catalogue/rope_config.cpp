#include "catalogue/rope_config.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "catalogue/limits.h"

namespace kvik {
namespace {

// Files of models with MLA state a tenth of the multiplier.
constexpr float kLatentMultiplier = 10.0f;
constexpr float kMaxMagnitude = 1e6f;  // no existing model comes close

float yarn_magnitude(const RopeConfig& rope, float scale) {
  return 1.0f - 0.1f * scale * std::log(rope.position_scale);
}

Result<void> read_yarn(const KeyReader& keys, const Family& family, uint32_t n_ctx_train,
                       RopeConfig& rope) {
  TRY_ASSIGN(rope.yarn.n_ctx_original,
             keys.count("rope.scaling.original_context_length", kMaxContext, n_ctx_train));
  TRY_ASSIGN(rope.yarn.beta_fast, keys.positive("rope.scaling.yarn_beta_fast", 32.0));
  TRY_ASSIGN(rope.yarn.beta_slow, keys.positive("rope.scaling.yarn_beta_slow", 1.0));
  // Attention becomes flatter in longer contexts. This factor sharpens it (Peng et al. 2023,
  // section 3.4).
  TRY_ASSIGN(const float of_all, keys.real("rope.scaling.yarn_log_multiplier", 0));
  const float in_all =
      yarn_magnitude(rope, of_all * (family.attention.is_latent ? kLatentMultiplier : 1));
  if (!(in_all > 0 && in_all < kMaxMagnitude)) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("'{}' is {}, expected a number that gives a scale of scores between 0 and {}",
                    keys.full("rope.scaling.yarn_log_multiplier"), of_all, kMaxMagnitude));
  }
  if (family.attention.is_latent && of_all != 0) {
    rope.score_scale = in_all * in_all;
    return {};
  }
  rope.magnitude *= yarn_magnitude(rope, 1.0f);
  // With a multiplier for all dimensions, the rotated ones get the quotient of the two factors.
  if (of_all != 0) rope.magnitude /= in_all;
  return {};
}

Result<void> read_llama3_scaling(const KeyReader& keys, RopeConfig& rope) {
  Llama3RopeConfig& s = rope.llama3_scaling;
  s.factor = 1.0f / rope.position_scale;
  rope.position_scale = 1.0f;
  TRY_ASSIGN(s.n_ctx_original, keys.count("rope.scaling.original_context_length", kMaxContext));
  TRY_ASSIGN(s.low_freq_factor, keys.positive("rope.scaling.low_freq_factor", 1.0));
  TRY_ASSIGN(s.high_freq_factor, keys.positive("rope.scaling.high_freq_factor", 4.0));
  if (s.low_freq_factor < s.high_freq_factor) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {}, expected less than the {} of '{}'",
                          keys.full("rope.scaling.low_freq_factor"), s.low_freq_factor,
                          s.high_freq_factor, keys.full("rope.scaling.high_freq_factor")));
}

Result<void> read_scaling(const KeyReader& keys, const Family& family, uint32_t n_ctx_train,
                          RopeConfig& rope) {
  TRY_ASSIGN(const std::string type, keys.word("rope.scaling.type", "linear"));
  TRY_ASSIGN(rope.magnitude, keys.positive("rope.scaling.attn_factor", 1.0));
  if (type == "none") return {};
  TRY_ASSIGN(const float factor, keys.real("rope.scaling.factor", 1.0));
  rope.position_scale = 1.0f / factor;
  if (!std::isfinite(rope.position_scale) || rope.position_scale == 0) {
    return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected a number > 0",
                                                 keys.full("rope.scaling.factor"), factor));
  }
  if (type == "linear" || type == "longrope") return {};
  if (type == "yarn") return read_yarn(keys, family, n_ctx_train, rope);
  if (type == "llama3") return read_llama3_scaling(keys, rope);
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' is '{}', expected none, linear, llama3, yarn or longrope",
                          keys.full("rope.scaling.type"), type));
}

}  // namespace

Result<RopeConfig> read_rope(const KeyReader& keys, const Family& family, RopeDims rotated) {
  RopeConfig rope;
  TRY_ASSIGN(rope.base, keys.real("rope.freq_base", 10000.0));
  TRY_ASSIGN(rope.n_dims, keys.count("rope.dimension_count", rotated.n_dims, rotated.n_dims));
  if (rope.n_dims % 2 != 0 || rope.base <= 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("rope over {} dimensions with base {}: expected an even number of "
                            "dimensions and a base > 0",
                            rope.n_dims, rope.base));
  }
  TRY(read_scaling(keys, family, rotated.n_ctx_train, rope));
  return rope;
}

}  // namespace kvik
