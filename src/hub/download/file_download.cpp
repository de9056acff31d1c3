#include "hub/download/file_download.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include "base/file/atomic_file.h"
#include "base/file/file_descriptor.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/quantity.h"
#include "hub/download/file_lock.h"
#include "hub/download/prefix_hash.h"
#include "hub/download/range_download.h"

namespace kvik {
namespace {

// Files that are requested as a whole: those of at most this size, and those of a Git repository.
constexpr uint64_t kMaxSmallBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxGitBytes = uint64_t{64} << 20;
constexpr Duration kReportInterval = std::chrono::milliseconds(100);

std::string sha256_of(std::string_view bytes) {
  Sha256 digest;
  digest.add(std::as_bytes(std::span(bytes)));
  return to_hex(digest.finish());
}

std::unexpected<Error> wrong_bytes(const FileSource& source, const std::string& what) {
  return fail(ErrorCode::kIo,
              fmt::format("'{}': {}; the bytes are discarded", printable(source.name), what));
}

// Limits how often a progress is reported, except for a new status.
class ProgressReport {
 public:
  ProgressReport(const OnProgress& on_progress, const FileSource& source)
      : on_progress_(on_progress),
        progress_{.status = "", .digest = source.sha256, .n_total = source.n_bytes.value_or(0)} {}

  void set_total(uint64_t n_bytes) { progress_.n_total = n_bytes; }
  void set_status(std::string status) {
    progress_.status = std::move(status);
    last_ = {};
  }
  // Returns false if the download shall stop.
  bool show(uint64_t n_done) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (last_ != TimePoint{} && now - last_ < kReportInterval) return true;
    last_ = now;
    progress_.n_done = n_done;
    return on_progress_(progress_);
  }

 private:
  const OnProgress& on_progress_;
  PullProgress progress_;
  TimePoint last_{};
};

Result<void> verify_text(const FileSource& source, const std::string& bytes) {
  if (source.n_bytes && bytes.size() != *source.n_bytes) {
    return wrong_bytes(source,
                       fmt::format("{} bytes arrived, expected {}", bytes.size(), *source.n_bytes));
  }
  if (!source.sha256.empty() && sha256_of(bytes) != source.sha256) {
    return wrong_bytes(
        source, fmt::format("the SHA-256 is {}, expected {}", sha256_of(bytes), source.sha256));
  }
  if (source.sha256.empty() && !source.git_id.empty() && git_blob_id(bytes) != source.git_id) {
    return wrong_bytes(source, fmt::format("the Git object id is {}, expected {}",
                                           git_blob_id(bytes), source.git_id));
  }
  return {};
}

Result<void> download_small(HttpSession& session, const FileSource& source, const FilePlace& place,
                            ProgressReport& report) {
  report.set_status("downloading " + source.name);
  const uint64_t n_max = source.n_bytes.value_or(kMaxSmallBytes);
  TRY_ASSIGN(const HttpBody body, http_get(session, {.url = source.url, .bearer = source.bearer},
                                           n_max, [&] { return report.show(0); }));
  if (body.reply.status != 200) return std::unexpected(status_error(body.reply, source.name));
  TRY(verify_text(source, body.bytes));
  return write_atomically(place.path, body.bytes, 0666);
}

// Downloads one large file under its lock.
class LargeDownload {
 public:
  LargeDownload(HttpSession& session, const FileSource& source, const FilePlace& place,
                const HubOptions& options, ProgressReport& report)
      : session_(session), source_(source), place_(place), options_(options), report_(report) {}

  Result<void> run() {
    report_.set_status("downloading " + source_.name);
    TRY_ASSIGN(facts_, find_file_facts(session_, source_, [&] { return report_.show(0); }));
    TRY(check_facts());
    if (facts_.n_bytes) report_.set_total(*facts_.n_bytes);
    TRY_ASSIGN(bool is_valid, download_and_verify());
    // The bytes of an earlier download may have been damaged meanwhile.
    if (!is_valid && was_resumed_) {
      TRY_ASSIGN(is_valid, download_and_verify());
    }
    if (!is_valid) {
      return wrong_bytes(
          source_, fmt::format("the SHA-256 is {}, expected {}", found_sha256_, expected_sha256()));
    }
    if (::rename(place_.part_path.c_str(), place_.path.c_str()) == 0) return {};
    return fail(ErrorCode::kIo, fmt::format("cannot rename '{}' to '{}': {}", place_.part_path,
                                            place_.path, std::strerror(errno)));
  }

 private:
  const std::string& expected_sha256() const {
    return source_.sha256.empty() ? facts_.sha256 : source_.sha256;
  }

