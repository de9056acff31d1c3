#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {

// A matrix of a folder that an adapter may update, and the tensors of a GGUF file that it contains:
// concatenated, or for a gated-delta-rule layer q, k, v and the gate of each key head in turn
// (hf::kQkvzName).
struct Module {
  std::vector<TensorRole> roles;
  // Rows that RoPE rotates together are half a head apart in folders, although they may be adjacent
  // in a GGUF file (Arrangement::kPairedRows).
  bool pairs_rows = false;
};

// Position of a GGUF tensor within a module, in the tensor's order.
struct ModuleOrder {
  uint64_t n_rows = 0;                 // of the whole module
  std::vector<uint32_t> rows = {};     // of the module; empty: all in order
  std::vector<uint32_t> columns = {};  // likewise
};

// Errors: kCorrupt for heads whose rows cannot be paired.
Result<ModuleOrder> module_order(const ModelConfig& model, const TensorTable& table,
                                 const Module& module, TensorId tensor);

}  // namespace kvik
