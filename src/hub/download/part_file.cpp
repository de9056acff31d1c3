#include "hub/download/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/quantity.h"

namespace kvik {
namespace {

constexpr char kPartMagic[] = "KVIKPART";
constexpr uint32_t kPartVersion = 1;

void append_number(std::string& out, uint64_t number, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}

bool write_all(int fd, uint64_t offset, const char* bytes, size_t n) {
  while (n > 0) {
    const ssize_t n_written = ::pwrite(fd, bytes, n, static_cast<off_t>(offset));
    if (n_written < 0 && errno == EINTR) continue;
    if (n_written < 0) return false;
    bytes += n_written;
    offset += static_cast<uint64_t>(n_written);
    n -= static_cast<size_t>(n_written);
  }
  return true;
}

// Returns ", and N are free there" for a full file system.
std::string free_space(int fd) {
  struct statvfs about {};
  if (::fstatvfs(fd, &about) != 0) return "";
  return fmt::format(", and its file system has {} free",
                     format_bytes(uint64_t{about.f_bavail} * about.f_frsize));
}

}  // namespace

PartFile::PartFile(FileDescriptor file, std::string path, uint64_t n_bytes)
    : file_(std::move(file)), path_(std::move(path)), n_bytes_(n_bytes) {}

std::unexpected<Error> PartFile::error(const char* what) const {
  return fail(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path_, std::strerror(errno)));
}

Result<PartFile> PartFile::open(const std::string& path, uint64_t n_bytes, const std::string& id) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  PartFile part(std::move(file), path, n_bytes);
  if (!part.file_.is_open()) return part.error("create");
  Sha256 digest;
  digest.add_text(id);
  const Sha256Digest bytes = digest.finish();
  part.id_digest_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  part.is_complete_.assign((n_bytes + kChunkBytes - 1) / kChunkBytes, false);
  if (part.read_trailer()) return part;
  part.mark_none();
  part.was_resumed_ = false;
  if (::ftruncate(part.file_.get(), 0) != 0) return part.error("truncate");
  TRY(part.reserve(n_bytes + part.trailer().size()));
  TRY(part.save());
  return part;
}

Result<PartFile> PartFile::create_unsized(const std::string& path) {
  FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  PartFile part(std::move(file), path, 0);
  part.is_sized_ = false;
  if (!part.file_.is_open()) return part.error("create");
  return part;
}

Result<void> PartFile::reserve(uint64_t n_bytes) {
  int failed = 0;
  do {
    failed = ::fallocate(file_.get(), 0, 0, static_cast<off_t>(n_bytes)) == 0 ? 0 : errno;
  } while (failed == EINTR);
  // File systems that cannot reserve space detect a full disk when it is written.
  if (failed == EOPNOTSUPP || failed == ENOSYS) {
    failed = ::ftruncate(file_.get(), static_cast<off_t>(n_bytes)) == 0 ? 0 : errno;
  }
  if (failed == 0) return {};
  const std::string where = failed == ENOSPC ? free_space(file_.get()) : "";
  static_cast<void>(::ftruncate(file_.get(), 0));  // a failure leaves an empty space only
  ::unlink(path_.c_str());
  return fail(ErrorCode::kIo, fmt::format("'{}' needs {}{}: {}", path_, format_bytes(n_bytes),
                                          where, std::strerror(failed)));
}

std::string PartFile::trailer() const {
  std::string out(kPartMagic);
  append_number(out, kPartVersion, 4);
  append_number(out, kChunkBytes, 4);
  append_number(out, n_bytes_, 8);
  out += id_digest_;
  std::string bits((is_complete_.size() + 7) / 8, '\0');
  for (size_t i = 0; i < is_complete_.size(); ++i) {
    if (is_complete_[i]) bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << (i % 8));
  }
  return out + bits;
}

bool PartFile::read_trailer() {
  const std::string expected = trailer();  // with no complete chunk
  struct stat about {};
  if (::fstat(file_.get(), &about) != 0) return false;
  const uint64_t size = static_cast<uint64_t>(about.st_size);
  // Only finish() leaves a file of this size: a process was killed before it renamed the file.
  if (size == n_bytes_ && n_bytes_ > 0) {
    mark_complete(0, n_bytes_);
    was_resumed_ = true;
    return true;
  }
  if (size != n_bytes_ + expected.size()) return false;
  std::string found(expected.size(), '\0');
  const ssize_t n = ::pread(file_.get(), found.data(), found.size(), static_cast<off_t>(n_bytes_));
  const size_t n_bits = (is_complete_.size() + 7) / 8, n_head = expected.size() - n_bits;
  if (n != static_cast<ssize_t>(found.size()) || found.compare(0, n_head, expected, 0, n_head) != 0)
    return false;
  for (size_t i = 0; i < is_complete_.size(); ++i) {
    if ((found[n_head + i / 8] >> (i % 8) & 1) != 0)
      mark_complete(chunk_begin(i), chunk_begin(i + 1));
  }
  was_resumed_ = n_complete_ > 0;
  return true;
}

uint64_t PartFile::chunk_begin(uint64_t chunk) const {
  return std::min(n_bytes_, chunk * kChunkBytes);
}

uint64_t PartFile::complete_bytes() const {
  if (n_complete_ == 0) return 0;
  const bool has_last = is_complete_.back();
  const uint64_t last_bytes = n_bytes_ - chunk_begin(n_chunks() - 1);
  return (n_complete_ - (has_last ? 1 : 0)) * kChunkBytes + (has_last ? last_bytes : 0);
}

Result<void> PartFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  if (!write_all(file_.get(), offset, reinterpret_cast<const char*>(bytes.data()), bytes.size())) {
    return error("write");
  }
  if (!is_sized_) n_bytes_ = std::max(n_bytes_, offset + bytes.size());
  return {};
}

void PartFile::mark_complete(uint64_t begin, uint64_t end) {
  for (uint64_t chunk = begin / kChunkBytes; chunk < n_chunks() && chunk_begin(chunk + 1) <= end;
       ++chunk) {
    if (!is_complete_[chunk]) ++n_complete_;
    is_complete_[chunk] = true;
  }
}

void PartFile::mark_none() {
  is_complete_.assign(is_complete_.size(), false);
  n_complete_ = 0;
  n_prefix_chunks_ = 0;
}

Result<void> PartFile::save() {
  if (!is_sized_) return {};
  // Starts writing, and does not wait; without it, finish() would have to wait for all bytes.
  ::sync_file_range(file_.get(), 0, static_cast<off_t>(n_bytes_), SYNC_FILE_RANGE_WRITE);
  const std::string bytes = trailer();
  if (!write_all(file_.get(), n_bytes_, bytes.data(), bytes.size())) return error("write");
  return {};
}

Result<void> PartFile::save_durably() {
  if (::fdatasync(file_.get()) != 0) return error("flush");
  return save();
}

uint64_t PartFile::complete_prefix() const {
  while (n_prefix_chunks_ < n_chunks() && is_complete_[n_prefix_chunks_]) ++n_prefix_chunks_;
  return chunk_begin(n_prefix_chunks_);
}

Result<void> PartFile::finish() {
  if (::ftruncate(file_.get(), static_cast<off_t>(n_bytes_)) != 0) return error("truncate");
  if (::fsync(file_.get()) != 0) return error("flush");
  return {};
}

}  // namespace kvik
