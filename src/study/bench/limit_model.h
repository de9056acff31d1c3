#pragma once

#include <cstdint>
#include <map>
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

// Return the minimum time of the arithmetic, and of the reads, at the limits of the machine.
double min_compute_seconds(const Work& work, const MachineLimits& machine);
double min_read_seconds(const Work& work, const MachineLimits& machine);

// Returns the minimum time at the limits of the machine. Reads and arithmetic overlap; different
// kinds of arithmetic do not.
double min_seconds(const Work& work, const MachineLimits& machine);

// Counts the work of the tests of a model. Weights count with their size in the file. A larger
// packed form therefore lowers the reached share of the limit, not the limit.
class LimitModel {
 public:
  LimitModel(const ModelSource& source, const ModelConfig& config, const KvFootprint& kv);

  // Creates the model of loaded weights. Opens the file again for its tensor directory, which is
  // not kept after loading.
  static Result<LimitModel> of(const std::string& spec, const LoadedModel& loaded);

  // Sets the work of a test, and its speed at the limits of the machine.
  void hold_against(const MachineLimits& machine, BenchResult& result) const;
  // Does the same for a machine that was measured during each run, with the median of the shares.
  void hold_against(std::span<const MachineLimits> during, BenchResult& result) const;

  // Returns the work of all tokens of a test. A decode step reads the weights once for all
  // sequences, and the K and V of each sequence. A prefill reads both once. After the last layer
  // that writes K and V, or a state, it computes its last token only. For a test without cache,
  // this is the work that would remain with a cache.
  Work work(const BenchCase& bench) const;

 private:
  enum class Arithmetic : uint8_t { kInt4, kInt8, kBF16, kF32 };
  static Arithmetic arithmetic_of(ElementType type);
  // Returns the arithmetic of K or V stored in a type.
  static Arithmetic arithmetic_of(KvType type);
  static void add(Work& work, Arithmetic arithmetic, double ops);

  // Work of the same tokens: of all, or of those whose outputs are wanted.
  struct Part {
    Work per_token;  // its bytes are the weights
    // Bytes of all experts, by the share of a layer's experts that one token uses.
    std::map<double, double> expert_bytes;

    void add_experts(const ExpertsConfig& experts, const TensorInfo& tensor);
    // Adds the work of n_rows tokens, of which n_at_once are computed in each of n_reads steps.
    void add_to(Work& work, double n_rows, double n_at_once, double n_reads) const;
  };

  // The cost of attention in one layer for each token that a row attends to.
  struct LayerAttention {
    bool is_last = false;       // for tokens whose outputs are wanted
    uint32_t window;            // in tokens; 0: the layer attends to all tokens
    double key_ops, value_ops;  // latent K, which is also V, counts as K
    double kv_bytes;
    // The cost of an indexer for each earlier token, whether it is selected or not.
    double index_ops, index_bytes;
  };
  static LayerAttention attention_of(const AttentionConfig& attention, KvType type,
                                     bool keys_by_channel);

  // Returns the average number of tokens that a row attends to.
  static double tokens_seen(uint32_t window, const BenchCase& bench);

  Part of_all_;     // what all tokens need
  Part of_wanted_;  // what follows for tokens whose outputs are wanted, with the head
  Arithmetic keys_, values_;
  std::vector<LayerAttention> layers_;
};

}  // namespace kvik
