#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attention/selected_row.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Pages with copies of the tokens that rows attend to (SelectedTokens), in ascending order of their
// positions, as if they were a context of their own. A copy has the bytes of the original. Latent K
// of one KV head only. The buffers grow to the maximum needed and are never freed.
class SelectedPages {
 public:
  SelectedPages(Memory& memory, ThreadPool& pool) : memory_(memory), pool_(pool) {}

  // Returns the number of rows that gather() takes at most.
  size_t n_rows_max() const;
  // Copies the tokens of the blocks of each row, which has a list of n_top blocks. The earlier
  // copies are lost.
  void gather(const KvTarget& kv, const SelectedTokens& selected,
              std::span<const SelectingRow> rows);

  // Return what attention reads after gather(): a run for each row. Its `pages` may end inside a
  // page; the other tokens are in its open page.
  KvTarget target() const { return {.geometry = geometry_, .layer = 0, .runs = runs_}; }
  std::span<const SelectedRow> rows() const { return rows_; }

  // Return the bytes of the buffers for such heads, and allocate them.
  uint64_t scratch_bytes(const HeadsUse& use) const;
  void reserve(const HeadsUse& use);

 private:
  void copy_tokens(const KvTarget& kv, const SelectingRow& row, size_t index, uint32_t begin,
                   uint32_t end) const;

  Memory& memory_;
  ThreadPool& pool_;
  KvGeometry geometry_;        // of one layer
  uint32_t block_tokens_ = 1;  // SelectedTokens::block_tokens
  Buffer pages_, open_;        // [rows][pages], [rows]
  std::vector<std::byte*> addresses_, open_addresses_;
  std::vector<KvRun> runs_;
  std::vector<SelectedRow> rows_;
  std::vector<uint32_t> n_tokens_;  // that a row attends to
};

}  // namespace kvik::cpu
