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

// Squares that are added up over the values of a tensor.
struct ErrorSums {
  double lost = 0;  // of what was read less what was written
  double all = 0;   // of what was read

  void add(const ErrorSums& other) {
    lost += other.lost;
    all += other.all;
  }
  double relative_rmse() const;
};

// What became of one tensor.
struct QuantizedTensor {
  TensorInfo info;  // as written
  ElementType from = ElementType::kF32;
  std::optional<ElementType> wanted = {};  // where rows did not fit the type that the mix wanted
  bool has_importance = false;
  std::optional<TensorInfo> scales = {};  // a tensor behind it: what its values are times
  ErrorSums error = {};
};

// Writes a model's tensors in the types that a mix chooses for them, some rows at a time: of a
// tensor, no more than that is in memory beside the source's own bytes. The same bytes whatever the
// number of threads.
class Quantizer {
 public:
  // All are borrowed; `importance` may be null.
  Quantizer(ModelSource& source, const WeightMix& mix, const Importance* importance,
            ThreadPool& threads)
      : source_(source), mix_(mix), importance_(importance), threads_(threads) {}

  // What will be written, in order. Errors: kUnsupported for tensors whose type cannot be read,
  // kInvalidArgument for importance of another model's shapes.
  Result<std::vector<QuantizedTensor>> plan() const;

  // Called between slabs with the bytes read so far; false gives up with kUnavailable.
  using Progress = std::function<bool(uint64_t done_bytes)>;
  // Fills the plan's errors. Errors: those of source and output, and kCorrupt for values that are
  // not finite or too large for the type; names the tensor.
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
  std::vector<Scratch> scratch_;  // by thread
};

}  // namespace kvik
