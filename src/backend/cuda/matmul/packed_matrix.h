#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "base/thread_pool.h"

namespace kvik::cuda {

// Weights in device memory, in the same panels as on the CPU (backend/layout/panel_matrix.h). A
// warp reads four bytes of each of a panel's 32 columns at once.
class CudaPackedMatrix final : public PackedMatrix {
 public:
  struct Part {
    ElementType type;
    uint32_t first_row, n_rows;
    uint32_t n_panels;
    size_t panel_bytes;
    const uint8_t* panels;
    // TensorView::gather, [n_cols], or null; equal orders have the same pointer
    const uint32_t* gather;
  };

  // Memory for the weights, and threads that pack them.
  struct Place {
    CudaMemory& memory;
    ThreadPool& pool;
  };
  // Packs the matrices on the host, with the pool's threads, and copies them to the device. There
  // must be kernels for every type. n_cols must be equal for all matrices and a multiple of each
  // type's block size. Errors: those of `read` and Device::allocate(); kUnsupported for a
  // TensorView::scale other than 1.
  static Result<std::unique_ptr<CudaPackedMatrix>> pack(std::span<const TensorView> stacked,
                                                        const ReadRows& read, Place place);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  size_t bytes() const override { return bytes_.size(); }
  Hash128 source_digest() const override { return source_digest_; }

  std::span<const Part> parts() const { return parts_; }

 private:
  std::vector<Part> parts_;
  std::vector<Buffer> orders_;
  uint32_t n_rows_ = 0;
  uint32_t n_cols_ = 0;
  Buffer bytes_;
  Hash128 source_digest_;
};

}  // namespace kvik::cuda
