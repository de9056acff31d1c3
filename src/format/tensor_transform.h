#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/tensor_source.h"

namespace kvik {

// Makes tensors (outputs) from others (inputs) when they are read, by rows or as a whole. A
// ModelSource has a list of transforms; it keeps the outputs until they are released, and passes on
// inputs that a transform does not change.
class TensorTransform {
 public:
  using Bytes = TensorSource::Bytes;

  struct Output {
    TensorInfo info;
    std::optional<size_t> input;  // index of the unchanged input, or of the one that messages name
    bool is_made = false;         // false: its bytes are those of the input
  };

  struct Range {  // range of an output's bytes
    uint64_t begin, n_bytes;
  };

  // The part of a tensor that was made and not released.
  struct Made {
    Bytes bytes;
    uint64_t begin = 0;             // offset of the bytes in the tensor
    std::vector<std::byte> memory;  // holds the bytes, unless they are an input's
    std::vector<uint32_t> gather;   // TensorSource::gather() and scales()
    std::vector<float> scales;

    // Returns memory for n_bytes of the tensor starting at `begin_byte`.
    std::byte* allocate(uint64_t begin_byte, uint64_t n_bytes);
  };

  // Borrows `inputs`.
  TensorTransform(TensorSource& inputs, std::vector<Output> outputs)
      : inputs_(inputs), outputs_(std::move(outputs)) {}
  virtual ~TensorTransform() = default;

  TensorSource& inputs() const { return inputs_; }
  std::span<const Output> outputs() const { return outputs_; }

  // Makes the wanted range (whole rows) of an output with is_made, or a larger one. `made` holds
  // gather and scales of ranges that were made before. Errors: those of reading.
  virtual Result<void> make(size_t index, Range wanted, Made& made) = 0;

  // Releases the inputs of an output that was made.
  virtual void release(size_t index);

 protected:
  const TensorInfo& info(size_t index) const { return outputs_[index].info; }

  TensorSource& inputs_;

 private:
  std::vector<Output> outputs_;
};

}  // namespace kvik
