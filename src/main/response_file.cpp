#include "main/response_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr size_t kPartBytes = size_t{512} << 10;  // of a record, in one row
constexpr size_t kMaxRecordBytes = size_t{64} << 20;
constexpr size_t kMaxWaitingBytes = size_t{16} << 20;
constexpr const char* kSettings =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cell_size_check = ON; "
    "PRAGMA cache_size = -2048; PRAGMA trusted_schema = OFF";
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS response (number INTEGER PRIMARY KEY, id BLOB UNIQUE NOT NULL);"
    "CREATE TABLE IF NOT EXISTS part (number INTEGER NOT NULL, place INTEGER NOT NULL, "
    "bytes BLOB NOT NULL, PRIMARY KEY (number, place)) WITHOUT ROWID";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Texts one after the other, each behind its length.
class RecordWriter {
 public:
  void text(std::string_view text) {
    number(text.size());
    bytes_ += text;
  }
  void number(uint64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : rest_(bytes) {}

  std::string text() {
    const uint64_t n = number();
    if (n > rest_.size()) is_whole_ = false;
    if (!is_whole_) return {};
    std::string text(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return text;
  }
  uint64_t number() {
    uint64_t number = 0;
    if (rest_.size() < sizeof(number)) is_whole_ = false;
    if (!is_whole_) return 0;
    std::memcpy(&number, rest_.data(), sizeof(number));
    rest_.remove_prefix(sizeof(number));
    return number;
  }
  bool is_whole() const { return is_whole_; }
  size_t n_left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool is_whole_ = true;
};

std::string encoded(const ResponseStore::Record& record) {
  RecordWriter out;
  out.text(record.owner);
  out.text(record.previous);
  out.text(record.response);
  out.number(record.items.size());
  for (const std::string& item : record.items) out.text(item);
  for (const std::string& id : record.item_ids) out.text(id);
  return std::move(out).take();
}

std::optional<ResponseStore::Record> decoded(std::string_view bytes) {
  RecordReader in(bytes);
  ResponseStore::Record record;
  record.owner = in.text();
  record.previous = in.text();
  record.response = in.text();
  const uint64_t n_items = in.number();
  if (n_items > in.n_left()) return std::nullopt;
  for (uint64_t i = 0; i < n_items; ++i) record.items.push_back(in.text());
  for (uint64_t i = 0; i < n_items; ++i) record.item_ids.push_back(in.text());
  if (!in.is_whole() || in.n_left() > 0) return std::nullopt;
  return record;
}

}  // namespace

ResponseFile::ResponseFile(Sqlite database) : database_(std::move(database)) {
  constexpr uint64_t kPatience = 1'000'000'000;  // all of a file of 64 MiB is read at once
  database_.set_patience(kPatience);
}

Result<std::unique_ptr<ResponseFile>> ResponseFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) {
    return fail(ErrorCode::kIo,
                fmt::format("'{}' can not be opened: {}", path, std::strerror(errno)));
  }
  ::close(file);
  TRY_ASSIGN(Sqlite database, Sqlite::open(path, Sqlite::Mode::kReadWrite));
  TRY(database.run(kSettings));
  TRY(database.run(kSchema));
  std::unique_ptr<ResponseFile> out(new ResponseFile(std::move(database)));
  return out;
}

std::unique_ptr<ResponseFile> ResponseFile::open_or_warn(const std::string& path) {
  auto file = open(path);
  if (file) return std::move(*file);
  log::warn("responses are kept in memory alone: {}", file.error().message);
  return nullptr;
}

ResponseFile::~ResponseFile() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  join_if_started(writer_);
}

Result<void> ResponseFile::read(
    const std::function<void(std::string id, ResponseStore::Record)>& take) {
  TRY_ASSIGN(auto rows, SqliteStatement::prepare(
                            database_, "SELECT number, id FROM response ORDER BY number"));
  TRY_ASSIGN(auto parts, SqliteStatement::prepare(
                             database_, "SELECT bytes FROM part WHERE number = ? ORDER BY place"));
  for (;;) {
    TRY_ASSIGN(const bool has_row, rows.step());
    if (!has_row) return {};
    const int64_t number = rows.number(0);
    std::string id = text_of(rows.bytes(1));
    next_number_ = std::max(next_number_, number + 1);
    std::string bytes;
    parts.bind(number);
    for (;;) {
      TRY_ASSIGN(const bool has_part, parts.step());
      if (!has_part) break;
      if (bytes.size() <= kMaxRecordBytes) bytes += text_of(parts.bytes(0));
    }
    auto record = decoded(bytes);
    if (record) take(std::move(id), std::move(*record));
  }
}

void ResponseFile::load(const std::function<void(std::string id, ResponseStore::Record)>& take) {
  if (const auto done = read(take); !done) {
    log::warn("not all responses of before are there: {}", done.error().message);
  }
  auto writer = start_thread("kvik-responses", [this] { write_changes(); });
  if (writer) writer_ = std::move(*writer);
}

void ResponseFile::put(const std::string& id, const ResponseStore::Record& record) {
  add({id, encoded(record)});
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
  bool has_warned = false;
  for (;;) {
    std::deque<Change> changes;
    {
      const MutexLock lock(mutex_);
      wake_.wait(mutex_, [this]() REQUIRES(mutex_) { return !waiting_.empty() || is_ending_; });
      if (waiting_.empty()) return;
      changes.swap(waiting_);
    }
    for (Change& change : changes) {
      const auto written = write(change);
      forget(std::exchange(change, {}));
      if (written || has_warned) continue;
      has_warned = true;
      log::warn("a response is kept in memory alone: {}", written.error().message);
    }
  }
}

Result<void> ResponseFile::write(const Change& change) {
  TRY(database_.run("BEGIN IMMEDIATE"));
  const auto work = [&]() -> Result<void> {
    TRY_ASSIGN(auto drop_parts,
               SqliteStatement::prepare(database_,
                                        "DELETE FROM part WHERE number IN "
                                        "(SELECT number FROM response WHERE id = ?)"));
    TRY(drop_parts.bind(bytes_of(change.id)).run());
    TRY_ASSIGN(auto drop, SqliteStatement::prepare(database_, "DELETE FROM response WHERE id = ?"));
    TRY(drop.bind(bytes_of(change.id)).run());
    if (!change.bytes) return {};
    TRY_ASSIGN(auto add, SqliteStatement::prepare(
                             database_, "INSERT INTO response (number, id) VALUES (?, ?)"));
    const int64_t number = next_number_++;
    TRY(add.bind(number).bind(bytes_of(change.id)).run());
    TRY_ASSIGN(auto add_part,
               SqliteStatement::prepare(
                   database_, "INSERT INTO part (number, place, bytes) VALUES (?, ?, ?)"));
    const std::string_view all = *change.bytes;
    for (size_t at = 0, place = 0; at < all.size(); at += kPartBytes, ++place) {
      const std::string_view part = all.substr(at, kPartBytes);
      TRY(add_part.bind(number).bind(static_cast<int64_t>(place)).bind(bytes_of(part)).run());
    }
    return {};
  };
  const auto done = work();
  if (done) return database_.run("COMMIT");
  static_cast<void>(database_.run("ROLLBACK"));
  return done;
}

}  // namespace kvik
