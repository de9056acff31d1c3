#include "tier/disk_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tensor/kv_type.h"

namespace kvik {
namespace {

constexpr int64_t kIndexVersion = 2;

// WAL mode: a commit is one append, which survives the death of the process. A power failure may
// lose the last commits, but never one in the middle. Frequent checkpoints keep the log small.
constexpr const char* kSettings =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 64;"
    "PRAGMA journal_size_limit = 262144; PRAGMA cell_size_check = ON; PRAGMA cache_size = -2048;"
    "PRAGMA trusted_schema = OFF";

constexpr const char* kSchema =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS page ("
    " key BLOB NOT NULL, grp INTEGER NOT NULL, parent BLOB NOT NULL, root BLOB NOT NULL,"
    " tokens BLOB NOT NULL, slot INTEGER NOT NULL, slot_bytes INTEGER NOT NULL,"
    " n_bytes INTEGER NOT NULL, n_children INTEGER NOT NULL, last_use INTEGER NOT NULL,"
    " known INTEGER NOT NULL,"
    " PRIMARY KEY (key, grp)) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS page_parent ON page (parent, grp, known);"
    "CREATE INDEX IF NOT EXISTS page_leaf ON page (slot_bytes, last_use) WHERE n_children = 0;"
    "CREATE UNIQUE INDEX IF NOT EXISTS page_slot ON page (slot);"
    "PRAGMA user_version = 2;"
    "COMMIT";

std::span<const std::byte> bytes_of(const PageKey& key) { return key.bytes; }

int64_t number_of(SlotId slot) {
  return static_cast<int64_t>(uint64_t{slot.segment} << 32 | slot.slot);
}

int64_t number_of(SharingMark known) { return static_cast<int64_t>(known); }

SlotId slot_of(int64_t number) {
  const auto word = static_cast<uint64_t>(number);
  return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)};
}

// Returns the key of a row; for a damaged row a key that no page has.
PageKey key_of(std::span<const std::byte> bytes) {
  PageKey key;
  if (bytes.size() == sizeof(PageKey)) std::memcpy(key.bytes.data(), bytes.data(), bytes.size());
  return key;
}

}  // namespace

const char* DiskIndex::sql_of(Query query) {
  switch (query) {
    case kFind:
      return "SELECT key, parent, grp, slot, n_bytes, last_use, known FROM page WHERE key = ? AND "
             "grp = ?";
    case kChildren:
      return "SELECT key, tokens FROM page WHERE parent = ? AND grp = ? ORDER BY last_use DESC "
             "LIMIT ?";
    case kChildrenFor:  // -1: SharingMark::kAll
      return "SELECT key, tokens FROM page WHERE parent = ? AND grp = ? AND known IN (-1, ?) "
             "ORDER BY last_use DESC LIMIT ?";
    case kOldestLeaves:
      return "SELECT key, parent, grp, slot, n_bytes, last_use, known FROM page WHERE slot_bytes = "
             "? AND "
             "n_children = 0 ORDER BY last_use LIMIT ?";
    case kLastUseOfSegment:
      return "SELECT COUNT(*), MAX(last_use) FROM page WHERE slot >= ? AND slot < ?";
    case kRowsOfSegment:
      return "SELECT key, parent, grp, slot, n_bytes, last_use, known FROM page WHERE slot >= ? "
             "AND "
             "slot < ?";
    case kInsert:
      return "INSERT OR REPLACE INTO page (key, grp, parent, root, tokens, slot, slot_bytes, "
             "n_bytes, last_use, known, n_children) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
             "?10, "
             "(SELECT COUNT(*) FROM page WHERE parent = ?1 AND grp = ?2))";
    case kRemove:
      return "DELETE FROM page WHERE key = ? AND grp = ?";
    case kTouch:
      return "UPDATE page SET last_use = ? WHERE key = ? AND grp = ?";
    case kMark:
      return "UPDATE page SET known = ? WHERE key = ? AND grp = ?";
    case kAddChild:
      return "UPDATE page SET n_children = n_children + ? WHERE key = ? AND grp = ?";
    case kTotals:
      return "SELECT COUNT(*), IFNULL(SUM(n_bytes), 0), IFNULL(SUM(length(tokens) < 128), 0), "
             "COUNT(DISTINCT root), IFNULL(SUM(length(tokens) / 4), 0), IFNULL(MAX(last_use), 0) "
             "FROM page";
    case kNumQueries:
      break;
  }
  return "";
}

