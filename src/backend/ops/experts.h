#pragma once

#include <cstdint>
#include <span>

namespace kvik {

// Rows that are multiplied by one of several stacked matrices.
struct RowGroup {
  uint32_t matrix = 0;
  // Rows [first, first + n_rows) of the product.
  uint32_t first = 0, n_rows = 0;
};

// Selects the lists of the last route(), which are in the backend's memory, instead of lists that
// the caller passes. kChosen: the batch's rows, gathered once for each expert that a row selected.
// kInOrder: the output rows of a kChosen product, in the same order. kShared: the shared expert's
// output for each row of the batch. kNot: the caller passes the lists.
enum class Routed : uint8_t { kNot, kChosen, kInOrder, kShared };

// Rows of a grouped product. Row i of the product is row rows[i] of x, or row i if `rows` is empty.
// The groups are consecutive, and each uses a different one of n_matrices equal matrices that were
// packed together.
struct GroupedRows {
  std::span<const uint32_t> rows = {};
  std::span<const RowGroup> groups = {};
  uint32_t n_matrices = 0;
  // Batch row of each row of the product, for products whose `rows` is empty because their input is
  // in the product's order. Empty: the same as `rows`.
  std::span<const uint32_t> owners = {};
  Routed routed = Routed::kNot;  // if not kNot, the lists above are empty
  uint32_t n_routed = 0;         // rows of the product, if not kNot

  uint32_t n_rows() const {
    if (routed != Routed::kNot) return n_routed;
    return groups.empty() ? 0 : groups.back().first + groups.back().n_rows;
  }
};

// For each row of a sum, the n rows that are added to it, and their weights: [n_rows, n].
struct WeightedRows {
  std::span<const uint32_t> rows = {};
  std::span<const float> weights = {};
  uint32_t n = 0;
  Routed routed = Routed::kNot;  // if not kNot, the lists above are empty
};

// Parameters of expert selection, which ExpertRouter describes: each row gets the n_used best
// experts among those of its n_groups_used best groups.
struct RouteShape {
  uint32_t n_experts = 0, n_used = 0;
  uint32_t n_groups = 1, n_groups_used = 1;
  bool is_sigmoid = false;  // sigmoid scoring; else softmax
  // True if the weights of the selected experts are normalized to a sum of 1.
  bool normalizes = true;
  bool has_shared_gate = false;  // in the column after those of the experts
  float weight_scale = 1.0f;
  std::span<const float> correction_bias = {}, factors = {};  // on the host: [n_experts], or empty
};

}  // namespace kvik