  Result<void> check_facts() const {
    if (source_.n_bytes && facts_.n_bytes && *source_.n_bytes != *facts_.n_bytes) {
      return wrong_bytes(source_, fmt::format("the server has {} bytes, expected {}",
                                              *facts_.n_bytes, *source_.n_bytes));
    }
    if (facts_.n_bytes.value_or(0) > kMaxFileBytes) {
      return wrong_bytes(source_,
                         fmt::format("the server names a size of {} bytes, expected at most {}",
                                     *facts_.n_bytes, kMaxFileBytes));
    }
    return {};
  }

  // Returns whether the hash is the expected one; the bytes are discarded if it is not.
  Result<bool> download_and_verify() {
    TRY_ASSIGN(PartFile part, open_part());
    was_resumed_ = part.was_resumed();
    const auto on_bytes = [&](uint64_t n_done) { return report_.show(n_done); };
    report_.set_status("downloading " + source_.name);
    bool has_ranges = facts_.has_ranges && facts_.n_bytes;
    std::unique_ptr<PrefixHash> hash;
    if (has_ranges) {
      if (!expected_sha256().empty()) {
        TRY_ASSIGN(hash, PrefixHash::start(part.descriptor(), part.size()));
      }
      RangeDownload ranges(session_, source_, facts_, part, hash.get());
      TRY_ASSIGN(has_ranges, ranges.run(options_.n_connections, on_bytes));
    }
    if (!has_ranges && !(facts_.n_bytes && part.is_complete())) {
      hash.reset();
      TRY(download_whole(session_, source_, facts_, part, on_bytes));
    }
    if (!expected_sha256().empty()) {
      report_.set_status("verifying " + source_.name);
      if (!on_bytes(part.size())) return fail(ErrorCode::kIo, "the download was stopped");
      if (!hash) {
        TRY_ASSIGN(hash, PrefixHash::start(part.descriptor(), part.size()));
      }
      TRY_ASSIGN(found_sha256_, hash->finish(on_bytes));
      if (found_sha256_ != expected_sha256()) {
        ::unlink(place_.part_path.c_str());
        return false;
      }
    }
    TRY(part.finish());
    return true;
  }

  Result<PartFile> open_part() const {
    if (!facts_.n_bytes) return PartFile::create_unsized(place_.part_path);
    const std::string& hash = expected_sha256();
    return PartFile::open(
        place_.part_path, *facts_.n_bytes,
        hash.empty() ? fmt::format("{} {}", source_.url, facts_.validator) : hash);
  }

  HttpSession& session_;
  const FileSource& source_;
  const FilePlace& place_;
  const HubOptions& options_;
  ProgressReport& report_;
  FileFacts facts_ = {};
  std::string found_sha256_;
  bool was_resumed_ = false;
};

bool is_there(const FileSource& source, const std::string& path) {
  std::error_code error;
  const uint64_t n_bytes = std::filesystem::file_size(path, error);
  return !error && (!source.n_bytes || n_bytes == *source.n_bytes);
}

}  // namespace

Result<void> download_file(HttpSession& session, const FileSource& source, const FilePlace& place,
                           const HubOptions& options, const OnProgress& on_progress) {
  if (is_there(source, place.path)) return {};
  ProgressReport report(on_progress, source);
  TRY(make_folders(std::filesystem::path(place.path).parent_path().string()));
  TRY_ASSIGN(auto lock, FileLock::try_lock(place.lock_path));
  if (!lock) report.set_status(fmt::format("waiting for another download of {}", source.name));
  while (!lock) {
    if (!wait_for_retry(std::chrono::milliseconds(200), [&] { return report.show(0); })) {
      return fail(ErrorCode::kIo, "the download was stopped");
    }
    TRY_ASSIGN(lock, FileLock::try_lock(place.lock_path));
  }
  if (is_there(source, place.path)) return {};
  const uint64_t n_most_small =
      source.sha256.empty() && !source.git_id.empty() ? kMaxGitBytes : kMaxSmallBytes;
  if (source.n_bytes && *source.n_bytes <= n_most_small)
    return download_small(session, source, place, report);
  return LargeDownload(session, source, place, options, report).run();
}

Error status_error(const HttpReply& reply, const std::string& what) {
  const std::string name = printable(what);
  switch (reply.status) {
    case 401:
      return {
          ErrorCode::kNotFound,
          fmt::format(
              "the hub answers 401 for '{}': it does not exist, or HF_TOKEN needs to be a token "
              "that may read it",
              name)};
    case 403:
      return {
          ErrorCode::kNotFound,
          fmt::format(
              "the hub answers 403 for '{}': accept its terms on its page, and set HF_TOKEN to a "
              "token that may read it",
              name)};
    case 404:
    case 410:
      return {ErrorCode::kNotFound, fmt::format("the hub has no '{}'", name)};
    case 429:
      return {ErrorCode::kIo,
              fmt::format("the hub answers 429 for '{}', too many requests: try again later, or "
                          "set HF_TOKEN",
                          name)};
    default:
      return {ErrorCode::kIo, fmt::format("the hub answers {} for '{}'", reply.status, name)};
  }
}

}  // namespace kvik
