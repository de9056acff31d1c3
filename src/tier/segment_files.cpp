#include "tier/segment_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/file/private_files.h"
#include "base/log.h"

namespace kvik {
namespace {

constexpr const char* kEnding = ".segment";
// the index stores it in the upper bits of a signed 64-bit number
constexpr uint32_t kMaxId = INT32_MAX;
constexpr uint64_t kMaxSlotBytes = uint64_t{1} << 30;

struct SegmentName {
  uint32_t id;
  uint64_t slot_bytes;
};

// Parses a name such as "00000012-385024.segment".
std::optional<SegmentName> parse_name(const std::string& name) {
  if (!name.ends_with(kEnding)) return std::nullopt;
  SegmentName parsed{};
  const char* const end = name.data() + name.size() - std::strlen(kEnding);
  const auto id = std::from_chars(name.data(), end, parsed.id);
  if (id.ec != std::errc() || id.ptr == end || *id.ptr != '-') return std::nullopt;
  const auto slot_bytes = std::from_chars(id.ptr + 1, end, parsed.slot_bytes);
  if (slot_bytes.ec != std::errc() || slot_bytes.ptr != end) return std::nullopt;
  const bool is_size = parsed.slot_bytes > 0 && parsed.slot_bytes <= kMaxSlotBytes &&
                       parsed.slot_bytes % SegmentFiles::kAlignment == 0;
  return is_size && parsed.id <= kMaxId ? std::optional(parsed) : std::nullopt;
}

// Opens with direct I/O if the file system supports it (tmpfs does not). Neither waits for a pipe
// nor follows a link.
FileDescriptor open_file(const std::string& path, int flags) {
  const int all = flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int fd = ::open(path.c_str(), all | O_DIRECT, kPrivateFile);
  return FileDescriptor(fd >= 0 || errno != EINVAL ? fd : ::open(path.c_str(), all, kPrivateFile));
}

// Returns why a file with the name of a segment is not one; empty: it is one.
std::string_view fault_of(const struct stat& status, uint64_t slot_bytes) {
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  const auto n_bytes = static_cast<uint64_t>(status.st_size);
  if (n_bytes > std::max(SegmentFiles::kMaxBytes, slot_bytes)) return "it is too long";
  return {};
}

// Returns whether this process lacks descriptors or memory: continuing without the file would lose
// its pages.
bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

std::unexpected<Error> failed(int error, const char* what, const std::string& path) {
  return fail(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path, std::strerror(error)));
}

template <class Call>
int transfer(size_t n_bytes, uint64_t offset, const Call& call) {
  for (size_t done = 0; done < n_bytes;) {
    const ssize_t n = call(done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;  // the file became shorter
    done += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

int FileCalls::allocate(int fd, uint64_t n_bytes) {
  return ::posix_fallocate(fd, 0, static_cast<off_t>(n_bytes));
}

int FileCalls::read(int fd, std::span<std::byte> bytes, uint64_t offset) {
  return transfer(bytes.size(), offset, [&](size_t done, uint64_t at) {
    return ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at));
  });
}

int FileCalls::write(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  return transfer(bytes.size(), offset, [&](size_t done, uint64_t at) {
    return ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at));
  });
}

int FileCalls::sync(int fd) { return ::fdatasync(fd) == 0 ? 0 : errno; }

FileCalls& posix_file_calls() {
  static FileCalls calls;
  return calls;
}

Result<void> SegmentFiles::File::report(int error, const char* what) const {
  if (error == 0) return {};
  return failed(error, what, path_);
}

Result<void> SegmentFiles::File::read(std::span<std::byte> bytes, uint64_t offset) const {
  return report(calls_.read(fd(), bytes, offset), "read");
}
Result<void> SegmentFiles::File::write(std::span<const std::byte> bytes, uint64_t offset) const {
  return report(calls_.write(fd(), bytes, offset), "write");
}
Result<void> SegmentFiles::File::sync() const { return report(calls_.sync(fd()), "sync"); }

Result<SegmentFiles> SegmentFiles::open(FileCalls& calls, const std::string& folder, Mode mode) {
  SegmentFiles files(calls, folder);
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return failed(error.value(), "list", folder);
  for (const auto& entry : entries) {
    const auto name = parse_name(entry.path().filename().string());
    if (!name) continue;
    const std::string path = entry.path().string();
    FileDescriptor opened = open_file(path, mode == Mode::kReadOnly ? O_RDONLY : O_RDWR);
    if (!opened.is_open() && is_shortage(errno)) return failed(errno, "open", path);
    if (!opened.is_open()) {
      log::warn("disk tier: ignoring '{}': {}", path, std::strerror(errno));
      continue;
    }
    auto file = std::make_shared<const File>(calls, std::move(opened), path);
    struct stat status {};
    if (::fstat(file->fd(), &status) != 0) return failed(errno, "stat", path);
    if (const auto fault = fault_of(status, name->slot_bytes); !fault.empty()) {
      log::warn("disk tier: ignoring '{}': {}", path, fault);
      continue;
    }
    if (mode == Mode::kReadWrite) static_cast<void>(::fchmod(file->fd(), kPrivateFile));
    const uint64_t n_slots = static_cast<uint64_t>(status.st_size) / name->slot_bytes;
    const Segment segment{name->slot_bytes, static_cast<uint32_t>(n_slots), std::move(file)};
    if (files.segments_.emplace(name->id, segment).second) files.n_bytes_ += segment.n_bytes();
  }
  return files;
}

const SegmentFiles::Segment* SegmentFiles::find(uint32_t id) const {
  const auto it = segments_.find(id);
  return it == segments_.end() ? nullptr : &it->second;
}

std::string SegmentFiles::path_of(uint32_t id, uint64_t slot_bytes) const {
  return fmt::format("{}/{:08}-{}{}", folder_, id, slot_bytes, kEnding);
}

uint64_t SegmentFiles::n_slots() const {
  uint64_t n = 0;
  for (const auto& [id, segment] : segments_) n += segment.n_slots;
  return n;
}

// Uses the number after the last segment's, unless a file with that name exists.
Result<uint32_t> SegmentFiles::add(uint64_t slot_bytes, uint32_t n_slots) {
  constexpr int kTries = 1000;
  uint32_t id = segments_.empty() ? 0 : segments_.rbegin()->first;
  FileDescriptor created;
  std::string path;
  for (int i = 0; i < kTries && !created.is_open(); ++i) {
    id = id == kMaxId ? 1 : id + 1;
    if (segments_.contains(id)) continue;
    path = path_of(id, slot_bytes);
    created = open_file(path, O_RDWR | O_CREAT | O_EXCL);
    if (!created.is_open() && errno != EEXIST) return failed(errno, "create", path);
  }
  if (!created.is_open()) return failed(EEXIST, "create a segment in", folder_);
  auto file = std::make_shared<const File>(*calls_, std::move(created), path);
  const Segment segment{slot_bytes, n_slots, std::move(file)};
  if (const int error = calls_->allocate(segment.file->fd(), segment.n_bytes()); error != 0) {
    ::unlink(path.c_str());
    return failed(error, "reserve a segment in", path);
  }
  segments_.emplace(id, segment);
  n_bytes_ += segment.n_bytes();
  return id;
}

Result<void> SegmentFiles::remove(uint32_t id) {
  const auto it = segments_.find(id);
  if (it == segments_.end()) return {};
  const std::string path = path_of(id, it->second.slot_bytes);
  n_bytes_ -= it->second.n_bytes();
  segments_.erase(it);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed(errno, "remove", path);
  return {};
}

}  // namespace kvik