Result<DiskIndex> DiskIndex::open(const std::string& path, Sqlite::Mode mode) {
  TRY_ASSIGN(Sqlite database, Sqlite::open(path, mode));
  DiskIndex index(std::move(database));
  TRY_ASSIGN(auto version, SqliteStatement::prepare(*index.database_, "PRAGMA user_version"));
  TRY_ASSIGN(const bool has_row, version.step());
  const int64_t number = has_row ? version.number(0) : 0;
  version.reset();
  if (number != 0 && number != kIndexVersion) {
    return fail(ErrorCode::kCorrupt, fmt::format("the index '{}' is of version {}, expected {}",
                                                 path, number, kIndexVersion));
  }
  TRY_ASSIGN(const auto found, schema_of(*index.database_));
  TRY_ASSIGN(const auto ours, schema_made_by(kSchema));
  if (found != ours && !found.empty()) {
    return fail(ErrorCode::kCorrupt, fmt::format("the index '{}' has an unexpected schema", path));
  }
  if (mode == Sqlite::Mode::kReadWrite) {
    TRY(index.database_->run(kSettings));
    TRY(index.database_->run(kSchema));
  }
  return index;
}

void DiskIndex::expect_rows(uint64_t n_rows) {
  // bound for the most expensive statement that visits all rows
  constexpr uint64_t kStepsOfRow = 500;
  database_->set_step_limit(Sqlite::kDefaultStepLimit + kStepsOfRow * n_rows);
}

Result<SqliteStatement*> DiskIndex::query(Query which) {
  auto& statement = statements_[which];
  if (!statement) {
    TRY_ASSIGN(statement, SqliteStatement::prepare(*database_, sql_of(which)));
  }
  return &*statement;
}

Result<std::vector<DiskIndex::Row>> DiskIndex::rows(SqliteStatement& statement) {
  std::vector<Row> found;
  while (true) {
    TRY_ASSIGN(const bool has_row, statement.step());
    if (!has_row) return found;
    found.push_back({.key = key_of(statement.bytes(0)),
                     .parent = key_of(statement.bytes(1)),
                     .group = static_cast<uint32_t>(statement.number(2)),
                     .slot = slot_of(statement.number(3)),
                     .n_bytes = static_cast<uint64_t>(statement.number(4)),
                     .last_use = static_cast<uint64_t>(statement.number(5)),
                     .known = SharingMark{static_cast<uint64_t>(statement.number(6))}});
  }
}

Result<std::optional<DiskIndex::Row>> DiskIndex::find(const PageKey& key, uint32_t group) {
  TRY_ASSIGN(SqliteStatement * statement, query(kFind));
  statement->bind(bytes_of(key)).bind(group);
  TRY_ASSIGN(const auto found, rows(*statement));
  if (found.empty()) return std::optional<Row>();
  return std::optional<Row>(found.front());
}

Result<std::vector<Tier::Child>> DiskIndex::children(const PageKey& parent, uint32_t group,
                                                     SharingMark reader, size_t limit) {
  const bool finds_all = reader == SharingMark::kAll;
  TRY_ASSIGN(SqliteStatement * statement, query(finds_all ? kChildren : kChildrenFor));
  statement->bind(bytes_of(parent)).bind(group);
  if (!finds_all) statement->bind(number_of(reader));
  statement->bind(static_cast<int64_t>(limit));
  std::vector<Tier::Child> found;
  while (true) {
    TRY_ASSIGN(const bool has_row, statement->step());
    if (!has_row) return found;
    const auto bytes = statement->bytes(1);
    if (bytes.empty() || bytes.size() % sizeof(TokenId) != 0 ||
        bytes.size() > kPageTokens * sizeof(TokenId)) {
      continue;
    }
    Tier::Child child{.key = key_of(statement->bytes(0)),
                      .tokens = std::vector<TokenId>(bytes.size() / sizeof(TokenId))};
    std::memcpy(child.tokens.data(), bytes.data(), bytes.size());
    found.push_back(std::move(child));
  }
}

