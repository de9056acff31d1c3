#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Importance matrix: mean squares of the inputs of a model's matrices while it read a text. The
// cost of an error in a column of weights is proportional to them (Frantar et al. 2022, Lin et al.
// 2023). Stored in llama.cpp's imatrix.gguf format: two f32 tensors per matrix, NAME.in_sum2
// [n_matrices, n_cols] with sums of squares, NAME.counts [n_matrices, 1] with the number of rows
// summed; a stack of experts has one row per expert.
class Importance {
 public:
  struct Inputs {
    uint64_t n_cols = 0;
    std::vector<double> sums;    // [n_matrices, n_cols]
    std::vector<double> counts;  // [n_matrices]
  };

  // Errors: those of open_gguf(); kInvalidArgument for another kind of file; kCorrupt for tensors
  // that do not match, and numbers that are not finite and ≥ 0.
  static Result<Importance> read(const std::string& path);
  static Result<Importance> from(ModelSource& source);

  Result<void> write(const std::string& path) const;

  // Adds the squares of one row of inputs of a tensor's matrix, which expect() must have added
  // before.
  void add(const std::string& tensor, uint64_t matrix, std::span<const float> row);
  // Adds a tensor with counts of 0, so that it is listed even if it receives no inputs.
  void expect(const std::string& tensor, uint64_t n_matrices, uint64_t n_cols);

  const std::map<std::string, Inputs, std::less<>>& inputs() const { return inputs_; }

  // Returns the weight of each column of a tensor's matrix, relative to their mean and at least
  // 0.001; empty if there are no inputs of the matrix. Errors: kInvalidArgument if the tensor has
  // another shape.
  Result<std::vector<float>> weights(const TensorInfo& tensor, uint64_t matrix) const;

  std::string text;       // name of the text that was read
  uint64_t n_chunks = 0;  // windows of chunk_tokens tokens
  uint64_t chunk_tokens = 0;

 private:
  std::map<std::string, Inputs, std::less<>> inputs_;  // inputs by name of the tensor
};

}  // namespace kvik
