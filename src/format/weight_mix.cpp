#include "format/weight_mix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace kvik {
namespace {

using enum ElementType;

// llama.cpp's llama_ftype; of the K types those that it calls _M.
constexpr MixTarget kTargets[] = {
    {kQ8_0, 7},  {kQ6_K, 18}, {kQ5_K, 17}, {kQ4_K, 15}, {kQ4_0, 2},
    {kQ3_K, 12}, {kQ2_K, 10}, {kBF16, 32}, {kF16, 1},
};

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

// A name such as "blk.3.attn_v.weight" in its parts.
struct LayerName {
  uint32_t layer;
  std::string_view part;  // "attn_v"
};

std::optional<LayerName> layer_name(std::string_view name) {
  constexpr std::string_view kBegin = "blk.", kEnd = ".weight";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  LayerName parts{};
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), parts.layer);
  if (error != std::errc() || rest == name.data() + name.size() || *rest != '.')
    return std::nullopt;
  parts.part = name.substr(static_cast<size_t>(rest - name.data()) + 1);
  return parts;
}

bool is_float(ElementType type) { return type == kF32 || type == kF16 || type == kBF16; }

// Vectors are small, and a router's small errors send tokens to other experts.
bool stays_exact(const TensorInfo& tensor) {
  return tensor.shape.size() < 2 || tensor.name.find("ffn_gate_inp") != std::string::npos;
}

// What stands in where rows are no multiple of 256, as in llama.cpp.
ElementType stand_in(ElementType type) {
  switch (type) {
    case kQ2_K:
    case kQ3_K:
      return kIQ4_NL;
    case kQ4_K:
      return kQ5_0;
    case kQ5_K:
      return kQ5_1;
    case kQ6_K:
      return kQ8_0;
    default:
      return kF16;
  }
}

// One step up, for what is looked up and never summed over.
ElementType embedding_type(ElementType base) {
  switch (base) {
    case kQ2_K:
    case kQ3_K:
      return kQ4_K;
    case kQ4_K:
      return kQ5_K;
    case kQ5_K:
      return kQ6_K;
    default:
      return base;
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
    has_head_ |= tensor.name == kHead;
    const auto name = layer_name(tensor.name);
    if (!name) continue;
    n_layers_ = std::max(n_layers_, name->layer + 1);
    has_experts_ |= name->part.ends_with("_exps");
    if (name->part == "attn_q" && tensor.shape.size() == 2) n_query_rows = tensor.shape[0];
    if (name->part == "attn_v" && tensor.shape.size() == 2) n_value_rows = tensor.shape[0];
  }
  shares_values_ = n_value_rows > 0 && n_query_rows >= 4 * n_value_rows;
}

WeightMix::Choice WeightMix::choose(const TensorInfo& tensor) const {
  if (stays_exact(tensor)) return {kF32};
  const ElementType wanted = wanted_type(tensor);
  const uint64_t n_cols = tensor.shape.back();
  ElementType type = wanted;
  while (n_cols % traits(type).block_elements != 0) type = stand_in(type);
  if (type == wanted) return {type};
  return {type, wanted};
}

ElementType WeightMix::wanted_type(const TensorInfo& tensor) const {
  const ElementType base = target_.type;
  if (kind_ == Kind::kPure || is_float(base) || base == kQ8_0) return base;
  // The head's errors are in every logit.
  if (tensor.name == kHead || (tensor.name == kEmbedding && !has_head_)) return kQ6_K;
  if (tensor.name == kEmbedding) return embedding_type(base);
  const auto name = layer_name(tensor.name);
  return name ? type_in_layer(name->part, name->layer) : base;
}

ElementType WeightMix::type_in_layer(std::string_view part, uint32_t layer) const {
  const ElementType base = target_.type;
  const bool is_value = part == "attn_v";
  const bool is_down = part.starts_with("ffn_down");
  // Beside experts, attention is a small part of the file.
  if (has_experts_ && base != kQ4_0 && (is_value || part == "attn_k")) return kQ8_0;
  switch (base) {
    case kQ5_K:
    case kQ4_K:
      if (part == "attn_qkv") return base == kQ4_K ? kQ5_K : kQ6_K;
      if (is_value && shares_values_) return kQ6_K;
      return (is_value || is_down) && has_more_bits(layer) ? kQ6_K : base;
    case kQ3_K:
      if (is_value) return layer < 2 || shares_values_ ? kQ5_K : kQ4_K;
      if (is_down) return layer < n_layers_ / 16 ? kQ5_K : kQ4_K;
      return part == "attn_output" || part == "attn_qkv" ? kQ4_K : base;
    case kQ2_K:
      if (is_value) return shares_values_ ? kQ4_K : kQ3_K;
      return is_down || part == "attn_output" || part == "attn_qkv" ? kQ3_K : base;
    default:
      return base;
  }
}

// The first and the last eighth, and every third layer between.
bool WeightMix::has_more_bits(uint32_t layer) const {
  const uint32_t eighth = n_layers_ / 8;
  return layer < eighth || layer >= 7 * n_layers_ / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace kvik
