#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attention/selected_row.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Page tables of the pages that hold tokens that rows attend to (SelectedTokens), for K and V that
// are not latent. Each row and KV head has a table of its own, as if these pages were a context of
// this head alone, and masks that exclude the other tokens of the pages. No byte of K or V is
// copied: K by channel could not be copied token by token. The tables grow to the maximum needed
// and are never freed.
class SelectedTables {
 public:
  explicit SelectedTables(ThreadPool& pool) : pool_(pool) {}

  // Returns the number of rows that list() takes at most.
  size_t n_rows_max(const HeadsUse& use) const;
  // Makes the tables of some rows, in ascending order of rows, then of KV heads. The earlier tables
  // are lost. window: as in AttentionShape
  void list(const KvTarget& kv, const SelectedTokens& selected, uint32_t window,
            std::span<const SelectingRow> rows);

  // Return what attention reads after list(): a run for each row and KV head.
  KvTarget target() const { return {.geometry = geometry_, .layer = 0, .runs = runs_}; }
  std::span<const SelectedRow> rows() const { return rows_; }

  // Return the bytes of the tables for such heads, and allocate them.
  uint64_t scratch_bytes(const HeadsUse& use) const;
  void reserve(const HeadsUse& use);

 private:
  struct Call {
    const KvTarget& kv;
    const SelectedTokens& selected;
    uint32_t window;
  };

  void fill(const Call& call, const SelectingRow& row, size_t table);

  ThreadPool& pool_;
  KvGeometry geometry_;  // of one layer and KV head
  size_t n_pages_max_ = 0;
  std::vector<std::byte*> pages_;       // [rows][KV heads][n_pages_max_]
  std::vector<uint32_t> masks_;         // the same
  std::vector<std::byte*> open_pages_;  // [rows][KV heads]
  std::vector<KvRun> runs_;
  std::vector<SelectedRow> rows_;
};

}  // namespace kvik::cpu
