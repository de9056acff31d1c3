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

// The few calls that segment files need of the operating system, so that a test can let them fail.
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

// Where a page lies.
struct SlotId {
  uint32_t segment = 0;
  uint32_t slot = 0;

  friend auto operator<=>(const SlotId&, const SlotId&) = default;
};

// Preallocated files of slots of one size each: NUMBER-SLOTBYTES.segment. Reads and writes pass the
// system's page cache by where the file system lets them: what is in memory is the cache's
// business. Not for several threads, but for read(), write() and sync() of a File.
class SegmentFiles {
 public:
  static constexpr size_t kAlignment = 4096;  // of memory, slots and offsets
  // Of a segment with more slots than one. What says that it is longer is none of ours, and costs
  // whoever put it there nothing.
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
    // Shared with whoever reads or writes while the segment is removed.
    std::shared_ptr<const File> file;

    uint64_t n_bytes() const { return slot_bytes * n_slots; }
  };

  enum class Mode { kReadOnly, kReadWrite };
  // Opens all segments of a folder. What has the name of one and is none (a folder, a link, a pipe,
  // a file that is too long or refuses to be opened) is left alone, as all other files are; the log
  // says so.
  static Result<SegmentFiles> open(FileCalls& calls, const std::string& folder, Mode mode);

  const std::map<uint32_t, Segment>& segments() const { return segments_; }
  const Segment* find(uint32_t id) const;
  uint64_t n_bytes() const { return n_bytes_; }
  uint64_t n_slots() const;

  // Another segment, with all of its bytes reserved on the device.
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
