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

// Returns the header of a GGUF file (version 3): keys in ascending order, then the tensors in
// order. Numbers have the width that Metadata records for their key, otherwise 32 bits if all
// values of the key fit. The header is padded, so that tensor data follows directly.
std::vector<std::byte> gguf_header(const Metadata& metadata, std::span<const TensorInfo> tensors);

// Writes a GGUF file piece by piece; the file appears only when it is complete (NewFile). Uses
// "general.alignment" of the metadata, or 32.
class GgufOutput {
 public:
  // Reserves the space of the whole file. Errors: kNotFound, kIo.
  static Result<GgufOutput> create(const std::string& path, const Metadata& metadata,
                                   std::vector<TensorInfo> tensors);

  // Writes the next bytes of the current tensor, not beyond its end. Tensors are written in the
  // order of the table.
  Result<void> write(std::span<const std::byte> bytes);

  // Completes the file. All tensors must have been written.
  Result<void> commit();

  uint64_t n_bytes() const { return n_bytes_; }  // size of the whole file

 private:
  GgufOutput(NewFile file, std::vector<TensorInfo> tensors, uint64_t alignment)
      : file_(std::move(file)), tensors_(std::move(tensors)), alignment_(alignment) {}

  NewFile file_;
  std::vector<TensorInfo> tensors_;
  uint64_t alignment_;
  uint64_t n_bytes_ = 0;
  size_t tensor_ = 0;       // index of the current tensor
  uint64_t n_written_ = 0;  // bytes of the current tensor that are written
};

}  // namespace kvik
