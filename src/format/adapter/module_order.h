#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {

// A matrix of a folder as somebody may change it: the tensors of a GGUF file that lie in it, one
// above the other or, of a layer with a gated delta rule, q, k, v and the gate of each key head in
// turn (hf::kQkvzName).
struct Module {
  std::vector<TensorRole> roles;
  // Rows of heads that turn lie half a head apart there, though a GGUF file may have them side by
  // side (Arrangement::kPairedRows).
  bool pairs_rows = false;
};

// Where a tensor of a GGUF file lies in a module, in the tensor's order.
struct ModuleOrder {
  uint64_t n_rows = 0;                 // of the whole module
  std::vector<uint32_t> rows = {};     // of the module; empty: all, as they are
  std::vector<uint32_t> columns = {};  // likewise
};

// Errors: kCorrupt for heads whose rows cannot be paired.
Result<ModuleOrder> module_order(const ModelConfig& model, const TensorTable& table,
                                 const Module& module, TensorId tensor);

}  // namespace kvik
