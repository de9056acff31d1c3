#pragma once

#include <vector>

#include "backend/cpu/attention/attention_plan.h"
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/device/tables.h"
#include "backend/ops.h"

namespace kvik::cuda {

// Attention on a device. As on the CPU rows are cut into slices of one run; slices that share pages
// (cpu::AttentionPlan), and all of them if they are too few to keep the device busy, are attended
// split by split and merged in ascending order, the others whole: the bits are the same. Owns the
// partial results and the queries in levels, which grow to the most that was needed and are never
// given back. One thread.
class Attention {
 public:
  Attention(Device& device, CudaMemory& memory, Tables& tables, const AttentionKernels& kernels)
      : device_(device), memory_(memory), tables_(tables), kernels_(kernels) {}

  // As Backend has them; shapes are already checked against the geometry.
  void write_kv(const KvTarget& kv, Rows k, Rows v);
  void run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);

  // Bytes that attention within the limits needs, and taking them now.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  void list_pages(const KvTarget& kv);
  void list_slices(const KvTarget& kv, Rows q);
  void choose_slices_to_split(const KvTarget& kv, const AttentionShape& shape);
  void list_items(const AttentionShape& shape, Rows q);
  void list_merges(const AttentionShape& shape, Rows q);
  uint32_t row_of(const cpu::QueryRow& row, Rows q) const;
  Queries queries_of(const PageLayout& layout, const AttentionShape& shape, Rows q);

  Device& device_;
  CudaMemory& memory_;
  Tables& tables_;
  const AttentionKernels& kernels_;
  Buffer partials_, queries_;
  // Of the call at hand.
  std::vector<const std::byte*> pages_;  // of all runs
  std::vector<cpu::QueryRow> rows_;
  std::vector<cpu::RowSlice> whole_, to_split_;
  cpu::AttentionPlan plan_;
  std::vector<PlacedRow> placed_;
  std::vector<AttendItem> items_;
  std::vector<MergeRow> merges_;
  std::vector<uint32_t> parts_;
};

}  // namespace kvik::cuda
