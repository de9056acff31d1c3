#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file/input_file.h"
#include "base/file/new_file.h"
#include "base/hash.h"
#include "base/result.h"
#include "kv/cache_identity.h"
#include "tier/tier.h"

namespace kvik {

// A file with the pages of a prompt's prefix, to be imported on another machine. Little endian:
//
//   header   kPrefixHeaderBytes: magic 8 · version 4 · flags 4 (1: signed) · n_records 8 ·
//            page_bytes 8 · n_tokens 8 · n_groups 4 · n_snapshot_pages 4 · layout version 4 · zero
//            4 · model 64 · KV type 16 · numerics 512 · zeros · XXH3-128 of all fields before 16 ·
//            tag 32
//   records  n_records of a page record (tier/page_record.h) and a tag 32
//
// A page is preceded by the pages of the tokens before it. All keys are those of the empty salt,
// wherever the pages come from. The tag of the header is an HMAC-SHA-256 of it, and that of a
// record one of the tag before it and of the record's SHA-256, under the key of a signed file or a
// constant: no part can be changed, moved or left out.
inline constexpr size_t kPrefixHeaderBytes = 1024;

struct PrefixFileHeader {
  CacheIdentity identity;
  uint64_t page_bytes = 0;
  uint32_t n_groups = 0;          // layer groups
  uint32_t n_snapshot_pages = 0;  // pages of a snapshot; 0: the model has none
  uint64_t n_tokens = 0;          // of the prefix
  uint64_t n_records = 0;
  bool is_signed = false;

  uint64_t record_bytes() const;  // without the tag
  friend bool operator==(const PrefixFileHeader&, const PrefixFileHeader&) = default;
};

// Maximum size of a page in a file. No model has as large ones.
inline constexpr uint64_t kMaxPrefixPageBytes = uint64_t{64} << 20;

class PrefixFileWriter {
 public:
  // Writes the header. `key` signs the file; empty: not signed. Errors: kUnsupported for an
  // identity that is too long, those of NewFile.
  static Result<PrefixFileWriter> begin(NewFile file, const PrefixFileHeader& header,
                                        std::string key);

  // Writes a record of header.record_bytes().
  Result<void> add(std::span<const std::byte> record);
  // Gives the file its name, after all records.
  Result<void> commit();

 private:
  PrefixFileWriter(NewFile file, std::string key, const Sha256Digest& tag, uint64_t n_left)
      : file_(std::move(file)), key_(std::move(key)), tag_(tag), n_left_(n_left) {}

  NewFile file_;
  std::string key_;
  Sha256Digest tag_;  // of the part written last
  uint64_t n_left_;   // records
};

// Reads a file that anybody may have written. Everything that it says is checked: lengths against
// the size of the file, tokens against keys, keys against the identity, checksums, and the tags. It
// cannot check that bytes with a right checksum are the K and V of the tokens: that is a matter of
// trust, which a key gives.
class PrefixFileReader {
 public:
  // Checks the header. `key` must be the one that signed the file; empty: the file may be signed,
  // and its signature is not checked. Errors: kNotFound, kIo, kCorrupt.
  static Result<PrefixFileReader> open(const std::string& path, std::string key);

  const PrefixFileHeader& header() const { return header_; }

  // Reads and checks the next record into header().record_bytes(); std::nullopt after the last one.
  // Errors: kCorrupt, kIo.
  Result<std::optional<TierPage>> next(std::span<std::byte> record);
  // Continues with the first record.
  void rewind();

 private:
  PrefixFileReader(InputFile file, std::string path, std::string key)
      : file_(std::move(file)), path_(std::move(path)), key_(std::move(key)) {}

  Result<void> read_header();
  std::unexpected<Error> refuse(const std::string& reason) const;
  std::unexpected<Error> refuse_record(const std::string& reason) const;
  bool checks_tags() const { return !header_.is_signed || !key_.empty(); }
  bool follows(const TierPage& page);

  InputFile file_;
  std::string path_;
  std::string key_;
  PrefixFileHeader header_;
  PageKey root_;
  Sha256Digest header_tag_{};

  uint64_t n_read_ = 0;  // records
  Sha256Digest tag_{};   // of the part read last
  // Key of the last page before the page that is being read, and of that page once it was read.
  PageKey parent_;
  std::optional<PageKey> whole_;
  uint64_t n_before_ = 0;  // tokens up to the end of `parent_`
  uint64_t n_tokens_ = 0;  // tokens of the pages read so far
};

}  // namespace kvik
