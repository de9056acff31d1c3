#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file/new_file.h"
#include "base/metadata.h"
#include "base/result.h"
#include "tensor/tensor_view.h"

namespace kvik {

// Returns the header of a GGUF file (version 3): keys in ascending order, each number as wide as
// Metadata says that it was stored (otherwise 32 bits if all of a key's values fit), then the
// tensors in order. Ends where the tensor data begins.
std::vector<std::byte> gguf_header(const Metadata& metadata, std::span<const TensorInfo> tensors);

// Writes a GGUF file piece by piece; the file appears only when it is complete (NewFile). Uses
// "general.alignment" of the metadata, or 32.
class GgufOutput {
 public:
  // Reserves the space of the whole file. Errors: kNotFound, kIo.
  static Result<GgufOutput> create(const std::string& path, const Metadata& metadata,
                                   std::vector<TensorInfo> tensors);

  // Writes the next bytes of the current tensor, which may end with them. Tensors follow in the
  // order of the table.
  Result<void> write(std::span<const std::byte> bytes);

  // All tensors must have been written.
  Result<void> commit();

  uint64_t n_bytes() const { return n_bytes_; }  // of the whole file

 private:
  GgufOutput(NewFile file, std::vector<TensorInfo> tensors, uint64_t alignment)
      : file_(std::move(file)), tensors_(std::move(tensors)), alignment_(alignment) {}

  NewFile file_;
  std::vector<TensorInfo> tensors_;
  uint64_t alignment_;
  uint64_t n_bytes_ = 0;
  size_t tensor_ = 0;       // the current one
  uint64_t n_written_ = 0;  // of the current one
};

}  // namespace kvik
