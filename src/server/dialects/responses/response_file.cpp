#include "server/dialects/responses/response_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "base/file/file_descriptor.h"
#include "base/file/private_files.h"
#include "base/file/record.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr size_t kPartBytes = size_t{512} << 10;  // maximum size of the part of a record in one row
constexpr size_t kMaxIdBytes = 256;
constexpr size_t kMaxWaitingBytes = size_t{16} << 20;
constexpr size_t kChangesAtOnce = 256;           // maximum number of changes in one transaction
constexpr std::chrono::milliseconds kIdle{100};  // between two deletions of old records
constexpr std::chrono::seconds kEndTime{3};
constexpr int64_t kVersion = 2;
constexpr const char* kSettings =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cell_size_check = ON; "
    "PRAGMA cache_size = -2048; PRAGMA trusted_schema = OFF";
constexpr const char* kSchema =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS response (number INTEGER PRIMARY KEY, id BLOB UNIQUE NOT NULL);"
    "CREATE TABLE IF NOT EXISTS part (number INTEGER NOT NULL, place INTEGER NOT NULL, "
    "bytes BLOB NOT NULL, PRIMARY KEY (number, place)) WITHOUT ROWID;"
    "PRAGMA user_version = 2;"
    "COMMIT";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr size_t kLengthBytes = sizeof(uint64_t);

// Returns the checksum of a record, which includes its id.
std::string checksum_of(std::string_view id, std::string_view record) {
  RecordWriter all;
  all.text(id);
  all.text(record);
  const std::string bytes = std::move(all).take();
  const Hash128 hash = xxh3_128(bytes_of(bytes));
  RecordWriter out;
  out.number(hash.low);
  out.number(hash.high);
  return std::move(out).take();
}

// Returns a record as stored: its fields, then its checksum.
std::string encoded(std::string_view id, const ResponseStore::Record& record) {
  RecordWriter out;
  out.text(record.owner);
  out.text(record.previous);
  out.text(record.response);
  out.number(record.items.size());
  for (const std::string& item : record.items) out.text(item);
  for (const std::string& item_id : record.item_ids) out.text(item_id);
  std::string bytes = std::move(out).take();
  return bytes + checksum_of(id, bytes);
}

// Returns whether the items that a record claims fit into n_left bytes of the file and max_bytes of
// memory, so that nothing is allocated for a false claim.
bool is_possible(uint64_t n_items, size_t n_left, size_t max_bytes) {
  constexpr size_t kItemBytes = 2 * sizeof(std::string);  // an item and its id
  return n_items <= n_left / (2 * kLengthBytes) && n_items <= max_bytes / kItemBytes;
}

std::optional<ResponseStore::Record> decoded(std::string_view id, std::string_view bytes,
                                             size_t max_bytes) {
  constexpr size_t kChecksumBytes = sizeof(Hash128);
  if (bytes.size() < kChecksumBytes || bytes.size() > max_bytes) return std::nullopt;
  const std::string_view fields = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (checksum_of(id, fields) != bytes.substr(fields.size())) return std::nullopt;
  RecordReader in(fields);
  ResponseStore::Record record;
  record.owner = in.text();
  record.previous = in.text();
  record.response = in.text();
  const uint64_t n_items = in.number();
  if (!in.is_whole() || !is_possible(n_items, in.n_left(), max_bytes)) return std::nullopt;
  for (uint64_t i = 0; i < n_items && in.is_whole(); ++i) record.items.push_back(in.text());
  for (uint64_t i = 0; i < n_items && in.is_whole(); ++i) record.item_ids.push_back(in.text());
  if (!in.is_whole() || in.n_left() > 0) return std::nullopt;
  return record;
}

Result<int64_t> version_of(Sqlite& database) {
  TRY_ASSIGN(auto statement, SqliteStatement::prepare(database, "PRAGMA user_version"));
  TRY_ASSIGN(const bool has_row, statement.step());
  return has_row ? statement.number(0) : 0;
}

// The first version had the same tables and no version number.
bool is_first_version(int64_t version, const std::vector<std::string>& found,
                      const std::vector<std::string>& ours) {
  return version == 0 && found == ours;
}

void remove_database(const std::string& path) {
  for (const char* end : {"", "-wal", "-shm"}) ::unlink((path + end).c_str());
}

}  // namespace

ResponseFile::ResponseFile(Sqlite database) : database_(std::move(database)) {
  constexpr uint64_t kMaxSteps = 1'000'000'000;  // all of a file of 64 MiB is read at once
  database_.set_step_limit(kMaxSteps);
}

