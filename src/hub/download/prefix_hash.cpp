#include "hub/download/prefix_hash.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <thread>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr Duration kReportTime = std::chrono::milliseconds(100);

class ThreadedHash final : public PrefixHash {
 public:
  ThreadedHash(int descriptor, uint64_t n_bytes) : descriptor_(descriptor), n_bytes_(n_bytes) {}
  ~ThreadedHash() override {
    {
      const MutexLock lock(mutex_);
      is_cancelled_ = true;
    }
    changed_.notify_all();
    join_if_started(thread_);
  }
  ThreadedHash(const ThreadedHash&) = delete;
  ThreadedHash& operator=(const ThreadedHash&) = delete;

  Result<void> start() {
    TRY_ASSIGN(thread_, start_thread("kvik-hash", [this] { work(); }));
    return {};
  }

  void advance(uint64_t n_complete) override {
    {
      const MutexLock lock(mutex_);
      n_complete_ = std::max(n_complete_, n_complete);
    }
    changed_.notify_all();
  }

  Result<std::string> finish(const std::function<bool(uint64_t)>& on_bytes) override {
    advance(n_bytes_);
    for (;;) {
      uint64_t n_hashed = 0;
      {
        const MutexLock lock(mutex_);
        const auto has_ended = [&]() REQUIRES(mutex_) {
          return n_hashed_ == n_bytes_ || error_ != 0;
        };
        if (changed_.wait_for(mutex_, kReportTime, has_ended)) break;
        n_hashed = n_hashed_;
      }
      if (!on_bytes(n_hashed)) return fail(ErrorCode::kIo, "the download was stopped");
    }
    thread_.join();
    const MutexLock lock(mutex_);
    if (error_ == 0) return to_hex(digest_.finish());
    return fail(ErrorCode::kIo,
                fmt::format("cannot read the download back: {}", std::strerror(error_)));
  }

 private:
  // Hashes the bytes up to the end of the file, unless the work is cancelled or reading fails.
  void work() {
    const auto buffer = std::make_unique<std::byte[]>(kPieceBytes);
    for (uint64_t at = 0; at < n_bytes_;) {
      uint64_t n_wanted = 0;
      {
        const MutexLock lock(mutex_);
        changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return is_cancelled_ || n_complete_ > at; });
        if (is_cancelled_) return;
        n_wanted = std::min(kPieceBytes, n_complete_ - at);
      }
      const ssize_t n = ::pread(descriptor_, buffer.get(), n_wanted, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      const int error = n > 0 ? 0 : n < 0 ? errno : EIO;
      if (n > 0) {
        digest_.add(std::span(buffer.get(), static_cast<size_t>(n)));
        at += static_cast<uint64_t>(n);
      }
      {
        const MutexLock lock(mutex_);
        n_hashed_ = at;
        error_ = error;
      }
      changed_.notify_all();
      if (error != 0) return;
    }
  }

  const int descriptor_;
  const uint64_t n_bytes_;
  Sha256 digest_;  // of the thread until it has ended
  Mutex mutex_;
  CondVar changed_;
  uint64_t n_complete_ GUARDED_BY(mutex_) = 0;
  uint64_t n_hashed_ GUARDED_BY(mutex_) = 0;
  int error_ GUARDED_BY(mutex_) = 0;
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<PrefixHash>> PrefixHash::start(int descriptor, uint64_t n_bytes) {
  auto hash = std::make_unique<ThreadedHash>(descriptor, n_bytes);
  TRY(hash->start());
  return hash;
}

}  // namespace kvik