Result<std::vector<DiskIndex::Row>> DiskIndex::oldest_leaves(uint64_t slot_bytes, size_t limit) {
  TRY_ASSIGN(SqliteStatement * statement, query(kOldestLeaves));
  statement->bind(static_cast<int64_t>(slot_bytes)).bind(static_cast<int64_t>(limit));
  return rows(*statement);
}

Result<std::optional<uint64_t>> DiskIndex::last_use_of_segment(uint32_t segment) {
  TRY_ASSIGN(SqliteStatement * statement, query(kLastUseOfSegment));
  statement->bind(number_of({segment, 0})).bind(number_of({segment + 1, 0}));
  TRY_ASSIGN(const bool has_row, statement->step());
  std::optional<uint64_t> last_use;
  if (has_row && statement->number(0) > 0) last_use = static_cast<uint64_t>(statement->number(1));
  statement->reset();
  return last_use;
}

Result<std::vector<DiskIndex::Row>> DiskIndex::rows_of_segment(uint32_t segment) {
  TRY_ASSIGN(SqliteStatement * statement, query(kRowsOfSegment));
  statement->bind(number_of({segment, 0})).bind(number_of({segment + 1, 0}));
  return rows(*statement);
}

Result<DiskIndex::Totals> DiskIndex::totals() {
  TRY_ASSIGN(SqliteStatement * statement, query(kTotals));
  TRY_ASSIGN(const bool has_row, statement->step());
  Totals totals;
  if (has_row) {
    totals = {.n_pages = static_cast<uint64_t>(statement->number(0)),
              .n_bytes = static_cast<uint64_t>(statement->number(1)),
              .n_tails = static_cast<uint64_t>(statement->number(2)),
              .n_roots = static_cast<uint64_t>(statement->number(3)),
              .n_tokens = static_cast<uint64_t>(statement->number(4)),
              .last_use = static_cast<uint64_t>(statement->number(5))};
  }
  statement->reset();
  return totals;
}

Result<void> DiskIndex::insert(const TierPage& page, SlotId slot, uint64_t slot_bytes,
                               uint64_t n_bytes, uint64_t last_use) {
  TRY_ASSIGN(SqliteStatement * statement, query(kInsert));
  statement->bind(bytes_of(page.key))
      .bind(page.group)
      .bind(bytes_of(page.parent))
      .bind(bytes_of(page.root))
      .bind(std::as_bytes(std::span(page.tokens)))
      .bind(number_of(slot))
      .bind(static_cast<int64_t>(slot_bytes))
      .bind(static_cast<int64_t>(n_bytes))
      .bind(static_cast<int64_t>(last_use))
      .bind(number_of(page.known));
  TRY(statement->run());
  TRY_ASSIGN(SqliteStatement * above, query(kAddChild));
  return above->bind(int64_t{1}).bind(bytes_of(page.parent)).bind(page.group).run();
}

Result<void> DiskIndex::remove(const Row& row) {
  TRY_ASSIGN(SqliteStatement * statement, query(kRemove));
  TRY(statement->bind(bytes_of(row.key)).bind(row.group).run());
  TRY_ASSIGN(SqliteStatement * above, query(kAddChild));
  return above->bind(int64_t{-1}).bind(bytes_of(row.parent)).bind(row.group).run();
}

Result<void> DiskIndex::touch(const PageKey& key, uint32_t group, uint64_t last_use) {
  TRY_ASSIGN(SqliteStatement * statement, query(kTouch));
  return statement->bind(static_cast<int64_t>(last_use)).bind(bytes_of(key)).bind(group).run();
}

Result<void> DiskIndex::mark(const PageKey& key, uint32_t group, SharingMark known) {
  TRY_ASSIGN(SqliteStatement * statement, query(kMark));
  return statement->bind(number_of(known)).bind(bytes_of(key)).bind(group).run();
}

Result<void> DiskIndex::compact() {
  return database_->run("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
}

Result<void> DiskIndex::in_transaction(const std::function<Result<void>()>& change) {
  TRY(database_->run("BEGIN IMMEDIATE"));
  Result<void> done = change();
  if (done) done = database_->run("COMMIT");
  if (!done) {
    // If even this fails, the database has rolled back already.
    static_cast<void>(database_->run("ROLLBACK"));
  }
  return done;
}

}  // namespace kvik
