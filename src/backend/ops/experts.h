#pragma once

#include <cstdint>
#include <span>

namespace kvik {

// Rows that are multiplied with one of several stacked matrices.
struct RowGroup {
  uint32_t matrix = 0;
  uint32_t first = 0, n_rows = 0;  // of the product's rows
};

// Use of the lists that the backend's last route() left in its memory instead of those of a call:
// the rows that selected each expert, gathered, or in order as such a product returned them; or the
// shared expert's output for each row.
enum class Routed : uint8_t { kNot, kChosen, kInOrder, kShared };

// Row i of a grouped product is row rows[i] of x, or row i if `rows` is empty. The groups follow
// each other, each with another one of n_matrices equal matrices that were packed together.
struct GroupedRows {
  std::span<const uint32_t> rows = {};
  std::span<const RowGroup> groups = {};
  uint32_t n_matrices = 0;
  // Batch row of each product row, needed if rows are in order; empty: as in `rows`.
  std::span<const uint32_t> owners = {};
  Routed routed = Routed::kNot;  // else the lists are empty here
  uint32_t n_routed = 0;         // rows of the product then

  uint32_t n_rows() const {
    if (routed != Routed::kNot) return n_routed;
    return groups.empty() ? 0 : groups.back().first + groups.back().n_rows;
  }
};

// For each row of a sum, the n rows that are added to it and their weights: [n_rows, n].
struct WeightedRows {
  std::span<const uint32_t> rows = {};
  std::span<const float> weights = {};
  uint32_t n = 0;
  Routed routed = Routed::kNot;  // else the lists are empty here
};

// Selection of experts for each row (in full: ExpertRouter): the n_used best of the best groups.
struct RouteShape {
  uint32_t n_experts = 0, n_used = 0;
  uint32_t n_groups = 1, n_groups_used = 1;
  bool is_sigmoid = false;  // scoring function; else softmax
  bool normalizes = true;
  bool has_shared_gate = false;  // in a column after the experts'
  float weight_scale = 1.0f;
  std::span<const float> correction_bias = {}, factors = {};  // on the host; [n_experts], or empty
};

}  // namespace kvik
