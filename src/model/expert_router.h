#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"

namespace kvik {

// Which experts each row of a batch goes through, and how much of their output it takes: the n_used
// best of its scores, a tie going to the lower number; where there is a bias for choosing, the best
// probabilities with it, and where experts stand in groups, those of the best groups, by their best
// expert or, with sigmoids, their two best. What a row gets depends on its scores alone.
// Rows of one expert come to stand side by side, so that its weights are read once for all of them.
// Lives as long as the decoder; allocates nothing after it is made. One thread.
class ExpertRouter {
 public:
  ExpertRouter(const ExpertsConfig& config, uint32_t n_rows_max);

  // scores: [n_rows, n_columns], of which the first n_experts columns are the experts' and one more
  // is the shared expert's gate where there is one. choice_bias, and factors by
  // which the experts' weights are multiplied at last: [n_experts], or empty.
  void route(std::span<const float> scores, uint32_t n_rows,
             std::span<const float> choice_bias = {}, std::span<const float> factors = {});

  // For a product of the rows with their experts: row i of it is of row grouped().rows[i] of the
  // batch. The same without the list of rows, for what such a product gave.
  GroupedRows grouped() const { return {order_, groups_, config_.n_experts, order_}; }
  GroupedRows grouped_in_order() const { return {{}, groups_, config_.n_experts, order_}; }

  // What each row of the batch takes of the rows of such a product, its best expert first.
  WeightedRows taken() const { return {places_, weights_, config_.n_used}; }

  // What each row takes of the shared expert's output for itself.
  WeightedRows shared() const { return {shared_rows_, shared_weights_, 1}; }

  // Columns of scores for such a model.
  static uint32_t n_columns(const ExpertsConfig& config) {
    return config.n_experts + (config.has_shared_gate ? 1 : 0);
  }
  // Bytes that a router for so many rows takes, scores included.
  static uint64_t buffer_bytes(const ExpertsConfig& config, uint32_t n_rows_max);

 private:
  // What the experts are chosen by.
  void rank(const float* scores, std::span<const float> choice_bias);
  void leave_best_groups();
  void choose(const float* scores, uint32_t* chosen, float* weights) const;
  void group(uint32_t n_rows);

  const ExpertsConfig& config_;
  std::vector<double> ranks_;          // [n_experts] of the row at hand
  std::vector<double> group_values_;   // [n_groups]
  std::vector<uint32_t> chosen_;       // [n_rows, n_used] experts, best first
  std::vector<float> weights_;         // [n_rows, n_used]
  std::vector<uint32_t> places_;       // [n_rows, n_used] rows of the grouped product
  std::vector<uint32_t> order_;        // [n_rows · n_used] rows of the batch, by expert
  std::vector<uint32_t> next_;         // [n_experts] the place of the next row of each
  std::vector<RowGroup> groups_;       // of the experts that have rows
  std::vector<uint32_t> shared_rows_;  // [n_rows] 0, 1, …
  std::vector<float> shared_weights_;  // [n_rows]
};

}  // namespace kvik
