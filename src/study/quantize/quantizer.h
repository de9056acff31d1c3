#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "format/gguf/gguf_output.h"
#include "format/importance.h"
#include "format/model_source.h"
#include "format/weight_mix.h"

namespace kvik {

// Sums of squares over the values of a tensor.
struct ErrorSums {
  double lost = 0;  // of the differences of input and output
  double all = 0;   // of the input

  void add(const ErrorSums& other) {
    lost += other.lost;
    all += other.all;
  }
  double relative_rmse() const;
};

// The result for one tensor.
struct QuantizedTensor {
  TensorInfo info;  // as written
  ElementType from = ElementType::kF32;
  std::optional<ElementType> wanted = {};  // type that the mix wants, if the rows do not fit it
  bool has_importance = false;
  std::optional<TensorInfo> scales = {};  // additional tensor: factors of the values
  ErrorSums error = {};
};

// Writes the tensors of a model in the types that a mix chooses, some rows at a time. Apart from
// the source's own bytes, only these rows are in memory. The output does not depend on the number
// of threads.
class Quantizer {
 public:
  // All references are borrowed. `importance` may be null.
  Quantizer(ModelSource& source, const WeightMix& mix, const Importance* importance,
            ThreadPool& threads)
      : source_(source), mix_(mix), importance_(importance), threads_(threads) {}

  // Returns the tensors to be written, in order. Errors: kUnsupported for a tensor whose type
  // cannot be read; kInvalidArgument if the importance has the shapes of another model.
  Result<std::vector<QuantizedTensor>> plan() const;

  // Called between groups of rows with the number of bytes read so far. Returning false cancels
  // with kUnavailable.
  using Progress = std::function<bool(uint64_t done_bytes)>;
  // Writes the tensors and sets their errors in the plan. Errors: those of source and output;
  // kCorrupt with the tensor's name for values that are not finite or too large for the type.
  Result<void> write(std::vector<QuantizedTensor>& plan, GgufOutput& output,
                     const Progress& progress);

 private:
  struct Slab;
  struct Scratch {
    std::vector<float> values, decoded;
  };

  Result<void> convert(size_t index, QuantizedTensor& tensor, GgufOutput& output);
  Result<std::vector<std::vector<float>>> weights_of(const TensorInfo& tensor) const;
  std::vector<float> choose_scales(const Slab& slab, uint64_t n_rows);
  ErrorSums convert_row(const Slab& slab, uint64_t row, uint32_t thread);
  Result<void> advance(uint64_t n_bytes);

  ModelSource& source_;
  const WeightMix& mix_;
  const Importance* importance_;
  ThreadPool& threads_;

  Progress progress_;
  uint64_t done_bytes_ = 0;
  std::vector<Scratch> scratch_;  // one for each thread
};

}  // namespace kvik
