#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A file that is being downloaded in any order. Behind its bytes it has a trailer that says which
// chunks of 1 MiB are complete, so that a killed download continues with the others:
//
//   [bytes: size]["KVIKPART", version u32, chunk bytes u32, size u64, SHA-256 of the id][bit per
//   chunk]
//
// One thread. The caller holds a lock on the file.
class PartFile {
 public:
  static constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

  // Opens the file of `n_bytes`; chunks of an earlier download with the same id are complete, other
  // contents are discarded. Reserves the space of the whole file. Errors: kIo, such as a full disk.
  static Result<PartFile> open(const std::string& path, uint64_t n_bytes, const std::string& id);
  // Creates an empty file whose size is not known; it cannot be continued.
  static Result<PartFile> create_unsized(const std::string& path);

  uint64_t n_chunks() const { return is_complete_.size(); }
  bool is_chunk_complete(uint64_t chunk) const { return is_complete_[chunk]; }
  bool is_complete() const { return n_complete_ == n_chunks(); }
  // Returns the bytes of all complete chunks.
  uint64_t complete_bytes() const;
  // Returns the first byte that is not in a complete chunk.
  uint64_t complete_prefix() const;
  // Returns the first byte of a chunk; the size of the file for the chunk after the last.
  uint64_t chunk_begin(uint64_t chunk) const;
  // Returns whether the file had complete chunks when it was opened.
  bool was_resumed() const { return was_resumed_; }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes);
  // Marks the chunks between two bytes as complete; `begin` is the first byte of a chunk, and the
  // chunk of `end` counts if it ends there.
  void mark_complete(uint64_t begin, uint64_t end);
  void mark_none();
  // Writes which chunks are complete, so that a process that continues after this one was killed
  // knows it. The bytes are written to the device meanwhile.
  Result<void> save();
  // Like save(), but waits until the bytes are on the device: also a crash of the system then loses
  // none. For files without a hash, because damage of them would not be detected.
  Result<void> save_durably();
  // Removes the trailer and flushes the file.
  Result<void> finish();

  int descriptor() const { return file_.get(); }
  // Size without the trailer; of a file without a known size, the bytes written so far.
  uint64_t size() const { return n_bytes_; }

 private:
  PartFile(FileDescriptor file, std::string path, uint64_t n_bytes);
  std::string trailer() const;
  Result<void> reserve(uint64_t n_bytes);
  bool read_trailer();
  std::unexpected<Error> error(const char* what) const;

  FileDescriptor file_;
  std::string path_;
  uint64_t n_bytes_;
  bool is_sized_ = true;
  std::string id_digest_;  // 32 bytes
  std::vector<bool> is_complete_;
  uint64_t n_complete_ = 0;
  mutable uint64_t n_prefix_chunks_ = 0;  // complete chunks from the first one on
  bool was_resumed_ = false;
};

}  // namespace kvik
