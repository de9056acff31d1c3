#include "catalogue/read_experts.h"

#include <fmt/format.h>

#include <cstdint>

#include "catalogue/limits.h"

namespace kvik {
namespace {

// Values of expert_gating_func.
constexpr uint32_t kSoftmaxGating = 1;
constexpr uint32_t kSigmoidGating = 2;
// Softmax over the selected experts, which is kSoftmaxGating with normalized weights.
constexpr uint32_t kTopKSoftmaxGating = 3;
constexpr uint32_t kSqrtSoftplusGating = 4;

uint32_t gating_of(ExpertScoring scoring) {
  switch (scoring) {
    case ExpertScoring::kSigmoid:
      return kSigmoidGating;
    case ExpertScoring::kSqrtSoftplus:
      return kSqrtSoftplusGating;
    default:
      return kSoftmaxGating;
  }
}

// Reads the size of the shared expert from the number of shared experts, which some files state
// instead. Their matrices are concatenated.
Result<void> read_shared_count(const KeyReader& keys, ExpertsConfig& e) {
  if (e.shared_ffn_dim != 0) return {};
  TRY_ASSIGN(const uint32_t n_shared, keys.optional_count("expert_shared_count", kMaxExperts));
  if (uint64_t{n_shared} * e.ffn_dim <= kMaxDim) {
    e.shared_ffn_dim = n_shared * e.ffn_dim;
    return {};
  }
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {}, expected at most {} columns of all shared experts together",
                          keys.full("expert_shared_count"), n_shared, kMaxDim));
}

Result<void> read_groups(const KeyReader& keys, ExpertsConfig& e) {
  TRY_ASSIGN(e.n_groups, keys.count("expert_group_count", e.n_experts, 1));
  TRY_ASSIGN(e.n_groups_used, keys.count("expert_group_used_count", e.n_groups, e.n_groups));
  const uint32_t group = e.n_experts / e.n_groups;
  if (e.n_experts % e.n_groups == 0 && e.n_groups_used * group >= e.n_used) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {}, {} of them used: expected groups of one size that have the "
                          "{} of {} experts to choose",
                          keys.full("expert_group_count"), e.n_groups, e.n_groups_used, e.n_used,
                          e.n_experts));
}

Result<ExpertScoring> read_scoring(const KeyReader& keys, ExpertScoring usual) {
  TRY_ASSIGN(const uint32_t scoring, keys.optional_count("expert_gating_func", UINT32_MAX));
  switch (scoring == 0 ? gating_of(usual) : scoring) {
    case kSoftmaxGating:
    case kTopKSoftmaxGating:
      return ExpertScoring::kSoftmax;
    case kSigmoidGating:
      return ExpertScoring::kSigmoid;
    case kSqrtSoftplusGating:
      return ExpertScoring::kSqrtSoftplus;
    default:
      break;
  }
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("'{}' is {}, expected {} (softmax), {} (sigmoid), {} (softmax of the top-k) or "
                  "{} (square root of softplus)",
                  keys.full("expert_gating_func"), scoring, kSoftmaxGating, kSigmoidGating,
                  kTopKSoftmaxGating, kSqrtSoftplusGating));
}

}  // namespace

Result<std::optional<ExpertsConfig>> read_experts(const KeyReader& keys, const Family& family,
                                                  const ModelConfig& c) {
  TRY_ASSIGN(const uint32_t n_experts, keys.optional_count("expert_count", kMaxExperts));
  if (n_experts == 0) return std::nullopt;
  if (!family.experts) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}: mixtures of experts are supported in {}, dense models in "
                            "all families",
                            keys.full("expert_count"), n_experts, families_with_experts()));
  }
  const ExpertTraits& traits = *family.experts;
  ExpertsConfig e{.n_experts = n_experts,
                  .scoring = traits.scoring,
                  .normalizes = traits.normalizes,
                  .weighs_input = traits.weighs_input,
                  .has_shared_gate = traits.has_shared_gate,
                  .has_score_bias = traits.has_score_bias,
                  .has_correction_bias = traits.correction_bias != Presence::kNone,
                  .is_correction_bias_optional = traits.correction_bias == Presence::kOptional,
                  .has_biases = traits.has_biases};
  TRY_ASSIGN(e.latent_dim, keys.optional_count("moe_latent_size", kMaxDim));
  TRY_ASSIGN(e.n_used, keys.count("expert_used_count", n_experts));
  TRY_ASSIGN(e.ffn_dim, keys.count("expert_feed_forward_length", kMaxDim, c.ffn_dim));
  TRY_ASSIGN(e.shared_ffn_dim, keys.optional_count("expert_shared_feed_forward_length", kMaxDim));
  TRY(read_shared_count(keys, e));
  TRY(read_groups(keys, e));
  TRY_ASSIGN(e.normalizes, keys.flag("expert_weights_norm", e.normalizes));
  TRY_ASSIGN(e.weight_scale, keys.real("expert_weights_scale", 1.0));
  if (e.weight_scale == 0) e.weight_scale = 1.0f;  // llama.cpp writes 0 for no factor
  TRY_ASSIGN(e.scoring, read_scoring(keys, traits.scoring));
  return e;
}

Result<void> check_absent_experts(const KeyReader& keys) {
  struct Entry {
    std::string_view key;
    uint64_t max;
  };
  for (const Entry& entry :
       {Entry{"expert_count", kMaxExperts}, Entry{"expert_used_count", kMaxExperts},
        Entry{"expert_feed_forward_length", kMaxDim},
        Entry{"expert_shared_feed_forward_length", kMaxDim}, Entry{"moe_latent_size", kMaxDim}}) {
    TRY(keys.optional_count(entry.key, entry.max));
  }
  return {};
}

}  // namespace kvik
