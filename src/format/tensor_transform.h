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

// Makes tensors (outputs) out of others (inputs) when they are read: some rows of them, or the
// whole tensor. A ModelSource has a list of transforms; it keeps the bytes that they make until
// they are released, and passes on the inputs that a transform does not change.
class TensorTransform {
 public:
  using Bytes = TensorSource::Bytes;

  struct Output {
    TensorInfo info;
    std::optional<size_t> input;  // index of the input that it is, or that messages name
    bool is_made = false;         // false: its bytes are those of the input
  };

  struct Range {  // of an output's bytes
    uint64_t begin, n_bytes;
  };

  // The part of a tensor that has been made and not released.
  struct Made {
    Bytes bytes;
    uint64_t begin = 0;             // of the bytes in the tensor
    std::vector<std::byte> memory;  // where the bytes lie, unless they are an input's
    std::vector<uint32_t> gather;   // TensorSource::gather() and scales()
    std::vector<float> scales;

    // Returns memory for n_bytes, which are those of the tensor from `begin_byte` on.
    std::byte* allocate(uint64_t begin_byte, uint64_t n_bytes);
  };

  // `inputs` is borrowed.
  TensorTransform(TensorSource& inputs, std::vector<Output> outputs)
      : inputs_(inputs), outputs_(std::move(outputs)) {}
  virtual ~TensorTransform() = default;

  TensorSource& inputs() const { return inputs_; }
  std::span<const Output> outputs() const { return outputs_; }

  // Makes the wanted range, whole rows, of an output with is_made, or a larger one. `made` holds
  // the gather and scales of ranges that were made before. Errors: those of reading.
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
