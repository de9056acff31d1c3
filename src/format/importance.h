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

// How large the inputs of a model's matrices were while it read some text: what an error in a
// column of weights costs is in proportion to the mean square of what meets it (Frantar et al.
// 2022, Lin et al. 2023). Kept in llama.cpp's imatrix.gguf: two f32 tensors for each matrix,
// NAME.in_sum2 [n_matrices, n_cols] with the sums of squares, NAME.counts [n_matrices, 1] with how
// many rows they are of; a stack of experts has one row for each.
class Importance {
 public:
  struct Inputs {
    uint64_t n_cols = 0;
    std::vector<double> sums;    // [n_matrices, n_cols]
    std::vector<double> counts;  // [n_matrices]
  };

  // Errors: those of open_gguf; kInvalidArgument where the file is of another kind; kCorrupt for
  // tensors that do not belong together, and numbers that are not finite and ≥ 0.
  static Result<Importance> read(const std::string& path);
  static Result<Importance> from(ModelSource& source);

  Result<void> write(const std::string& path) const;

  // Adds the squares of one row of inputs to a tensor's matrix.
  void add(const std::string& tensor, uint64_t matrix, std::span<const float> row);
  // Makes room for a tensor's inputs, so that one that sees none is there with counts of 0.
  void expect(const std::string& tensor, uint64_t n_matrices, uint64_t n_cols);

  const std::map<std::string, Inputs, std::less<>>& inputs() const { return inputs_; }

  // What each column of a tensor's matrix counts, 1 on average; empty where nothing is known of it.
  // A column that nothing ever met counts a little still. Errors: kInvalidArgument where the
  // tensor has another shape.
  Result<std::vector<float>> weights(const TensorInfo& tensor, uint64_t matrix) const;

  std::string text;       // what was read, as its reader named it
  uint64_t n_chunks = 0;  // windows of chunk_tokens tokens
  uint64_t chunk_tokens = 0;

 private:
  std::map<std::string, Inputs, std::less<>> inputs_;  // by tensor
};

}  // namespace kvik
