#include "format/weight_mix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace kvik {
namespace {

using enum ElementType;

// llama.cpp's llama_ftype; for K types those with suffix _M.
constexpr MixTarget kTargets[] = {
    {kQ8_0, 7},     {kQ6_K, 18},     {kQ5_K, 17},   {kQ4_K, 15},    {kQ4_0, 2},     {kMXFP4, 38},
    {kNvFp4, 39},   {kQ3_K, 12},     {kIQ3_S, 26},  {kIQ3_XXS, 23}, {kQ2_K, 10},    {kIQ2_S, 28},
    {kIQ2_XS, 20},  {kIQ2_XXS, 19},  {kIQ1_M, 31},  {kIQ1_S, 24},   {kQ2_0, 41},    {kTQ2_0, 37},
    {kTQ1_0, 36},   {kQ1_0, 40},     {kIQ6_K, 142}, {kIQ5_K, 141},  {kIQ5_KS, 150}, {kIQ4_K, 140},
    {kIQ4_KS, 145}, {kIQ4_KSS, 148}, {kIQ3_K, 139}, {kIQ3_KS, 154}, {kIQ2_KL, 155}, {kIQ2_K, 138},
    {kIQ2_KS, 147}, {kBF16, 32},     {kF16, 1},
};

// Types of two to four levels are for models that were trained with such weights in all layers.
bool has_trained_levels(ElementType type) {
  return type == kTQ1_0 || type == kTQ2_0 || type == kQ1_0 || type == kQ2_0;
}

bool is_float(ElementType type) { return type == kF32 || type == kF16 || type == kBF16; }

// Returns whether a tensor stays f32. Vectors are small, small errors of a router select other
// experts, and errors of the decay of a recurrent state accumulate with every token.
bool stays_exact(const TensorInfo& tensor) {
  const auto id = tensor_named(tensor.name);
  if (tensor.shape.size() < 2) return true;
  if (!id) return false;
  const TensorKind kind = kind_of(id->role);
  return kind == TensorKind::kRouting || is_list(kind) || id->role == TensorRole::kStateBeta ||
         id->role == TensorRole::kStateAlpha || id->role == TensorRole::kStateGates;
}

// Returns the replacement type for rows that are not a multiple of 256, as in llama.cpp, or of 64.
ElementType fallback_type(ElementType type) {
  switch (type) {
    case kQ2_K:
    case kQ3_K:
    case kNvFp4:
    case kIQ3_S:
    case kIQ3_XXS:
    case kIQ2_S:
    case kIQ2_XS:
    case kIQ2_XXS:
    case kIQ1_M:
    case kIQ1_S:
    case kIQ2_K:
    case kIQ2_KS:
    case kIQ2_KL:
    case kIQ3_K:
    case kIQ3_KS:
      return kIQ4_NL;
    case kTQ2_0:
    case kTQ1_0:
    case kQ2_0:
    case kQ1_0:
      return kQ4_0;
    case kQ4_K:
    case kIQ4_K:
    case kIQ4_KS:
    case kIQ4_KSS:
      return kQ5_0;
    case kQ5_K:
    case kIQ5_K:
    case kIQ5_KS:
      return kQ5_1;
    case kQ6_K:
    case kIQ6_K:
      return kQ8_0;
    default:
      return kF16;
  }
}

// Returns the type of ik_llama.cpp with one bit more; the same type if there is none.
ElementType with_one_bit_more(ElementType type) {
  switch (type) {
    case kIQ2_K:
    case kIQ2_KS:
    case kIQ2_KL:
      return kIQ3_K;
    case kIQ3_K:
    case kIQ3_KS:
      return kIQ4_K;
    case kIQ4_K:
    case kIQ4_KS:
    case kIQ4_KSS:
      return kIQ5_K;
    case kIQ5_K:
    case kIQ5_KS:
      return kIQ6_K;
    default:
      return type;
  }
}

// Returns the next larger type, for rows that are looked up and never summed over.
ElementType embedding_type(ElementType base) {
  switch (base) {
    case kQ2_K:
    case kQ3_K:
    case kTQ2_0:
    case kTQ1_0:
    case kQ2_0:
    case kQ1_0:
      return kQ4_K;
    case kQ4_K:
      return kQ5_K;
    case kQ5_K:
      return kQ6_K;
    case kIQ3_XXS:
    case kIQ2_S:
      return kIQ3_S;
    case kIQ2_XS:
    case kIQ2_XXS:
    case kIQ1_M:
    case kIQ1_S:
      return kQ2_K;
    default:
      return with_one_bit_more(base);
  }
}

}  // namespace

std::span<const MixTarget> mix_targets() { return kTargets; }

std::optional<MixTarget> mix_target_from_name(std::string_view name) {
  const auto* found =
      std::ranges::find(kTargets, name, [](const MixTarget& t) { return name_of(t.type); });
  return found == std::end(kTargets) ? std::nullopt : std::optional(*found);
}

std::string mix_target_names() {
  std::vector<std::string_view> names;
  for (const MixTarget& target : kTargets) names.push_back(name_of(target.type));
  return fmt::format("{}", fmt::join(names, ", "));
}

