#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Tokens [begin, end) of the copies for a row.
struct TokenRange {
  uint32_t begin, end;
};

// A row that attends to entries, then to the last n_window tokens.
struct EntryRow {
  const KvRun* run;
  const KvRun* entry_run;  // the same sequence in the pages of entries
  uint32_t row;            // of q and out
  uint32_t position;
  const uint32_t* list;  // of entries; null: the first n_entries
  uint32_t n_entries, n_window;

  uint32_t n_copied() const { return n_entries + n_window; }
};

// Pages with copies of the entries and tokens that rows attend to, as if they were a context of
// their own. A copy has the bytes of the original, but in the layout of tokens; an entry is a slot
// (EntryTarget). The buffers grow to the maximum needed and are never freed.
class EntryPages {
 public:
  EntryPages(Memory& memory, ThreadPool& pool) : memory_(memory), pool_(pool) {}

  // Returns the number of rows that gather() takes at most.
  size_t n_rows_max() const;
  // Makes the copies of some rows. The earlier copies are lost.
  void gather(const KvTarget& kv, const EntryTarget& entries, std::span<const EntryRow> rows);
  // Returns what attention reads after gather(): a run for each row.
  KvTarget target() const { return {.geometry = geometry_, .layer = 0, .runs = runs_}; }

  // Return the bytes of the buffers for such heads, and allocate them.
  uint64_t scratch_bytes(const HeadsUse& use) const;
  void reserve(const HeadsUse& use);

 private:
  struct Call {
    const KvTarget& kv;
    const EntryTarget& entries;
  };
  void copy_entries(const Call& call, const EntryRow& row, const KvRun& to, TokenRange range) const;
  void copy_window(const Call& call, const EntryRow& row, const KvRun& to, TokenRange range) const;

  Memory& memory_;
  ThreadPool& pool_;
  KvGeometry geometry_;  // of one layer
  Buffer pages_;         // [rows][pages]
  std::vector<std::byte*> addresses_;
  std::vector<KvRun> runs_;
};

}  // namespace kvik::cpu
