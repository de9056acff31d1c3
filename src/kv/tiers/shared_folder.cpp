#include "kv/tiers/shared_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>

#include "tensor/kv_type.h"

namespace kvik {
namespace {

constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
constexpr time_t kRenewAfter = 3600;  // seconds
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::unexpected<Error> failed(const char* what, const std::string& path) {
  return fail(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

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

// A name that nobody else uses, on no machine.
std::string temporary_name() {
  static const uint64_t own = std::random_device{}() | uint64_t{std::random_device{}()} << 32;
  static std::atomic<uint64_t> n = 0;
  return fmt::format(".{:016x}-{}.new", own, ++n);
}

// Leaves errno as it was at the first failure.
Result<void> write_new(const std::string& draft, const std::string& path,
                       std::span<const std::byte> bytes) {
  bool is_whole = false;
  {
    const File file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return failed("create", draft);
    is_whole = write_all(file.get(), bytes) && ::fsync(file.get()) == 0;
  }
  if (is_whole && ::rename(draft.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  const auto result = failed("write", path);
  ::unlink(draft.c_str());
  errno = error;
  return result;
}

}  // namespace

std::string SharedFolder::path_of(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

SharedFolder::Read SharedFolder::read(const std::string& name, std::span<std::byte> bytes) const {
  const File file(::open(path_of(name).c_str(), kReadFlags));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Read::kAbsent;
    return errno == ELOOP ? Read::kWrong : Read::kFailed;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Read::kFailed;
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != bytes.size())
    return Read::kWrong;
  if (!read_all(file.get(), bytes)) return Read::kFailed;
  // Clocks may differ: that only makes it happen more often, or less.
  if (std::time(nullptr) - status.st_mtime > kRenewAfter) ::futimens(file.get(), nullptr);
  return Read::kDone;
}

Result<void> SharedFolder::write(const std::string& folder, const std::string& name,
                                 std::span<const std::byte> bytes) const {
  const std::string path = path_of(fmt::format("{}/{}", folder, name));
  Result<void> done;
  for (int i = 0; i < 2; ++i) {  // a sweep may take an empty folder away at any moment
    std::error_code error;
    std::filesystem::create_directories(path_of(folder), error);
    errno = error.value();
    if (error) return failed("create the folder", path_of(folder));
    done = write_new(path_of(fmt::format("{}/{}", folder, temporary_name())), path, bytes);
    if (done || errno != ENOENT) break;
  }
  return done;
}

bool SharedFolder::read_head(const std::string& name, std::span<std::byte> head) const {
  const File file(::open(path_of(name).c_str(), kReadFlags));
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

std::string name_of_tokens(std::span<const TokenId> tokens) {
  std::string name;
  uint32_t held = 0;
  int n_bits = 0;
  const auto add = [&](uint32_t byte) {
    held = held << 8 | byte;
    for (n_bits += 8; n_bits >= 6; n_bits -= 6) name.push_back(kDigits[held >> (n_bits - 6) & 63]);
  };
  for (const TokenId token : tokens) {
    for (size_t i = 0; i < sizeof(TokenId); ++i) add(static_cast<uint32_t>(token) >> (8 * i) & 255);
  }
  if (n_bits > 0) name.push_back(kDigits[held << (6 - n_bits) & 63]);
  return name;
}

std::optional<std::vector<TokenId>> tokens_of_name(std::string_view name) {
  std::vector<TokenId> tokens;
  uint32_t held = 0, token = 0;
  int n_bits = 0;
  size_t n_bytes = 0;
  for (const char digit : name) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    held = held << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    token |= (held >> n_bits & 255) << (8 * (n_bytes % sizeof(TokenId)));
    if (++n_bytes % sizeof(TokenId) != 0) continue;
    tokens.push_back(token);
    token = 0;
  }
  if (n_bytes % sizeof(TokenId) != 0 || tokens.empty() || tokens.size() > kPageTokens)
    return std::nullopt;
  if (name_of_tokens(tokens) != name) return std::nullopt;  // one name for each
  return tokens;
}

}  // namespace kvik