Result<std::unique_ptr<ResponseFile>> ResponseFile::open(const std::string& path) {
  for (const char* end : {"", "-wal", "-shm"}) TRY(prepare_private_file(path + end));
  TRY_ASSIGN(auto file, open_database(path));
  if (file) return file;
  log::warn("'{}' has an earlier format; its responses were deleted", path);
  remove_database(path);
  TRY_ASSIGN(file, open_database(path));
  if (file) return file;
  return fail(ErrorCode::kIo, fmt::format("'{}' cannot be replaced", path));
}

// Returns null if the file is of an earlier version.
Result<std::unique_ptr<ResponseFile>> ResponseFile::open_database(const std::string& path) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  if (!FileDescriptor(::open(path.c_str(), flags, mode_t{kPrivateFile})).is_open()) {
    return fail(ErrorCode::kIo, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  TRY_ASSIGN(Sqlite database, Sqlite::open(path, Sqlite::Mode::kReadWrite));
  TRY_ASSIGN(const int64_t version, version_of(database));
  TRY_ASSIGN(const auto found, schema_of(database));
  TRY_ASSIGN(const auto ours, schema_made_by(kSchema));
  if (is_first_version(version, found, ours)) return std::unique_ptr<ResponseFile>();
  if (!found.empty() && (found != ours || version != kVersion)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is not a response file of Kvik: it has other tables", path));
  }
  TRY(database.run(kSettings));
  TRY(database.run(kSchema));
  return std::unique_ptr<ResponseFile>(new ResponseFile(std::move(database)));
}

std::unique_ptr<ResponseFile> ResponseFile::open_or_warn(const std::string& path) {
  auto file = open(path);
  if (file) return std::move(*file);
  log::warn("responses are stored in memory only: {}", file.error().message);
  return nullptr;
}

ResponseFile::~ResponseFile() {
  {
    const MutexLock lock(mutex_);
    end_ = std::chrono::steady_clock::now() + kEndTime;
  }
  wake_.notify_all();
  join_if_started(writer_);
}

// Reads the bytes of a record; none if there are more than a record can have.
Result<std::string> ResponseFile::read_parts(SqliteStatement& parts, int64_t number,
                                             size_t max_bytes) {
  std::string bytes;
  parts.bind(number).bind(static_cast<int64_t>(kPartBytes));
  for (;;) {
    TRY_ASSIGN(const bool has_part, parts.step());
    if (!has_part) return bytes;
    const auto part = parts.bytes(0);
    if (bytes.size() + part.size() > max_bytes) {
      parts.reset();
      return std::string();
    }
    bytes += text_of(part);
  }
}

// Reads from the newest record on until the bounds are reached: older ones are not accessed.
Result<void> ResponseFile::read(const ResponseStore::Bounds& bounds,
                                std::vector<Loaded>& newest_first) {
  TRY_ASSIGN(auto rows, SqliteStatement::prepare(database_,
                                                 "SELECT number, id, length(id) FROM response "
                                                 "WHERE number < 1 << 62 ORDER BY number DESC"));
  TRY_ASSIGN(auto parts, SqliteStatement::prepare(database_,
                                                  "SELECT bytes FROM part WHERE number = ? AND "
                                                  "length(bytes) <= ? ORDER BY place"));
  const size_t max_rows = 2 * bounds.total_bytes / ResponseStore::Record().n_bytes() + 1;
  std::map<std::string, size_t> bytes_of_owner;
  size_t n_bytes = 0;
  for (size_t n_rows = 0;; ++n_rows) {
    TRY_ASSIGN(const bool has_row, rows.step());
    if (!has_row) return {};
    const int64_t number = rows.number(0);
    next_number_ = std::max(next_number_, number + 1);
    std::string id = rows.number(2) <= int64_t{kMaxIdBytes} ? text_of(rows.bytes(1)) : "";
    TRY_ASSIGN(const std::string bytes, read_parts(parts, number, bounds.bytes_of_key));
    auto record = decoded(id, bytes, bounds.bytes_of_key);
    const size_t record_bytes = record ? record->n_bytes() : 0;
    if (n_bytes + record_bytes > bounds.total_bytes || n_rows >= max_rows) {
      oldest_number_ = number + 1;
      return {};
    }
    if (record && bytes_of_owner[record->owner] + record_bytes <= bounds.bytes_of_key) {
      n_bytes += record_bytes;
      bytes_of_owner[record->owner] += record_bytes;
      newest_first.push_back({std::move(id), std::move(*record)});
    } else if (!id.empty()) {
      add({std::move(id), std::nullopt});
    }
  }
}

void ResponseFile::load(const ResponseStore::Bounds& bounds,
                        const std::function<void(std::string id, ResponseStore::Record)>& take) {
  std::vector<Loaded> newest_first;
  if (const auto done = read(bounds, newest_first); !done) {
    log::warn("some stored responses cannot be read: {}", done.error().message);
  }
  for (Loaded& one : std::views::reverse(newest_first)) {
    take(std::move(one.id), std::move(one.record));
  }
  auto writer = start_thread("kvik-responses", [this] { write_changes(); });
  if (writer) writer_ = std::move(*writer);
}

void ResponseFile::put(const std::string& id, const ResponseStore::Record& record) {
  add({id, encoded(id, record)});
}

void ResponseFile::erase(const std::string& id) { add({id, std::nullopt}); }

void ResponseFile::add(Change change) {
  {
    const MutexLock lock(mutex_);
    const size_t n_bytes = change.bytes ? change.bytes->size() : 0;
    if (n_bytes > 0 && n_bytes_ + n_bytes > kMaxWaitingBytes) return;
    n_bytes_ += n_bytes;
    waiting_.push_back(std::move(change));
  }
  wake_.notify_one();
}

void ResponseFile::forget(const Change& change) {
  const MutexLock lock(mutex_);
  n_bytes_ -= change.bytes ? change.bytes->size() : 0;
}

void ResponseFile::write_changes() {
  const MutexLock lock(mutex_);
  for (;;) {
    const auto has_work = [this]() REQUIRES(mutex_) { return !waiting_.empty() || end_; };
    if (oldest_number_ == 0) {
      wake_.wait(mutex_, has_work);
    } else {
      wake_.wait_for(mutex_, kIdle, has_work);
    }
    if (end_ && (waiting_.empty() || std::chrono::steady_clock::now() >= *end_)) break;
    std::deque<Change> batch;
    while (!waiting_.empty() && batch.size() < kChangesAtOnce) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    mutex_.unlock();
    write_batch(std::move(batch));
    mutex_.lock();
  }
  if (!waiting_.empty()) log::warn("{} changes of responses are not stored", waiting_.size());
}

void ResponseFile::write_batch(std::deque<Change> batch) {
  const auto written = batch.empty() ? erase_some_old() : write_all(batch);
  for (const Change& change : batch) forget(change);
  if (written || std::exchange(has_warned_, true)) return;
  log::warn("a response is stored in memory only: {}", written.error().message);
}

// Writes all of a batch, or none.
Result<void> ResponseFile::write_all(const std::deque<Change>& batch) {
  TRY(database_.run("BEGIN IMMEDIATE"));
  for (const Change& change : batch) {
    const auto done = write(change);
    if (done) continue;
    static_cast<void>(database_.run("ROLLBACK"));
    return done;
  }
  return database_.run("COMMIT");
}

// Deletes records that load() skipped, a few at a time: there may be very many, and the end of the
// process does not wait for them.
Result<void> ResponseFile::erase_some_old() {
  if (oldest_number_ == 0) return {};
  constexpr const char* kErase[] = {
      "DELETE FROM part WHERE number IN (SELECT DISTINCT number FROM part WHERE number < ? "
      "LIMIT 500)",
      "DELETE FROM response WHERE number IN (SELECT number FROM response WHERE number < ? "
      "LIMIT 500)"};
  int n_erased = 0;
  for (const char* sql : kErase) {
    TRY_ASSIGN(auto erase, SqliteStatement::prepare(database_, sql));
    TRY(erase.bind(oldest_number_).run());
    n_erased += database_.n_changed();
  }
  if (n_erased == 0) oldest_number_ = 0;
  return {};
}

Result<void> ResponseFile::write(const Change& change) {
  TRY_ASSIGN(auto drop_parts,
             SqliteStatement::prepare(database_,
                                      "DELETE FROM part WHERE number IN "
                                      "(SELECT number FROM response WHERE id = ?)"));
  TRY(drop_parts.bind(bytes_of(change.id)).run());
  TRY_ASSIGN(auto drop, SqliteStatement::prepare(database_, "DELETE FROM response WHERE id = ?"));
  TRY(drop.bind(bytes_of(change.id)).run());
  if (!change.bytes) return {};
  TRY_ASSIGN(auto add, SqliteStatement::prepare(database_,
                                                "INSERT INTO response (number, id) VALUES (?, ?)"));
  const int64_t number = next_number_++;
  TRY(add.bind(number).bind(bytes_of(change.id)).run());
  TRY_ASSIGN(auto add_part,
             SqliteStatement::prepare(database_,
                                      "INSERT INTO part (number, place, bytes) VALUES (?, ?, ?)"));
  const std::string_view all = *change.bytes;
  for (size_t at = 0, place = 0; at < all.size(); at += kPartBytes, ++place) {
    const std::string_view part = all.substr(at, kPartBytes);
    TRY(add_part.bind(number).bind(static_cast<int64_t>(place)).bind(bytes_of(part)).run());
  }
  return {};
}

}  // namespace kvik
