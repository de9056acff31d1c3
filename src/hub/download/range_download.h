#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/download/file_download.h"
#include "hub/download/part_file.h"
#include "hub/download/prefix_hash.h"

namespace kvik {

// Facts about a file in the first answer of a server.
struct FileFacts {
  std::string url;                  // after redirects
  std::optional<uint64_t> n_bytes;  // std::nullopt: unknown
  bool has_ranges = false;          // the server answers range requests
  std::string validator;            // ETag or Last-Modified; empty: none
  std::string sha256;               // X-Linked-Etag; empty: none
};

// Requests the first byte of a file. Errors: status_error(), kIo.
Result<FileFacts> find_file_facts(HttpSession& session, const FileSource& source,
                                  const KeepGoing& keep_going);

// Downloads the missing chunks of a file by parallel range requests. Broken, stalled and truncated
// answers are requested again from where they ended.
class RangeDownload {
 public:
  using OnBytes = std::function<bool(uint64_t n_done)>;  // false: stop

  // hash: receives the number of complete bytes; null: the file has no hash to compare.
  RangeDownload(HttpSession& session, const FileSource& source, FileFacts facts, PartFile& part,
                PrefixHash* hash);

  // Returns false if the server answers ranges no longer. Errors: kNotFound, kIo.
  Result<bool> run(uint32_t n_connections, const OnBytes& on_bytes);

 private:
  struct Range {
    std::unique_ptr<HttpTransfer> transfer;  // null: waits to be requested (again)
    uint64_t begin, at, end;                 // first byte, next byte, byte after the last
    bool is_valid = false;                   // the answer has the requested bytes
  };

  // Starts transfers for chunks that are neither complete nor in progress.
  void start_ranges();
  std::unique_ptr<Range> next_range() const;
  void start(Range& range);
  bool take(Range& range, const HttpReply& reply, std::span<const std::byte> bytes);
  Result<void> finish_ended();
  Result<void> on_failure(const Range& range, const HttpTransfer& transfer);
  Result<void> save();
  uint64_t done_bytes() const;

  HttpSession& session_;
  const FileSource& source_;
  FileFacts facts_;
  PartFile& part_;
  PrefixHash* const hash_;
  uint32_t n_connections_ = 1;
  std::vector<std::unique_ptr<Range>> ranges_;
  TimePoint not_before_{};
  int n_failed_ = 0;     // since the last byte
  int n_refreshed_ = 0;  // redirects that were requested again
  bool has_lost_ranges_ = false;
  std::optional<Error> write_error_;
  KeepGoing keep_going_;
};

// Downloads a file from its first to its last byte by one request, from the beginning again if it
// breaks. Errors: kNotFound, kIo.
Result<void> download_whole(HttpSession& session, const FileSource& source, const FileFacts& facts,
                            PartFile& part, const RangeDownload::OnBytes& on_bytes);

}  // namespace kvik
