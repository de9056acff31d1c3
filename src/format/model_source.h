#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A model as it lies on disk (or is made up): named tensors and metadata, nothing computed.
// Loading reads one tensor after another, large ones in ranges, and releases each, so that the
// source's copy and the packed one never both lie in memory. One thread at a time.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // Where it came from, for messages: a path, "demo", "synthetic:tinyllama-1.1b:q8_0".
  virtual const std::string& label() const = 0;
  virtual const Metadata& metadata() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;

  // The bytes of tensors()[index]: n_bytes of them, valid until release(index) or destruction.
  virtual Result<std::span<const std::byte>> read(size_t index) = 0;
  virtual void release(size_t index) = 0;

  // Some of these bytes, whole rows of it, valid until the tensor is read again or released. A
  // source that must make a tensor as a whole keeps it from the first range on.
  virtual Result<std::span<const std::byte>> read_range(size_t index, uint64_t begin_byte,
                                                        uint64_t n_bytes);

  // What the file calls the tensor, for messages.
  virtual std::string name_in_file(size_t index) const { return tensors()[index].name; }

  // TensorView::gather of the tensor, valid as its bytes are; empty for what is in its order. One
  // for all ranges.
  virtual std::span<const uint32_t> gather(size_t) const { return {}; }

  // What a tensor's values are times, beside what its blocks say: all of them, or those of each
  // slice along the first axis; empty: 1. Valid as its bytes are, for what has been read.
  virtual std::span<const float> scales(size_t) const { return {}; }
  float scale(size_t index, uint64_t slice) const;

  // Index into tensors() of the tensor of that name.
  std::optional<size_t> find(std::string_view name) const;
};

}  // namespace kvik
