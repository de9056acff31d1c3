#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/file/input_file.h"
#include "base/memory_region.h"
#include "base/result.h"

namespace kvik {

// Memory of a released part, reused for the next one; shared by all files of a model.
using SpareRegion = std::shared_ptr<MemoryRegion>;
inline SpareRegion make_spare_region() { return std::make_shared<MemoryRegion>(); }

// The bytes of a model file, read in parts, or those of a model in memory. If the file is truncated
// meanwhile, reading a part fails. One thread at a time.
class ModelBytes {
 public:
  using Bytes = std::span<const std::byte>;
  // Maximum size of head(). It bounds what a hostile or sparse file can make us allocate.
  static constexpr uint64_t kMaxHeadBytes = uint64_t{128} << 20;

  // Borrows memory.
  explicit ModelBytes(Bytes memory)
      : memory_(memory), size_(memory.size()), spare_(make_spare_region()) {}
  ModelBytes(InputFile file, SpareRegion spare)
      : file_(std::move(file)), size_(file_->size()), spare_(std::move(spare)) {}

  uint64_t size() const { return size_; }

  // Returns the first n_bytes <= min(size(), kMaxHeadBytes). Earlier results stay valid until
  // drop_head().
  Result<Bytes> head(uint64_t n_bytes);
  void drop_head();

  // A range of the part that begins at `offset`.
  struct Range {
    uint64_t offset;
    uint64_t begin;  // within the part
    uint64_t n_bytes;
  };
  // Returns bytes aligned to `alignment`, valid until the part is read again or released.
  Result<Bytes> read(const Range& range, size_t alignment);
  void release(uint64_t offset);
  // Calls InputFile::check_unchanged().
  Result<void> check_unchanged() const { return file_ ? file_->check_unchanged() : Result<void>(); }

 private:
  struct Kept {
    MemoryRegion region;
    uint64_t begin = 0;
    uint64_t n_bytes = 0;
  };
  Result<Bytes> keep(const Range& range);

  Bytes memory_;
  std::optional<InputFile> file_;
  uint64_t size_;
  MemoryRegion head_;
  uint64_t n_head_ = 0;             // number of its bytes that were read
  std::map<uint64_t, Kept> parts_;  // parts by offset
  SpareRegion spare_;
};

}  // namespace kvik
