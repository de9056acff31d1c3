#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/layout/attention_plan.h"

namespace kvik::cuda {

// Attention on a device. As on the CPU, rows are cut into slices of one run. Slices are computed
// split by split, and merged in ascending order, if all slices together are too few to fill the
// device, or if they belong to short runs some of which share pages (AttentionPlan). Other slices
// are computed as a whole. The bits are the same in both cases. Layers that attend to the same
// pages share a plan. Owns the partial results and the quantized queries; these buffers grow to the
// maximum needed and are never freed. One thread.
class Attention {
 public:
  Attention(Stream& stream, CudaMemory& memory, Tables& tables, const AttentionKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implements Backend::change_basis(); the caller has checked the shapes.
  void change_basis(Rows x, const HeadBasis& basis);
  // Implement the functions of Backend. The caller has checked the shapes against the geometry.
  void write_kv(const KvTarget& kv, Rows k, Rows v);
  void run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);

  // Return the bytes of scratch memory that attention needs within the limits, and allocate it.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  // A run's rows and the number of its pages. The pages of all runs are in one list, run after run.
  // n_open_pages is 0 if the run has no open pages.
  struct RunPlace {
    uint32_t first_position, first_row, n_rows, n_pages, n_open_pages;
    friend bool operator==(const RunPlace&, const RunPlace&) = default;
  };
  // Determines a plan: calls with equal keys have the same plan.
  struct PlanKey {
    std::vector<const std::byte*> pages;  // pages of all runs
    std::vector<RunPlace> runs;
    uint32_t window = 0, n_heads = 0, n_kv_heads = 0, value_dim = 0;
    friend bool operator==(const PlanKey&, const PlanKey&) = default;
  };
  struct Plan {
    PlanKey key;
    std::vector<PlacedRow> rows;
    std::vector<AttendItem> items;
    std::vector<PlacedRow> open_rows;  // rows of all runs, at positions within their open pages
    std::vector<AttendItem> open_items;
    std::vector<MergeRow> merges;
    std::vector<uint32_t> parts;
    uint64_t used_at = 0;
  };
  // Maximum number of plans that are kept. Layer groups with different pages or shapes have plans
  // of their own.
  static constexpr size_t kMaxPlans = 4;

  // Bytes needed of each buffer.
  struct Needs {
    uint64_t partials, queries;
  };

  Needs needs_of(const WorkLimits& limits) const;
  void list_runs(const KvTarget& kv);
  bool has_open_pages() const { return !open_pages_.empty(); }
  void place_open_rows(std::vector<PlacedRow>& out) const;
  const uint8_t* const* put_pages(const std::vector<const std::byte*>& pages);
  // Pages to write to: those of the cache, or open pages.
  struct WrittenPages {
    const PageLayout& layout;
    const std::vector<const std::byte*>& pages;
    size_t first_block;
  };
  void write_pages(const WrittenPages& to, Rows k, Rows v);
  void write_channels(const KvTarget& kv);
  const Plan& plan_for(const KvTarget& kv, const AttentionShape& shape);
  void list_slices();
  void choose_slices_to_split();
  void list_items(Plan& plan);
  void list_open_items(Plan& plan);
  void list_merges(Plan& plan);
  Queries queries_of(const PageLayout& layout, const AttentionShape& shape, Rows q);

  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const AttentionKernels& kernels_;
  Buffer partials_, queries_;
  PlanKey key_;                               // of the current call
  std::vector<const std::byte*> open_pages_;  // of all runs of the current call
  std::vector<PlacedRow> written_;
  // Pages that write_kv() filled, and their open pages.
  std::vector<const std::byte*> full_pages_, full_open_pages_;
  std::vector<Plan> plans_;
  uint64_t now_ = 0;
  // Used only while a plan is made.
  std::vector<QueryRow> rows_;
  std::vector<RowSlice> whole_, to_split_;
  AttentionPlan plan_;
};

}  // namespace kvik::cuda
