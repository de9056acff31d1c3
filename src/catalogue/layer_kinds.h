#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// How the layers of a model differ (Gemma 4): those with a window have heads of another width and
// turn by frequencies of their own, KV heads and MLPs are of several sizes, and the last layers
// read the K and V of the last one before them that sees as far. In other families all are alike,
// but for their windows.
class LayerKinds {
 public:
  // `c` has its layers' number and its ropes, to which that of the windowed layers is added.
  // Errors: kCorrupt for lists of another length, or for layers that none before them can lend K
  // and V.
  static Result<LayerKinds> read(const KeyReader& keys, const Family& family, ModelConfig& c);

  // What layer `i` attends with, of what is said of all.
  AttentionConfig attention(uint32_t i, AttentionConfig of_all) const;
  uint32_t ffn_dim(uint32_t i) const { return ffn_dims_[i]; }

 private:
  Result<void> read_heads(const KeyReader& keys, ModelConfig& c);
  Result<void> check_kinds(const KeyReader& keys) const;
  Result<void> find_lenders(const KeyReader& keys, uint32_t n_sharing);

  uint32_t window_ = 0;
  uint32_t window_rope_ = 0;
  std::vector<bool> is_windowed_;
  std::vector<uint32_t> ffn_dims_;
  std::vector<uint32_t> n_kv_heads_;  // empty: as of all
  uint32_t window_head_dim_ = 0;      // 0: as of all
  std::vector<std::optional<uint32_t>> lenders_;
};

}  // namespace kvik
