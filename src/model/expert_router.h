#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "catalogue/model_config.h"

namespace kvik {

// Chooses the top-k experts of each row of a batch and their weights.
//
// A row gets the n_used experts with the highest scores; of equal scores the lower index wins. With
// a correction bias, the experts with the highest sums of probability and bias are selected (Wang
// et al. 2024). If the experts are divided into groups, only those of the best groups are
// considered: a group is ranked by its best expert or, with sigmoid scoring, by the sum of its two
// best. The choice for a row depends on its own scores alone.
//
// Rows with the same expert are placed next to each other, so that the expert's weights are read
// once for all of them. Lives as long as the decoder and allocates only in the constructor. One
// thread.
class ExpertRouter {
 public:
  ExpertRouter(const ExpertsConfig& config, uint32_t n_rows_max);

  // Routes as this config says from now on. Its numbers of experts, of experts used and of groups
  // are at most those of the first config. The config is borrowed.
  void set_config(const ExpertsConfig& config);

  // correction_bias is added for choosing, not for weighting; factors multiply the final weights of
  // the experts. Both are [n_experts], or empty. If there is a table, [n_vocab, n_used], a row has
  // the experts of its token.
  struct Parameters {
    std::span<const float> correction_bias = {}, factors = {};
    std::span<const uint32_t> table = {};
    std::span<const TokenId> tokens = {};
  };
  // scores: [n_rows, n_columns]; the first n_experts columns belong to the experts, and the last
  // one to the gate of the shared expert if it has one.
  void route(std::span<const float> scores, uint32_t n_rows, const Parameters& parameters);
  void route(std::span<const float> scores, uint32_t n_rows) { route(scores, n_rows, {}); }

  // Arguments of grouped products. grouped() is for the product of the batch's rows with their
  // experts: row i of the product comes from row grouped().rows[i] of the batch. grouped_in_order()
  // is for a further product of these results: their rows are in that order already.
  GroupedRows grouped() const { return {order_, groups_, config_->n_experts, order_}; }
  GroupedRows grouped_in_order() const { return {{}, groups_, config_->n_experts, order_}; }

  // Rows of the grouped product, and their weights, that are added up for each row of the batch,
  // its best expert first.
  WeightedRows taken() const { return {places_, weights_, config_->n_used}; }

  // Returns the factors of the rows' inputs (ExpertsConfig::weighs_input). [n_rows] The weights of
  // taken() are then 1.
  std::span<const float> input_weights() const { return input_weights_; }

  // Weight of the shared expert's output for each row.
  WeightedRows shared() const { return {shared_rows_, shared_weights_, 1}; }

  // Returns the number of columns of the scores.
  static uint32_t n_columns(const ExpertsConfig& config) {
    return config.n_experts + (config.has_shared_gate ? 1 : 0);
  }
  // Returns the bytes of the buffers of a router for n_rows_max rows, including the scores.
  static uint64_t buffer_bytes(const ExpertsConfig& config, uint32_t n_rows_max);

 private:
  // Sets ranks_, by which experts are chosen.
  void rank(const float* scores, std::span<const float> correction_bias);
  void rank_by_softmax(const float* scores);
  // Returns the probability that follows from a score alone; not for softmax.
  double probability_of(double score) const;
  void mask_other_groups();
  void choose(uint32_t* chosen) const;
  void weigh(const float* scores, const uint32_t* chosen, float* weights) const;
  void group(uint32_t n_rows);

  const ExpertsConfig* config_;
  std::vector<double> ranks_;         // [n_experts], ranking values of the current row
  std::vector<double> group_values_;  // [n_groups]
  std::vector<uint32_t> chosen_;      // [n_rows, n_used], indices of experts, best first
  std::vector<float> weights_;        // [n_rows, n_used]
  std::vector<float> input_weights_;  // [n_rows]
  std::vector<uint32_t> places_;      // [n_rows, n_used], rows of the grouped product
  std::vector<uint32_t> order_;       // [n_rows · n_used], rows of the batch, sorted by expert
  // [n_experts], row of the grouped product that each expert's next row gets
  std::vector<uint32_t> next_;
  std::vector<RowGroup> groups_;       // only experts that have rows
  std::vector<uint32_t> shared_rows_;  // [n_rows], the numbers 0, 1, …
  std::vector<float> shared_weights_;  // [n_rows]
};

}  // namespace kvik
