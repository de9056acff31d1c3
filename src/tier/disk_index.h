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

// Maps pages to slots in an SQLite file; uses little memory for any number of pages. The file's
// contents are not trusted: readers of a slot check what it holds. One thread at a time.
class DiskIndex {
 public:
  // Errors: kCorrupt if the file is not an index, is of another version, or has another schema than
  // this program creates.
  static Result<DiskIndex> open(const std::string& path, Sqlite::Mode mode);

  // Sets the maximum number of rows: a statement that does more work than that needs fails with
  // kCorrupt.
  void expect_rows(uint64_t n_rows);

  struct Row {
    PageKey key;
    PageKey parent;
    uint32_t group = 0;
    SlotId slot;
    uint64_t n_bytes = 0;
    uint64_t last_use = 0;
    SharingMark known = SharingMark::kNoTenant;
  };
  Result<std::optional<Row>> find(const PageKey& key, uint32_t group);
  Result<std::vector<Tier::Child>> children(const PageKey& parent, uint32_t group,
                                            SharingMark reader, size_t limit);
  // Returns pages without children in slots of this size, least recently used first.
  Result<std::vector<Row>> oldest_leaves(uint64_t slot_bytes, size_t limit);
  // Returns the last use of the segment's pages; std::nullopt if it holds no page.
  Result<std::optional<uint64_t>> last_use_of_segment(uint32_t segment);
  Result<std::vector<Row>> rows_of_segment(uint32_t segment);

  struct Totals {
    uint64_t n_pages = 0;
    uint64_t n_bytes = 0;  // of page contents
    uint64_t n_tails = 0;  // pages with fewer than kPageTokens tokens
    uint64_t n_roots = 0;  // combinations of model, KV type and salt
    uint64_t n_tokens = 0;
    uint64_t last_use = 0;
  };
  Result<Totals> totals();

  Result<void> insert(const TierPage& page, SlotId slot, uint64_t slot_bytes, uint64_t n_bytes,
                      uint64_t last_use);
  Result<void> remove(const Row& row);
  // Sets the page's mark.
  Result<void> mark(const PageKey& key, uint32_t group, SharingMark known);
  Result<void> touch(const PageKey& key, uint32_t group, uint64_t last_use);

  // Frees the unused bytes of the file.
  Result<void> compact();

  // Applies all changes that `change` makes, or none.
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
  // Statements refer to the database, so it must not move.
  explicit DiskIndex(Sqlite database) : database_(std::make_unique<Sqlite>(std::move(database))) {}
  Result<SqliteStatement*> query(Query which);
  Result<std::vector<Row>> rows(SqliteStatement& statement);

  std::unique_ptr<Sqlite> database_;
  std::optional<SqliteStatement> statements_[kNumQueries];  // destroyed before the database
};

}  // namespace kvik
