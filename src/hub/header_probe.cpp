#include "hub/header_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "base/file/file_descriptor.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Bytes that are requested of a GGUF file in each attempt: most headers have 1 to 12 MiB, and none
// more than 128.
constexpr std::array<uint64_t, 3> kGgufHeads = {8 * kMiB, 32 * kMiB, 136 * kMiB};
constexpr uint64_t kSafetensorsHead = kMiB / 4;
constexpr uint64_t kMaxSafetensorsHead = 128 * kMiB;

// A temporary folder that is removed with its files.
class ProbeFolder {
 public:
  static Result<ProbeFolder> create() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "kvik-probe-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr) {
      return fail(ErrorCode::kIo,
                  fmt::format("cannot create '{}': {}", path, std::strerror(errno)));
    }
    return ProbeFolder(std::move(path));
  }
  ProbeFolder(ProbeFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ProbeFolder& operator=(ProbeFolder&&) = delete;
  ~ProbeFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit ProbeFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The files of a model in a folder, of which only the heads have been requested.
class HeaderProbe {
 public:
  HeaderProbe(HttpSession& session, const RemoteModel& model, std::string folder,
              const KeepGoing& keep_going)
      : session_(session),
        model_(model),
        folder_(std::move(folder)),
        keep_going_(keep_going),
        n_read_(model.files.size()) {}

  // Returns the path of the model.
  std::string path() const {
    const auto gguf = std::ranges::find_if(
        model_.files, [](const RemoteFile& file) { return file.name.ends_with(".gguf"); });
    return gguf == model_.files.end() ? folder_ : fmt::format("{}/{}", folder_, gguf->name);
  }

  // Reads the head of each file, of GGUF files that of this attempt. Returns false if no file has
  // become longer.
  Result<bool> read(size_t attempt) {
    bool has_grown = false;
    for (size_t i = 0; i < model_.files.size(); ++i) {
      const std::string& name = model_.files[i].name;
      const uint64_t before = n_read_[i];
      if (name.ends_with(".gguf")) TRY(read_head(i, kGgufHeads[attempt]));
      if (name.ends_with(".safetensors")) TRY(read_safetensors(i));
      if (name == "config.json" || name == "model.safetensors.index.json")
        TRY(read_head(i, 64 * kMiB));
      has_grown = has_grown || n_read_[i] > before;
    }
    return has_grown;
  }

 private:
  Result<void> read_safetensors(size_t i) {
    TRY(read_head(i, kSafetensorsHead));
    uint64_t n_header = 0;  // little endian
    const FileDescriptor file(::open(file_path(i).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open() ||
        ::pread(file.get(), &n_header, sizeof(n_header), 0) != sizeof(n_header)) {
      return fail(ErrorCode::kIo,
                  fmt::format("cannot read '{}': {}", file_path(i), std::strerror(errno)));
    }
    return read_head(i, std::min(n_header, kMaxSafetensorsHead) + sizeof(n_header));
  }

  std::string file_path(size_t i) const {
    return fmt::format("{}/{}", folder_, model_.files[i].name);
  }

  // Makes the first `n_bytes` bytes of a file available.
  Result<void> read_head(size_t i, uint64_t n_bytes) {
    const RemoteFile& remote = model_.files[i];
    const std::string path = file_path(i);
    if (n_read_[i] == 0 && remote.is_stored()) {
      n_read_[i] = remote.source.n_bytes.value_or(1);
      if (::symlink(fs::absolute(remote.place.path).c_str(), path.c_str()) == 0) return {};
      return fail(ErrorCode::kIo,
                  fmt::format("cannot create '{}': {}", path, std::strerror(errno)));
    }
    if (remote.source.n_bytes) n_bytes = std::min(n_bytes, *remote.source.n_bytes);
    if (n_bytes <= n_read_[i]) return {};
    const uint64_t first = n_read_[i];
    TRY_ASSIGN(const HttpBody body, http_get(session_,
                                             {.url = remote.source.url,
                                              .bearer = remote.source.bearer,
                                              .range = std::pair(first, n_bytes - 1)},
                                             n_bytes - first, keep_going_));
    const auto range = body.reply.content_range();
    const bool is_whole = body.reply.status == 200 && first == 0;
    if (!is_whole && (body.reply.status != 206 || !range || range->first != first)) {
      return std::unexpected(status_error(body.reply, remote.source.name));
    }
    const uint64_t n_file = is_whole ? body.bytes.size() : range->second;
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const bool is_written =
        file.is_open() &&
        ::pwrite(file.get(), body.bytes.data(), body.bytes.size(), static_cast<off_t>(first)) ==
            static_cast<ssize_t>(body.bytes.size()) &&
        ::ftruncate(file.get(), static_cast<off_t>(n_file)) == 0;
    if (!is_written)
      return fail(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
    n_read_[i] = first + body.bytes.size();
    return {};
  }

  HttpSession& session_;
  const RemoteModel& model_;
  const std::string folder_;
  const KeepGoing& keep_going_;
  std::vector<uint64_t> n_read_;  // bytes of each file that are available
};

}  // namespace

Result<void> read_remote_headers(HttpSession& session, const RemoteModel& model,
                                 const UseHeaders& use, const KeepGoing& keep_going) {
  TRY_ASSIGN(const ProbeFolder folder, ProbeFolder::create());
  HeaderProbe probe(session, model, folder.path(), keep_going);
  Result<void> used = fail(ErrorCode::kIo, "no header was read");
  for (size_t attempt = 0; attempt < kGgufHeads.size(); ++attempt) {
    TRY_ASSIGN(const bool has_grown, probe.read(attempt));
    if (!has_grown) break;
    used = use(probe.path());
    // A header that ends too early is corrupt.
    if (used || used.error().code != ErrorCode::kCorrupt) break;
  }
  if (used) return used;
  std::string message = used.error().message;  // without the temporary folder
  for (const std::string& prefix : {folder.path() + "/", folder.path()}) {
    for (size_t at = 0; (at = message.find(prefix, at)) != std::string::npos;) {
      message.erase(at, prefix.size());
    }
  }
  return fail(used.error().code, message);
}

}  // namespace kvik
