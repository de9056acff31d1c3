#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kvik {

// One SQLite database. One thread at a time. Errors: kCorrupt where the file breaks its format,
// kIo for all else.
class Sqlite {
 public:
  enum class Mode { kReadOnly, kReadWrite };
  static Result<Sqlite> open(const std::string& path, Mode mode);

  // Runs statements that return no rows.
  Result<void> run(const char* sql);

  sqlite3* handle() const { return handle_.get(); }
  Error last_error() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Sqlite(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

// A prepared statement: bind, then step() until it says false or fails; both start it anew. What it
// binds and returns is borrowed until then.
class SqliteStatement {
 public:
  static Result<SqliteStatement> prepare(Sqlite& database, const char* sql);

  SqliteStatement& bind(std::span<const std::byte> bytes);
  SqliteStatement& bind(int64_t number);

  // True: there is a row to look at.
  Result<bool> step();
  Result<void> run();
  void reset();

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
