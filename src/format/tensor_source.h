#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tensor/tensor_view.h"

namespace kvik {

// Named tensors that can be read: those of a file, or the outputs of transforms (model_source.h).
// One thread at a time.
class TensorSource {
 public:
  using Bytes = std::span<const std::byte>;

  virtual ~TensorSource() = default;

  virtual std::span<const TensorInfo> tensors() const = 0;

  // Returns bytes of tensors()[index], whole rows, valid until the tensor is read again or
  // released. A tensor that can only be made as a whole is kept from the first range on.
  virtual Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) = 0;
  virtual void release(size_t index) = 0;

  // Checks that the files are as they were when they were opened.
  virtual Result<void> check_unchanged() const { return {}; }

  // Returns the name of the tensor in the file, for messages.
  virtual std::string name_in_file(size_t index) const { return tensors()[index].name; }

  // Returns the element type as the file names it, such as "F8_E4M3": several of safetensors are
  // bytes (i8) here. Empty if the format has no such types, or the tensor was made from others.
  virtual std::string_view stored_type(size_t) const { return {}; }

  // Returns TensorView::gather of the tensor; empty if columns are in order. It is the same for all
  // ranges and valid as long as the bytes.
  virtual std::span<const uint32_t> gather(size_t) const { return {}; }

  // Returns factors of the tensor's values in addition to the scales of its blocks: one, or one per
  // slice along the first axis; empty means 1. They are valid as long as the bytes, and only for
  // ranges that were read.
  virtual std::span<const float> scales(size_t) const { return {}; }
  // Returns the factor of one slice along the first axis.
  float scale(size_t index, uint64_t slice) const;

  // Returns all bytes of the tensor, valid until release(index) or destruction.
  Result<Bytes> read(size_t index) { return read_range(index, 0, tensors()[index].n_bytes); }

  // Returns the index into tensors() of the tensor of that name.
  std::optional<size_t> find(std::string_view name) const;
};

}  // namespace kvik
