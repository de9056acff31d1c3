#pragma once

#include <cstdint>
#include <span>

namespace kvik {

// Rows that go through one and the same of several stacked matrices.
struct RowGroup {
  uint32_t matrix = 0;
  uint32_t first = 0, n_rows = 0;  // of the product's rows
};

// Lists that the backend's last route() left in its memory, in the place of those of a call: the
// rows that each expert was chosen by, gathered, or in order as such a product gave them; or what
// the shared expert gave to each row.
enum class Routed : uint8_t { kNot, kChosen, kInOrder, kShared };

// Row i of a grouped product is of row rows[i] of x; where `rows` is empty, of row i. The groups
// follow each other, each of another matrix of n_matrices equal ones that were packed together.
struct GroupedRows {
  std::span<const uint32_t> rows = {};
  std::span<const RowGroup> groups = {};
  uint32_t n_matrices = 0;
  // The row of the batch that each is of, needed where rows are in order; empty: as `rows` says.
  std::span<const uint32_t> owners = {};
  Routed routed = Routed::kNot;  // else the lists are empty here
  uint32_t n_routed = 0;         // rows of the product then

  uint32_t n_rows() const {
    if (routed != Routed::kNot) return n_routed;
    return groups.empty() ? 0 : groups.back().first + groups.back().n_rows;
  }
};

// For each row of a sum, n of the rows that are added to it, with their weights: [n_rows, n].
struct WeightedRows {
  std::span<const uint32_t> rows = {};
  std::span<const float> weights = {};
  uint32_t n = 0;
  Routed routed = Routed::kNot;  // else the lists are empty here
};

// The choice of experts for each row (in full: ExpertRouter): the n_used best
// of the groups that are best.
struct RouteShape {
  uint32_t n_experts = 0, n_used = 0;
  uint32_t n_groups = 1, n_groups_used = 1;
  bool is_sigmoid = false;  // what a score stands for; else softmax
  bool normalizes = true;
  bool has_shared_gate = false;  // in a column after the experts'
  float weight_scale = 1.0f;
  std::span<const float> choice_bias = {}, factors = {};  // on the host; [n_experts], or empty
};

}  // namespace kvik
