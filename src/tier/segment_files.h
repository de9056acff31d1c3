#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// The system calls that segment files need, so that a test can let them fail.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  // Each returns 0 or an errno.
  virtual int allocate(int fd, uint64_t n_bytes);
  virtual int read(int fd, std::span<std::byte> bytes, uint64_t offset);
  virtual int write(int fd, std::span<const std::byte> bytes, uint64_t offset);
  virtual int sync(int fd);
};
FileCalls& posix_file_calls();

// Location of a page.
struct SlotId {
  uint32_t segment = 0;
  uint32_t slot = 0;

  friend auto operator<=>(const SlotId&, const SlotId&) = default;
};

// Preallocated files with slots of one size each: NUMBER-SLOTBYTES.segment. Uses direct I/O if the
// file system supports it, because caching pages in memory is the KV cache's task. Not thread-safe,
// except for read(), write() and sync() of a File.
class SegmentFiles {
 public:
  static constexpr size_t kAlignment = 4096;  // of memory, slots and offsets
  // Maximum size of a segment with several slots. A file that claims to be longer is ignored, at no
  // cost.
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  class File {
   public:
    File(FileCalls& calls, FileDescriptor file, std::string path)
        : calls_(calls), file_(std::move(file)), path_(std::move(path)) {}
    int fd() const { return file_.get(); }
    Result<void> read(std::span<std::byte> bytes, uint64_t offset) const;
    Result<void> write(std::span<const std::byte> bytes, uint64_t offset) const;
    Result<void> sync() const;

   private:
    friend class SegmentFiles;
    Result<void> report(int error, const char* what) const;

    FileCalls& calls_;
    FileDescriptor file_;
    std::string path_;
  };

  struct Segment {
    uint64_t slot_bytes = 0;
    uint32_t n_slots = 0;
    // Shared with readers and writers that are active while the segment is removed.
    std::shared_ptr<const File> file;

    uint64_t n_bytes() const { return slot_bytes * n_slots; }
  };

  enum class Mode { kReadOnly, kReadWrite };
  // Opens all segments of a folder. Other files are ignored; those with a segment's name (folders,
  // links, pipes, files that are too long or cannot be opened) are also logged.
  static Result<SegmentFiles> open(FileCalls& calls, const std::string& folder, Mode mode);

  const std::map<uint32_t, Segment>& segments() const { return segments_; }
  const Segment* find(uint32_t id) const;
  uint64_t n_bytes() const { return n_bytes_; }
  uint64_t n_slots() const;

  // Adds a segment, with all of its bytes reserved on the device.
  Result<uint32_t> add(uint64_t slot_bytes, uint32_t n_slots);
  Result<void> remove(uint32_t id);

 private:
  SegmentFiles(FileCalls& calls, std::string folder) : calls_(&calls), folder_(std::move(folder)) {}
  std::string path_of(uint32_t id, uint64_t slot_bytes) const;

  FileCalls* calls_;
  std::string folder_;
  std::map<uint32_t, Segment> segments_;
  uint64_t n_bytes_ = 0;
};

}  // namespace kvik
