#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/adapter/adapter_source.h"
#include "model/adapter.h"

namespace kvik {

// An adapter in memory with random factors for every matrix of the model that `is_wanted` selects.
class RandomAdapter final : public AdapterSource {
 public:
  using Wanted = std::function<bool(TensorId)>;
  RandomAdapter(
      const ModelConfig& model, uint32_t seed, uint32_t rank = 4,
      const Wanted& is_wanted = [](TensorId) { return true; })
      : generator_(seed) {
    const TensorTable table(model);
    for (const TensorSpec& spec : table.all()) {
      const TensorKind kind = kind_of(spec.id.role);
      const bool is_stack = kind == TensorKind::kExperts || kind == TensorKind::kHeads;
      const bool is_matrix = kind == TensorKind::kMatrix || kind == TensorKind::kRouting;
      if ((!is_stack && !is_matrix) || !is_wanted(spec.id)) continue;
      AdapterPair pair{.tensor = spec.id, .rank = rank, .scale = 1.5f};
      pair.n_rows = spec.shape.size() == 1 ? 1 : spec.shape[spec.shape.size() - 2];
      pair.n_cols = spec.shape.back();
      for (pair.part = 0; pair.part < (is_stack ? spec.shape[0] : 1); ++pair.part) add(pair);
    }
  }

  const std::string& label() const override { return label_; }
  const std::string& base_name() const override { return label_; }
  std::span<const AdapterPair> pairs() const override { return pairs_; }
  Result<LowRankFactors> read(size_t index) override { return factors_[index]; }

  // --- for tests ---
  std::vector<AdapterPair>& mutable_pairs() { return pairs_; }

 private:
  void add(const AdapterPair& pair) {
    std::normal_distribution<float> normal(0.0f, 0.25f);
    LowRankFactors factors;
    factors.a.resize(pair.rank * pair.n_cols);
    factors.b.resize(pair.n_rows * pair.rank);
    for (float& value : factors.a) value = normal(generator_) / 2;
    for (float& value : factors.b) value = normal(generator_);
    pairs_.push_back(pair);
    factors_.push_back(std::move(factors));
  }

  std::mt19937 generator_;
  std::string label_ = "random";
  std::vector<AdapterPair> pairs_;
  std::vector<LowRankFactors> factors_;
};

inline std::shared_ptr<const Adapter> load_random(RandomAdapter source, const Model& model,
                                                  Backend& backend) {
  auto adapter = Adapter::load(source, model, backend);
  CHECK(adapter.has_value());
  return std::move(*adapter);
}

}  // namespace kvik