WeightMix::WeightMix(const MixTarget& target, Kind kind, std::span<const TensorInfo> tensors)
    : target_(target), kind_(kind) {
  uint64_t n_query_rows = 0;
  uint64_t n_value_rows = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto id = tensor_named(tensor.name);
    if (!id) continue;
    n_layers_ = std::max(n_layers_, id->layer + 1);
    has_head_ |= id->role == TensorRole::kHead;
    has_experts_ |= kind_of(id->role) == TensorKind::kExperts;
    if (tensor.shape.size() != 2) continue;
    if (id->role == TensorRole::kQ) n_query_rows = tensor.shape[0];
    if (id->role == TensorRole::kV) n_value_rows = tensor.shape[0];
  }
  shares_values_ = n_value_rows > 0 && n_query_rows >= 4 * n_value_rows;
}

WeightMix::Choice WeightMix::choose(const TensorInfo& tensor) const {
  const auto id = tensor_named(tensor.name);
  if (id && kind_of(id->role) == TensorKind::kNumbers) return {tensor.type};
  if (stays_exact(tensor)) return {kF32};
  const ElementType wanted = wanted_type(tensor);
  const uint64_t n_cols = tensor.shape.back();
  ElementType type = wanted;
  while (n_cols % traits(type).block_elements != 0) type = fallback_type(type);
  if (type == wanted) return {type};
  return {type, wanted};
}

ElementType WeightMix::wanted_type(const TensorInfo& tensor) const {
  const ElementType base = target_.type;
  if (kind_ == Kind::kPure || is_float(base) || base == kQ8_0) return base;
  const auto id = tensor_named(tensor.name);
  if (!id) return base;
  if (base == kMXFP4 || base == kNvFp4) return fp4_or_bytes(*id);
  const bool is_embedding = id->role == TensorRole::kEmbedding;
  // Errors of the head affect every logit.
  if (id->role == TensorRole::kHead || (is_embedding && !has_head_)) return kQ6_K;
  return is_embedding ? embedding_type(base) : type_in_layer(*id);
}

// Returns the 4-bit type for experts, as in gpt-oss, or for all layers of a model without experts;
// q8_0 for the other matrices.
ElementType WeightMix::fp4_or_bytes(TensorId tensor) const {
  const bool is_wanted =
      has_experts_ ? kind_of(tensor.role) == TensorKind::kExperts : is_of_layer(tensor.role);
  return is_wanted ? target_.type : kQ8_0;
}

ElementType WeightMix::type_in_layer(TensorId tensor) const {
  const auto [role, layer] = tensor;
  const ElementType base = target_.type;
  const bool is_value = role == TensorRole::kV;
  const bool is_down = is_down_projection(role);
  const bool is_qkv = role == TensorRole::kQkv;
  // In models with experts, attention is a small part of the file.
  if (has_experts_ && base != kQ4_0 && !has_trained_levels(base) &&
      (is_value || role == TensorRole::kK))
    return kQ8_0;
  switch (base) {
    case kQ5_K:
    case kQ4_K:
      if (is_qkv) return base == kQ4_K ? kQ5_K : kQ6_K;
      if (is_value && shares_values_) return kQ6_K;
      return is_sensitive(role) && has_more_bits(layer, n_layers_) ? kQ6_K : base;
    case kQ3_K:
      if (is_value) return layer < 2 || shares_values_ ? kQ5_K : kQ4_K;
      if (is_down) return layer < n_layers_ / 16 ? kQ5_K : kQ4_K;
      return role == TensorRole::kAttentionOutput || is_qkv ? kQ4_K : base;
    case kQ2_K:
      if (is_value) return shares_values_ ? kQ4_K : kQ3_K;
      return is_down || role == TensorRole::kAttentionOutput || is_qkv ? kQ3_K : base;
    case kIQ3_S:
      return is_value && shares_values_ ? kQ4_K : base;
    case kIQ3_XXS:
      if (is_value) return shares_values_ ? kQ4_K : kIQ3_S;
      return role == TensorRole::kAttentionOutput ? kIQ3_S : base;
    case kIQ2_S:
      if (is_value) return shares_values_ ? kQ4_K : kIQ3_S;
      if (role == TensorRole::kAttentionOutput) return kIQ3_S;
      return is_down && layer < n_layers_ / 8 ? kIQ3_S : base;
    case kIQ2_XS:
    case kIQ2_XXS:
    case kIQ1_M:
    case kIQ1_S:
      if (is_value) return shares_values_ ? kQ4_K : kQ2_K;
      if (is_down && layer < n_layers_ / 8) return kQ2_K;
      return role == TensorRole::kAttentionOutput && (base == kIQ1_M || base == kIQ1_S) ? kIQ2_XXS
                                                                                        : base;
    case kIQ2_K:
    case kIQ2_KS:
    case kIQ2_KL:
      if (is_value && shares_values_) return kIQ4_K;
      if (role == TensorRole::kAttentionOutput) return kIQ3_K;
      [[fallthrough]];
    case kIQ3_K:
    case kIQ3_KS:
      return is_value || (is_down && layer < n_layers_ / 8) ? with_one_bit_more(base) : base;
    default:
      return is_value ? with_one_bit_more(base) : base;
  }
}

bool has_more_bits(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace kvik
