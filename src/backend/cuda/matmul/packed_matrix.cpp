#include "backend/cuda/matmul/packed_matrix.h"

#include <fmt/format.h>

#include <map>

#include "backend/host_memory.h"
#include "backend/layout/panel_matrix.h"

namespace kvik::cuda {

Result<std::unique_ptr<CudaPackedMatrix>> CudaPackedMatrix::pack(
    std::span<const TensorView> stacked, const ReadRows& read, Place place) {
  HostMemory host_memory;
  PanelMatrix on_host(stacked, host_memory);
  TRY(on_host.fill(read, place.pool));
  CudaMemory& memory = place.memory;
  auto packed = std::make_unique<CudaPackedMatrix>();
  packed->n_rows_ = on_host.n_rows();
  packed->n_cols_ = on_host.n_cols();
  packed->source_digest_ = on_host.source_digest();
  TRY_ASSIGN(packed->bytes_, memory.try_allocate(on_host.bytes()));
  std::map<const uint32_t*, const uint32_t*> orders;
  orders[nullptr] = nullptr;
  std::byte* at = packed->bytes_.data();
  for (const PanelMatrix::Part& part : on_host.parts()) {
    if (part.scale != 1) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("a {} matrix with an additional scale of {}: expected 1 on a GPU",
                              name_of(part.type), part.scale));
    }
    const size_t n_bytes = part.n_panels * part.panel_bytes;
    memory.copy_in(at, {part.panels, n_bytes});
    if (!orders.contains(part.gather)) {
      const std::span<const uint32_t> order(part.gather, packed->n_cols_);
      TRY_ASSIGN(Buffer own, memory.try_allocate(order.size_bytes()));
      memory.copy_in(own.data(), std::as_bytes(order));
      orders[part.gather] = reinterpret_cast<const uint32_t*>(own.data());
      packed->orders_.push_back(std::move(own));
    }
    packed->parts_.push_back({.type = part.type,
                              .first_row = part.first_row,
                              .n_rows = part.n_rows,
                              .n_panels = part.n_panels,
                              .panel_bytes = part.panel_bytes,
                              .panels = reinterpret_cast<const uint8_t*>(at),
                              .gather = orders[part.gather]});
    at += n_bytes;
  }
  return packed;
}

}  // namespace kvik::cuda
