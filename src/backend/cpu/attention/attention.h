#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attention/entry_pages.h"
#include "backend/cpu/attention/selected_pages.h"
#include "backend/cpu/attention/selected_row.h"
#include "backend/cpu/attention/selected_tables.h"
#include "backend/cpu/isa/kernels.h"
#include "backend/layout/attention_plan.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Distributes attention to the threads. Owns the scratch memory of each thread and the partial
// results of splits; these buffers grow to the maximum needed and are never freed.
//
// Rows are cut into slices of one run. Slices are computed split by split, in waves of splits, and
// merged in ascending order, if there are too few slices to keep all threads busy, or if they
// belong to short runs some of which share pages (AttentionPlan). Other slices are computed as a
// whole, with an item of work for each KV head, or for each part of its query heads if there are
// too few items. The bits are the same in all cases.
//
// Rows that attend to selected tokens read copies of latent K (SelectedPages), or a part of the
// pages (SelectedTables), some rows at a time. Rows that attend to entries read copies, too
// (EntryPages).
class Attention {
 public:
  Attention(const AttentionKernels& kernels, Memory& memory, ThreadPool& pool);

  // q: [M, n_heads · head_dim], out: [M, n_heads · value_dim]. The caller has checked the shapes
  // against the geometry.
  void run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);

  // Implements Backend::attend_to_entries().
  void run_entries(const KvTarget& kv, const EntryTarget& entries, const EntrySelection& selection,
                   const AttentionShape& shape, Rows q, Rows out);

  // Return the bytes of scratch memory that attention needs within the limits, and allocate it.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  // Parameters of a call that all its tasks have in common.
  struct Call {
    const KvTarget& kv;
    const KvBlockLayout& layout;
    const AttentionShape& shape;
    uint32_t group;  // query heads that are computed together: those of a KV head, or of a part
    uint32_t n_parts = 1;   // of the query heads of a KV head
    size_t row_floats = 0;  // floats of one row's partial results for one group
    uint32_t n_heads() const { return kv.geometry.n_kv_heads * n_parts; }  // number of groups
  };
  // A range of splits and their units, between two merges.
  struct Wave {
    SplitRange splits;
    size_t first_unit, end_unit;
  };

  // Floats needed of each buffer.
  struct Needs {
    size_t scratch, merged, partials;
  };

  Needs needs_of(const WorkLimits& limits) const;
  void run_selected(const KvTarget& kv, AttentionShape shape, Rows q, Rows out);
  void run_copies(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);
  void run_tables(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);
  // Computes the rows of `kv`. layout: that of the pages, which may hold more KV heads than the
  // geometry has. `selected`, if not empty, has what each of the rows reads.
  void run_rows(const KvTarget& kv, const KvBlockLayout& layout, const AttentionShape& shape,
                Rows q, Rows out, std::span<const SelectedRow> selected);
  void list_slices(const Call& call, Rows q, Rows out);
  void narrow_rows(const Call& call, std::span<const SelectedRow> selected);
  void choose_slices_to_split(const Call& call);
  void divide_heads(Call& call) const;
  void run_waves(const Call& call);
  void attend_units(const Call& call, const Wave& wave, size_t n_whole);
  void merge_wave(const Call& call, const Wave& wave);
  // Returns the number of KV heads that an item of work of n_units units processes.
  uint32_t heads_at_once(const Call& call, size_t n_units) const;
  uint32_t wave_splits(const Call& call) const;
  void attend_whole(const Call& call, size_t item, uint32_t thread);
  AttendTask task(const Call& call, uint32_t head, uint32_t thread) const;

  const AttentionKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  std::vector<QueryRow> rows_;      // rows of the call
  std::vector<RowSlice> whole_;     // slices computed as a whole
  std::vector<RowSlice> to_split_;  // slices computed split by split
  AttentionPlan plan_;              // plan of the slices to split
  std::vector<Buffer> scratch_;     // by thread
  Buffer merged_;                   // [slice to split][group of heads]: results merged so far
  Buffer partials_;                 // [unit of the current wave][group of heads]
  SelectedPages copies_;
  SelectedTables tables_;
  EntryPages entries_;
  std::vector<EntryRow> entry_rows_;
  std::vector<SelectingRow> selecting_rows_;
  std::vector<KvRun> full_runs_;  // the rows of a call that attend to all tokens
};

}  // namespace kvik::cpu
