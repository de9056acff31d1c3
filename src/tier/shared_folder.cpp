#include "tier/shared_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>

#include "base/file/file_descriptor.h"

namespace kvik {
namespace {

constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
constexpr time_t kRenewAfter = 3600;  // seconds
constexpr unsigned kNoExecution = 0666;

std::unexpected<Error> failed(const char* what, const std::string& path) {
  return fail(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

bool read_all(int fd, std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

// Writes a file under its own name, and returns false if that fails. If another writer has created
// the file, it stays as it is. A reader may see the file before it is whole.
bool write_exclusively(const std::string& path, unsigned mode, std::span<const std::byte> bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return errno == EEXIST;
  if (write_all(file.get(), bytes) && ::fchmod(file.get(), mode & kNoExecution) == 0 &&
      ::fsync(file.get()) == 0) {
    return true;
  }
  const int error = errno;
  ::unlink(path.c_str());
  errno = error;
  return false;
}

// Returns a name that no other writer uses on any machine.
std::string temporary_name() {
  static const uint64_t own = std::random_device{}() | uint64_t{std::random_device{}()} << 32;
  static std::atomic<uint64_t> n = 0;
  return fmt::format(".{:016x}-{}.new", own, ++n);
}

// Writes a temporary file and calls `publish` to give it its name. If that fails or returns false,
// the temporary file is removed. errno is that of the first failure.
template <class Publish>
Result<void> write_new(const std::string& draft, unsigned mode, std::span<const std::byte> bytes,
                       const Publish& publish) {
  bool is_whole = false;
  {
    const FileDescriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.is_open()) return failed("create", draft);
    is_whole = write_all(file.get(), bytes) && ::fchmod(file.get(), mode & kNoExecution) == 0 &&
               ::fsync(file.get()) == 0;
  }
  if (is_whole && publish()) return {};
  const int error = errno;
  const auto result = failed("write", draft);
  ::unlink(draft.c_str());
  errno = error;
  return result;
}

}  // namespace

std::string SharedFolder::path_of(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

SharedFolder::Read SharedFolder::read(const std::string& name, std::span<std::byte> bytes) const {
  const FileDescriptor file(::open(path_of(name).c_str(), kReadFlags));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return Read::kAbsent;
    return errno == ELOOP ? Read::kWrong : Read::kFailed;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Read::kFailed;
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != bytes.size())
    return Read::kWrong;
  if (!read_all(file.get(), bytes)) return Read::kFailed;
  // If clocks differ, this only happens more or less often.
  if (std::time(nullptr) - status.st_mtime > kRenewAfter) ::futimens(file.get(), nullptr);
  return Read::kDone;
}

Result<void> SharedFolder::write(const std::string& folder, const std::string& name,
                                 std::span<const std::byte> bytes) const {
  const std::string path = path_of(fmt::format("{}/{}", folder, name));
  Result<void> done;
  for (int i = 0; i < 2; ++i) {  // a sweep may remove an empty folder at any moment
    TRY(make_folders(path_of(folder)));
    const std::string draft = path_of(fmt::format("{}/{}", folder, temporary_name()));
    done =
        write_new(draft, mode_, bytes, [&] { return ::rename(draft.c_str(), path.c_str()) == 0; });
    if (done || errno != ENOENT) break;
  }
  return done;
}

Result<void> SharedFolder::write_once(const std::string& name,
                                      std::span<const std::byte> bytes) const {
  TRY(make_folders(path_));
  const std::string path = path_of(name);
  const std::string draft = path_of(temporary_name());
  // A file system may lack hard links (FAT), renaming without replacing (NFS), or both (some of
  // FUSE). All of them create a file for one writer only.
  const auto publish = [&] {
    const auto is_there = [](int result) { return result == 0 || errno == EEXIST; };
    const bool is_done =
        is_there(::link(draft.c_str(), path.c_str())) ||
        is_there(::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE)) ||
        write_exclusively(path, mode_, bytes);
    if (is_done) ::unlink(draft.c_str());
    return is_done;
  };
  return write_new(draft, mode_, bytes, publish);
}

// Creates the missing folders of a path.
Result<void> SharedFolder::make_folders(const std::string& path) const {
  if (::access(path.c_str(), F_OK) == 0) return {};
  std::string made;
  for (const auto& part : std::filesystem::path(path)) {
    made = (std::filesystem::path(made) / part).string();
    if (part.empty() || ::access(made.c_str(), F_OK) == 0) continue;
    if (::mkdir(made.c_str(), mode_ & 0700U) != 0) {
      if (errno == EEXIST) continue;
      return failed("create the folder", made);
    }
    if (::chmod(made.c_str(), mode_) != 0) return failed("set the mode of", made);
  }
  return {};
}

bool SharedFolder::read_head(const std::string& name, std::span<std::byte> head) const {
  const FileDescriptor file(::open(path_of(name).c_str(), kReadFlags));
  struct stat status {};
  return file.get() >= 0 && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         read_all(file.get(), head);
}

std::vector<std::string> SharedFolder::list(const std::string& folder, size_t limit) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path_of(folder).c_str()), ::closedir);
  std::vector<std::string> names;
  if (!dir) return names;
  while (names.size() < limit) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

void SharedFolder::remove(const std::string& name) const { ::unlink(path_of(name).c_str()); }

}  // namespace kvik
