#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kvik {

// An SQLite database whose file may be malicious: its triggers, views and functions do not run, and
// a statement that takes too many steps is aborted. One thread at a time. Errors: kCorrupt if the
// file violates its format or needs too many steps, kIo otherwise.
class Sqlite {
 public:
  enum class Mode { kReadOnly, kReadWrite };
  static constexpr uint64_t kDefaultStepLimit = 10'000'000;  // steps, about 0.1 s

  static Result<Sqlite> open(const std::string& path, Mode mode);

  // Sets the number of steps of SQLite's virtual machine that a statement may take.
  void set_step_limit(uint64_t n_steps) { work_->patience = n_steps; }
  // Restores the step budget. Called when a statement begins.
  void begin_work() { work_->left = work_->patience; }

  // Runs statements that return no rows.
  Result<void> run(const char* sql);

  // Returns the number of rows that the last statement changed.
  int n_changed() const;

  sqlite3* handle() const { return handle_.get(); }
  Error last_error() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  struct Work {
    uint64_t patience = kDefaultStepLimit;
    uint64_t left = kDefaultStepLimit;
  };
  Sqlite(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void harden();
  static int on_progress(void* work);

  std::unique_ptr<Work> work_ = std::make_unique<Work>();  // outlives the handle
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

// Returns a sorted list with a text for each table, index, trigger and view of a database; at most
// 64, which is enough to recognize a foreign database.
Result<std::vector<std::string>> schema_of(Sqlite& database);
// Returns the same list for a new database in which the statements were run.
Result<std::vector<std::string>> schema_made_by(const char* sql);

// A prepared statement: bind values, then call step() until it returns false or fails; both reset
// it. Bound and returned values are borrowed until then.
class SqliteStatement {
 public:
  static Result<SqliteStatement> prepare(Sqlite& database, const char* sql);

  SqliteStatement& bind(std::span<const std::byte> bytes);
  SqliteStatement& bind(int64_t number);

  // Runs the statement up to its next row. Returns false if there is none.
  Result<bool> step();
  Result<void> run();
  void reset();

  // Return a column of the current row.
  int64_t number(int column) const;
  std::span<const std::byte> bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(Sqlite& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}

  Sqlite* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int n_bound_ = 0;
};

}  // namespace kvik
