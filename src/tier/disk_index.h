#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file/sqlite.h"
#include "base/result.h"
#include "tier/segment_files.h"
#include "tier/tier.h"

namespace kvik {

// Which page lies in which slot, in an SQLite file; small in memory however many pages there are.
// It knows what its file says: whoever reads a slot checks what lies there. One thread at a time.
class DiskIndex {
 public:
  // kCorrupt where the file is no index, or one with anything of its own.
  static Result<DiskIndex> open(const std::string& path, Sqlite::Mode mode);

  // How many rows there can be at most: what makes more work than that is kCorrupt.
  void expect_rows(uint64_t n_rows);

  struct Row {
    PageKey key;
    PageKey parent;
    uint32_t group = 0;
    SlotId slot;
    uint64_t n_bytes = 0;
    uint64_t last_use = 0;
    KnownBy known = KnownBy::kNobody;
  };
  Result<std::optional<Row>> find(const PageKey& key, uint32_t group);
  Result<std::vector<Tier::Child>> children(const PageKey& parent, uint32_t group, KnownBy reader,
                                            size_t limit);
  // Pages without children in slots of this size, the one that was used longest ago first.
  Result<std::vector<Row>> oldest_leaves(uint64_t slot_bytes, size_t limit);
  // When a page of the segment was last used; std::nullopt where it has none.
  Result<std::optional<uint64_t>> last_use_of_segment(uint32_t segment);
  Result<std::vector<Row>> rows_of_segment(uint32_t segment);

  struct Totals {
    uint64_t n_pages = 0;
    uint64_t n_bytes = 0;  // of the pages themselves
    uint64_t n_tails = 0;  // that hold fewer than kPageTokens tokens
    uint64_t n_roots = 0;  // models, KV types and salts
    uint64_t n_tokens = 0;
    uint64_t last_use = 0;
  };
  Result<Totals> totals();

  Result<void> insert(const TierPage& page, SlotId slot, uint64_t slot_bytes, uint64_t n_bytes,
                      uint64_t last_use);
  Result<void> remove(const Row& row);
  // Who knows the page from now on.
  Result<void> mark(const PageKey& key, uint32_t group, KnownBy known);
  Result<void> touch(const PageKey& key, uint32_t group, uint64_t last_use);

  // Gives the file's unused bytes back.
  Result<void> compact();

  // All changes of `change` or none.
  Result<void> in_transaction(const std::function<Result<void>()>& change);

 private:
  enum Query {
    kFind,
    kChildren,
    kChildrenFor,
    kOldestLeaves,
    kLastUseOfSegment,
    kRowsOfSegment,
    kInsert,
    kRemove,
    kTouch,
    kMark,
    kAddChild,
    kTotals,
    kNumQueries
  };
  static const char* sql_of(Query query);
  // Statements point to the database: it stays where it is.
  explicit DiskIndex(Sqlite database) : database_(std::make_unique<Sqlite>(std::move(database))) {}
  Result<SqliteStatement*> query(Query which);
  Result<std::vector<Row>> rows(SqliteStatement& statement);

  std::unique_ptr<Sqlite> database_;
  std::optional<SqliteStatement> statements_[kNumQueries];  // gone before the database
};

}  // namespace kvik
