#include "base/file/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

#include "base/check.h"

namespace kvik {
namespace {

constexpr int kMaxValueBytes = 1 << 20;  // maximum size of a value, and of the text of a statement
constexpr int kStepsBetweenLooks = 1000;

// Returns whether the error is caused by the operating system or another process; all other errors
// mean that the file is damaged.
bool is_system_error(int code) {
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_CANTOPEN:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
    case SQLITE_PROTOCOL:
    case SQLITE_READONLY:
      return true;
    default:
      return false;
  }
}

Error error_of(sqlite3* handle, const std::string& path) {
  const int code = handle ? sqlite3_errcode(handle) & 0xff : SQLITE_NOMEM;
  if (code == SQLITE_INTERRUPT) {  // set by on_progress()
    return {.code = ErrorCode::kCorrupt,
            .message = fmt::format(
                "a query of the index '{}' takes too many steps; the file may be corrupt", path)};
  }
  return {.code = is_system_error(code) ? ErrorCode::kIo : ErrorCode::kCorrupt,
          .message = fmt::format("the index '{}': {}", path,
                                 handle ? sqlite3_errmsg(handle) : "out of memory")};
}

}  // namespace

void Sqlite::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Result<Sqlite> Sqlite::open(const std::string& path, Mode mode) {
  sqlite3* handle = nullptr;
  const int flags =
      mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Sqlite database(handle, path);
  if (code != SQLITE_OK) return std::unexpected<Error>(database.last_error());
  database.harden();
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 1000);
  return database;
}

// Disables what a malicious file could use ("Defense Against The Dark Arts" in SQLite's
// documentation).
void Sqlite::harden() {
  constexpr int kOn = 1;
  constexpr int kOff = 0;
  const auto set = [&](int what, int value) {
    sqlite3_db_config(handle_.get(), what, value, nullptr);
  };
  set(SQLITE_DBCONFIG_DEFENSIVE, kOn);
  set(SQLITE_DBCONFIG_TRUSTED_SCHEMA, kOff);
  set(SQLITE_DBCONFIG_ENABLE_TRIGGER, kOff);
  set(SQLITE_DBCONFIG_ENABLE_VIEW, kOff);
  set(SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, kOff);
  set(SQLITE_DBCONFIG_DQS_DML, kOff);
  set(SQLITE_DBCONFIG_DQS_DDL, kOff);
  sqlite3_limit(handle_.get(), SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_progress_handler(handle_.get(), kStepsBetweenLooks, on_progress, work_.get());
}

// A return value other than 0 aborts the statement.
int Sqlite::on_progress(void* work) {
  uint64_t& left = static_cast<Work*>(work)->left;
  if (left < kStepsBetweenLooks) return 1;
  left -= kStepsBetweenLooks;
  return 0;
}

int Sqlite::n_changed() const { return sqlite3_changes(handle_.get()); }

Error Sqlite::last_error() const { return error_of(handle_.get(), path_); }

Result<void> Sqlite::run(const char* sql) {
  begin_work();
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return std::unexpected<Error>(last_error());
}

Result<std::vector<std::string>> schema_of(Sqlite& database) {
  constexpr size_t kMany = 64;  // more than our own databases have
  TRY_ASSIGN(auto statement,
             SqliteStatement::prepare(database,
                                      "SELECT type || '/' || name || '/' || tbl_name || "
                                      "'/' || IFNULL(sql, '') FROM sqlite_schema"));
  std::vector<std::string> schema;
  while (schema.size() < kMany) {
    TRY_ASSIGN(const bool has_row, statement.step());
    if (!has_row) break;
    const auto text = statement.bytes(0);
    schema.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
  }
  std::ranges::sort(schema);
  return schema;
}

Result<std::vector<std::string>> schema_made_by(const char* sql) {
  TRY_ASSIGN(Sqlite database, Sqlite::open(":memory:", Sqlite::Mode::kReadWrite));
  TRY(database.run(sql));
  return schema_of(database);
}

Result<SqliteStatement> SqliteStatement::prepare(Sqlite& database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  database.begin_work();  // preparing the first statement reads the schema
  const int code = sqlite3_prepare_v3(database.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  if (code != SQLITE_OK) return std::unexpected<Error>(database.last_error());
  return SqliteStatement(database, statement);
}

SqliteStatement& SqliteStatement::bind(std::span<const std::byte> bytes) {
  CHECK(sqlite3_bind_blob(statement_.get(), ++n_bound_, bytes.data(),
                          static_cast<int>(bytes.size()), SQLITE_STATIC) == SQLITE_OK);
  return *this;
}

SqliteStatement& SqliteStatement::bind(int64_t number) {
  CHECK(sqlite3_bind_int64(statement_.get(), ++n_bound_, number) == SQLITE_OK);
  return *this;
}

Result<bool> SqliteStatement::step() {
  if (sqlite3_stmt_busy(statement_.get()) == 0) database_->begin_work();
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  const Error error = database_->last_error();  // before the reset, which clears it
  reset();
  return std::unexpected<Error>(error);
}

Result<void> SqliteStatement::run() {
  TRY_ASSIGN(const bool has_row, step());
  if (has_row) reset();
  return {};
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_.get());
  n_bound_ = 0;
}

int64_t SqliteStatement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::span<const std::byte> SqliteStatement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int n = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return {};
  return {static_cast<const std::byte*>(data), static_cast<size_t>(n)};
}

}  // namespace kvik
