#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "catalogue/ngram_config.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/model_source.h"

namespace kvik::hf {

// Names of the tensors of n-grams in a folder. The table is stored in pieces, "shards"; the numbers
// that GGUF files have as keys are tensors of integers.
class NgramNames {
 public:
  // layer_prefix: "model.layers.1."
  explicit NgramNames(const std::string& layer_prefix)
      : prefix_(layer_prefix + "ple.ple_embedding.") {}

  std::string shard(size_t i) const;
  // Returns the tensors of integers and the values that they should have.
  std::vector<std::pair<std::string, std::vector<uint64_t>>> numbers(const NgramConfig& g) const;

 private:
  std::string prefix_;
};

// Checks that a tensor holds these integers. Errors: kUnsupported otherwise.
Result<void> check_numbers(ModelSource& source, size_t index, std::span<const uint64_t> expected);

// Returns the concatenation of the rows of matrices, which is read piece by piece. Errors: kCorrupt
// for matrices that differ in type or number of columns, or that have another number of rows
// together.
Result<ArrangedTensor> joined_rows(const ModelSource& source, std::span<const size_t> matrices,
                                   const TensorSpec& spec);

}  // namespace kvik::hf
