#include "catalogue/layer_kinds.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "catalogue/limits.h"

namespace kvik {

Result<LayerKinds> LayerKinds::read(const KeyReader& keys, const Family& family, ModelConfig& c) {
  LayerKinds kinds;
  TRY_ASSIGN(kinds.window_, keys.optional_count("attention.sliding_window", kMaxContext));
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    kinds.is_windowed_.push_back(kinds.window_ > 0 && family.is_windowed(i));
  }
  kinds.lenders_.resize(c.n_layers);
  if (!family.has_layer_kinds) {
    kinds.window_rope_ = static_cast<uint32_t>(c.ropes.size() - 1);
    kinds.ffn_dims_.assign(c.n_layers, c.ffn_dim);
    return kinds;
  }
  TRY(kinds.read_heads(keys, c));
  TRY(kinds.check_kinds(keys));
  TRY_ASSIGN(kinds.ffn_dims_, keys.counts("feed_forward_length", c.n_listed_layers(), kMaxDim));
  TRY_ASSIGN(const uint32_t n_sharing,
             keys.optional_count("attention.shared_kv_layers", c.n_layers - 1));
  TRY(kinds.find_lenders(keys, n_sharing));
  return kinds;
}

Result<void> LayerKinds::read_heads(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(const auto pattern,
             keys.flags("attention.sliding_window_pattern", c.n_listed_layers()));
  for (uint32_t i = 0; i < c.n_layers && !pattern.empty(); ++i) {
    is_windowed_[i] = window_ > 0 && pattern[i];
  }
  TRY_ASSIGN(n_kv_heads_, keys.counts("attention.head_count_kv", c.n_listed_layers(), kMaxHeads));
  TRY_ASSIGN(const uint32_t head_dim, keys.count("attention.key_length", kMaxHeadDim));
  TRY_ASSIGN(window_head_dim_, keys.count("attention.key_length_swa", kMaxHeadDim, head_dim));
  TRY_ASSIGN(const uint32_t value_dim,
             keys.count("attention.value_length_swa", kMaxHeadDim, window_head_dim_));
  if (value_dim != window_head_dim_) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected the key length {}",
                            keys.full("attention.value_length_swa"), value_dim, window_head_dim_));
  }
  RopeConfig rope = c.ropes.front();
  rope.has_divisors = false;
  TRY_ASSIGN(rope.base, keys.positive("rope.freq_base_swa", kLocalRopeBase));
  TRY_ASSIGN(rope.n_dims,
             keys.count("rope.dimension_count_swa", window_head_dim_, window_head_dim_));
  if (rope.n_dims % 2 != 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {}, expected an even number",
                            keys.full("rope.dimension_count_swa"), rope.n_dims));
  }
  window_rope_ = static_cast<uint32_t>(c.ropes.size());
  c.ropes.push_back(rope);
  return {};
}

// Each kind has pages of its own.
Result<void> LayerKinds::check_kinds(const KeyReader& keys) const {
  std::set<std::pair<bool, uint32_t>> kinds;
  for (size_t i = 0; i < is_windowed_.size(); ++i) kinds.emplace(is_windowed_[i], n_kv_heads_[i]);
  if (kinds.size() <= kMaxLayerKinds) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' makes layers of {} kinds, expected at most {}",
                          keys.full("attention.head_count_kv"), kinds.size(), kMaxLayerKinds));
}

Result<void> LayerKinds::find_lenders(const KeyReader& keys, uint32_t n_sharing) {
  const auto n_layers = static_cast<uint32_t>(is_windowed_.size());
  for (uint32_t i = n_layers - n_sharing; i < n_layers; ++i) {
    for (uint32_t j = 0; j < n_layers - n_sharing; ++j) {
      if (is_windowed_[j] == is_windowed_[i]) lenders_[i] = j;
    }
    if (lenders_[i] && n_kv_heads_[*lenders_[i]] == n_kv_heads_[i]) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {}: no layer before them has K and V for layer {}, expected "
                            "one with the same window and {} KV heads",
                            keys.full("attention.shared_kv_layers"), n_sharing, i, n_kv_heads_[i]));
  }
  return {};
}

AttentionConfig LayerKinds::attention(uint32_t i, AttentionConfig of_all) const {
  AttentionConfig a = of_all;
  if (!n_kv_heads_.empty()) a.n_kv_heads = n_kv_heads_[i];
  a.shared_kv = lenders_[i];
  if (!is_windowed_[i]) return a;
  a.window = window_;
  a.rope = window_rope_;
  if (window_head_dim_ > 0) a.head_dim = window_head_dim_;
  a.is_v_optional = false;
  return a;
}

}  // namespace kvik
