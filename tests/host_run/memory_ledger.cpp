#include "host_run/memory_ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace kvik::host_run {
namespace {

// Locks of an open file, not of a process: they end with it, and two of a process exclude each
// other.
struct flock lock_of(int row, int16_t type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(sizeof(uint64_t)) * row;
  lock.l_len = sizeof(uint64_t);
  return lock;
}

}  // namespace

// The lock of the row after the last one.
class MemoryLedger::Turn {
 public:
  explicit Turn(int file) : file_(file) { set(F_WRLCK); }
  ~Turn() { set(F_UNLCK); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  void set(int16_t type) {
    struct flock lock = lock_of(kRows, type);
    int done = 0;
    while ((done = fcntl(file_, F_OFD_SETLKW, &lock)) < 0 && errno == EINTR) {
    }
    CHECK(done == 0);
  }
  const int file_;
};

MemoryLedger::MemoryLedger(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  CHECK(file_ >= 0);
  const Turn turn(file_);
  while (!try_lock(own_row_)) CHECK(++own_row_ < kRows);
  write_own();
}

MemoryLedger::~MemoryLedger() { close(file_); }

bool MemoryLedger::try_lock(int row) {
  struct flock lock = lock_of(row, F_WRLCK);
  return fcntl(file_, F_OFD_SETLK, &lock) == 0;
}

bool MemoryLedger::is_locked_by_another(int row) {
  struct flock lock = lock_of(row, F_WRLCK);
  CHECK(fcntl(file_, F_OFD_GETLK, &lock) == 0);
  return lock.l_type != F_UNLCK;
}

uint64_t MemoryLedger::sum_of_others() {
  uint64_t sum = 0;
  for (int row = 0; row < kRows; ++row) {
    if (row == own_row_ || !is_locked_by_another(row)) continue;
    uint64_t held = 0;
    CHECK(pread(file_, &held, sizeof(held), lock_of(row, F_RDLCK).l_start) == sizeof(held));
    sum += held;
  }
  return sum;
}

void MemoryLedger::write_own() {
  const off_t at = lock_of(own_row_, F_WRLCK).l_start;
  CHECK(pwrite(file_, &held_bytes_, sizeof(held_bytes_), at) == sizeof(held_bytes_));
}

uint64_t MemoryLedger::held_by_others() {
  const Turn turn(file_);
  return sum_of_others();
}

bool MemoryLedger::take(uint64_t bytes, uint64_t all_bytes) {
  const Turn turn(file_);
  if (sum_of_others() + held_bytes_ + bytes > all_bytes) return false;
  held_bytes_ += bytes;
  write_own();
  return true;
}

void MemoryLedger::give_back(uint64_t bytes) {
  const Turn turn(file_);
  held_bytes_ -= bytes;
  write_own();
}

}  // namespace kvik::host_run
