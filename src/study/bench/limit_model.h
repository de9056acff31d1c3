#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/isa/machine_limits.h"
#include "catalogue/model_config.h"
#include "format/model_source.h"
#include "host/load_model.h"
#include "study/bench/bench_case.h"
#include "tensor/kv_type.h"

namespace kvik {

// The time that its arithmetic takes at this machine's ceilings, and that its reads take.
double least_compute_seconds(const Work& work, const MachineLimits& machine);
double least_read_seconds(const Work& work, const MachineLimits& machine);

// The time that the machine's ceilings allow: reads and arithmetic overlap, kinds of arithmetic do
// not.
double least_seconds(const Work& work, const MachineLimits& machine);

// Counts the work of a model's tests. Weights count as they lie in the file: a packed form that is
// larger is our loss, not a higher limit.
class LimitModel {
 public:
  LimitModel(const ModelSource& source, const ModelConfig& config, const KvFootprint& kv);

  // Opens the file once more for what it says of its tensors: loading let go of it.
  static Result<LimitModel> of(const std::string& spec, const LoadedModel& loaded);

  // The work of a test, and the speed at which this machine could do it.
  void hold_against(const MachineLimits& machine, BenchResult& result) const;
  // The same where the machine was measured during each run: the median of their shares counts.
  void hold_against(std::span<const MachineLimits> during, BenchResult& result) const;

  // Of all the test's tokens. A decoding step reads the weights once for all sequences and each
  // sequence's K and V; a prefill reads both once, and projects its last token alone to logits. A
  // test without the cache is held against the work that the cache would leave.
  Work work(const BenchCase& bench) const;

 private:
  enum class Arithmetic : uint8_t { kInt8, kBF16, kF32 };
  static Arithmetic arithmetic_of(ElementType type);
  static Arithmetic arithmetic_of(KvType type);
  static void add(Work& work, Arithmetic arithmetic, double ops);

  void add_experts(const ExpertsConfig& experts, const TensorInfo& tensor);
  double experts_read(double n_rows) const;

  // What attention of one layer costs for each token that a row sees.
  struct LayerAttention {
    uint32_t window;  // 0: all tokens are seen
    double ops, kv_bytes;
  };
  static LayerAttention attention_of(const AttentionConfig& attention, KvType type,
                                     bool keys_by_channel);

  // Tokens that one row sees on average.
  static double tokens_seen(uint32_t window, const BenchCase& bench);

  Work layers_per_token_;  // bytes: of all layers' weights
  Work head_per_token_;
  double expert_bytes_ = 0;  // of all experts
  double expert_share_ = 0;  // of them that a token goes through
  Arithmetic attention_;
  std::vector<LayerAttention> layers_;
};

}  // namespace kvik
