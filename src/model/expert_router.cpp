#include "model/expert_router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/exact_math.h"
#include "base/check.h"

namespace kvik {
ExpertRouter::ExpertRouter(const ExpertsConfig& config, uint32_t n_rows_max) : config_(&config) {
  const size_t n_choices = size_t{n_rows_max} * config.n_used;
  for (auto* list : {&chosen_, &places_, &order_}) list->reserve(n_choices);
  weights_.reserve(n_choices);
  input_weights_.reserve(config.weighs_input ? n_choices : 0);
  next_.resize(config.n_experts);
  ranks_.resize(config.n_experts);
  group_values_.reserve(config.n_groups);
  groups_.reserve(config.n_experts);
  shared_rows_.reserve(n_rows_max);
  shared_weights_.reserve(n_rows_max);
}

void ExpertRouter::set_config(const ExpertsConfig& config) {
  config_ = &config;
  next_.resize(config.n_experts);
  ranks_.resize(config.n_experts);
}

uint64_t ExpertRouter::buffer_bytes(const ExpertsConfig& config, uint32_t n_rows_max) {
  const uint64_t per_row = uint64_t{4} * config.n_used + 2 + n_columns(config);
  return n_rows_max * per_row * sizeof(float) +
         config.n_experts * (sizeof(uint32_t) + 2 * sizeof(double) + sizeof(RowGroup));
}

double ExpertRouter::probability_of(double score) const {
  if (config_->scoring == ExpertScoring::kSigmoid) return exact_sigmoid(score);
  return std::sqrt(exact_softplus(score));
}

// Probabilities are computed only if they are added to a bias or, without softmax and with groups,
// to each other. Otherwise the scores have the same order.
void ExpertRouter::rank(const float* scores, std::span<const float> correction_bias) {
  const uint32_t n = config_->n_experts;
  const bool is_biased = !correction_bias.empty();
  const bool is_softmax = config_->scoring == ExpertScoring::kSoftmax;
  if (!is_softmax && (is_biased || config_->n_groups > 1)) {
    for (uint32_t expert = 0; expert < n; ++expert) ranks_[expert] = probability_of(scores[expert]);
  } else if (is_softmax && is_biased) {
    rank_by_softmax(scores);
  } else {
    std::copy_n(scores, n, ranks_.begin());
  }
  for (uint32_t expert = 0; expert < n && is_biased; ++expert) {
    ranks_[expert] += correction_bias[expert];
  }
  if (config_->n_groups_used < config_->n_groups) mask_other_groups();
}

void ExpertRouter::rank_by_softmax(const float* scores) {
  double highest = scores[0];
  for (uint32_t expert = 1; expert < config_->n_experts; ++expert) {
    if (highest < scores[expert]) highest = scores[expert];
  }
  double sum = 0;
  for (uint32_t expert = 0; expert < config_->n_experts; ++expert) {
    ranks_[expert] = exact_exp(scores[expert] - highest);
    sum += ranks_[expert];
  }
  for (double& rank : ranks_) rank /= sum;
}

// Ranks the experts of all but the best groups at minus infinity.
void ExpertRouter::mask_other_groups() {
  const uint32_t size = config_->n_experts / config_->n_groups;
  const auto value = [&](uint32_t group) {
    const auto first = ranks_.begin() + static_cast<ptrdiff_t>(size_t{group} * size);
    const auto best = std::max_element(first, first + size);
    if (config_->scoring == ExpertScoring::kSoftmax || size == 1) return *best;
    double second = -std::numeric_limits<double>::infinity();
    for (auto rank = first; rank != first + size; ++rank) {
      if (rank != best) second = std::max(second, *rank);
    }
    return *best + second;
  };
  group_values_.clear();
  for (uint32_t group = 0; group < config_->n_groups; ++group)
    group_values_.push_back(value(group));
  for (uint32_t group = 0; group < config_->n_groups; ++group) {
    uint32_t n_better = 0;
    for (uint32_t other = 0; other < config_->n_groups; ++other) {
      const bool is_better = other < group ? !(group_values_[group] > group_values_[other])
                                           : group_values_[other] > group_values_[group];
      n_better += other != group && is_better;
    }
    if (n_better < config_->n_groups_used) continue;
    std::fill_n(ranks_.begin() + static_cast<ptrdiff_t>(size_t{group} * size), size,
                -std::numeric_limits<double>::infinity());
  }
}

// Selects the n_used highest ranks by insertion, which is fast for a few of many. A NaN ranks
// neither above nor below any other value.
void ExpertRouter::choose(uint32_t* chosen) const {
  uint32_t n = 0;
  for (uint32_t expert = 0; expert < config_->n_experts; ++expert) {
    uint32_t at = n;
    while (at > 0 && ranks_[expert] > ranks_[chosen[at - 1]]) --at;
    if (at == config_->n_used) continue;
    n = std::min(n + 1, config_->n_used);
    std::copy_backward(chosen + at, chosen + n - 1, chosen + n);
    chosen[at] = expert;
  }
}

void ExpertRouter::weigh(const float* scores, const uint32_t* chosen, float* weights) const {
  const uint32_t n = config_->n_used;
  double highest = scores[chosen[0]];
  for (uint32_t i = 1; i < n; ++i) highest = std::max<double>(highest, scores[chosen[i]]);
  const auto probability = [&](uint32_t expert) {
    if (config_->scoring != ExpertScoring::kSoftmax) return probability_of(scores[expert]);
    return exact_exp(scores[expert] - highest);
  };
  double sum = 0;
  if (config_->normalizes) {
    for (uint32_t i = 0; i < n; ++i) sum += probability(chosen[i]);
  } else if (config_->scoring == ExpertScoring::kSoftmax) {
    for (uint32_t expert = 0; expert < config_->n_experts; ++expert) sum += probability(expert);
  } else {
    sum = 1;
  }
  for (uint32_t i = 0; i < n; ++i) {
    weights[i] = static_cast<float>(probability(chosen[i]) / sum * config_->weight_scale);
  }
}

void ExpertRouter::route(std::span<const float> scores, uint32_t n_rows,
                         const Parameters& parameters) {
  const auto& [correction_bias, factors, table, tokens] = parameters;
  const uint32_t columns = n_columns(*config_);
  CHECK(correction_bias.empty() || correction_bias.size() == config_->n_experts);
  CHECK(factors.empty() || factors.size() == config_->n_experts);
  CHECK(scores.size() >= size_t{n_rows} * columns);
  const size_t n_choices = size_t{n_rows} * config_->n_used;
  for (auto* list : {&chosen_, &places_, &order_}) list->resize(n_choices);
  weights_.resize(n_choices);
  shared_rows_.clear();
  shared_weights_.clear();
  for (uint32_t row = 0; row < n_rows; ++row) {
    const float* of_row = scores.data() + size_t{row} * columns;
    const size_t first = size_t{row} * config_->n_used;
    if (table.empty()) {
      rank(of_row, correction_bias);
      choose(chosen_.data() + first);
    } else {
      CHECK((size_t{tokens[row]} + 1) * config_->n_used <= table.size());
      std::ranges::copy(table.subspan(size_t{tokens[row]} * config_->n_used, config_->n_used),
                        chosen_.begin() + static_cast<ptrdiff_t>(first));
    }
    weigh(of_row, chosen_.data() + first, weights_.data() + first);
    for (uint32_t i = 0; i < config_->n_used && !factors.empty(); ++i) {
      weights_[first + i] *= factors[chosen_[first + i]];
    }
    const double share = config_->has_shared_gate ? exact_sigmoid(of_row[config_->n_experts]) : 1.0;
    shared_rows_.push_back(row);
    shared_weights_.push_back(static_cast<float>(share));
  }
  if (config_->weighs_input) {
    CHECK(config_->n_used == 1);
    input_weights_.swap(weights_);
    weights_.assign(n_choices, 1.0f);
  }
  group(n_rows);
}

// Counting sort by expert. It is stable: the rows of an expert keep their order.
void ExpertRouter::group(uint32_t n_rows) {
  std::ranges::fill(next_, 0);
  for (const uint32_t expert : chosen_) ++next_[expert];
  groups_.clear();
  uint32_t first = 0;
  for (uint32_t expert = 0; expert < config_->n_experts; ++expert) {
    const uint32_t n = next_[expert];
    next_[expert] = first;
    if (n > 0) groups_.push_back({expert, first, n});
    first += n;
  }
  for (uint32_t row = 0; row < n_rows; ++row) {
    for (uint32_t i = 0; i < config_->n_used; ++i) {
      const size_t choice = size_t{row} * config_->n_used + i;
      places_[choice] = next_[chosen_[choice]]++;
      order_[places_[choice]] = row;
    }
  }
}

}  // namespace kvik
