#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {

// A matrix of a folder that an adapter may update. It contains one or more tensors of a GGUF file:
// either concatenated in the order of `roles`, or, in a gated-delta-rule layer, q, k, v and the
// gate of one key head after another (hf::kQkvzName).
struct Module {
  std::vector<TensorRole> roles;
  // Rows that RoPE rotates together are half a head apart in the folder. In a GGUF file they may be
  // adjacent (Arrangement::kPairedRows).
  bool pairs_rows = false;
  bool has_qkv_by_head = false;  // FolderType::has_qkv_by_head
};

// Rows and columns of a module that make up one GGUF tensor, in the order of that tensor.
struct ModuleOrder {
  uint64_t n_rows = 0;                 // number of rows of the whole module
  std::vector<uint32_t> rows = {};     // rows of the module; empty: all of them in order
  std::vector<uint32_t> columns = {};  // columns of the module; empty: all of them in order
};

// Returns the rows and columns of `module` that make up `tensor`, one of its roles. Errors:
// kCorrupt if a head has an odd number of rows, so that they cannot be paired.
Result<ModuleOrder> module_order(const ModelConfig& model, const TensorTable& table,
                                 const Module& module, TensorId tensor);

}  // namespace kvik
