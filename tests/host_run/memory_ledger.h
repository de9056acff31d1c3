#pragma once

#include <cstdint>
#include <string>

namespace kvik::host_run {

// The memory of one device that each process has allocated, in a file that all of them have open:
// one row per process. A process owns the row that it has locked, so its memory is released when it
// ends, in any way. Two ledgers in one process act like those of two processes. Not thread-safe.
class MemoryLedger {
 public:
  // The file is made where there is none.
  explicit MemoryLedger(const std::string& path);
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  uint64_t held_by_others();
  // Returns whether the total is then at most all_bytes; otherwise nothing is taken.
  bool take(uint64_t bytes, uint64_t all_bytes);
  void give_back(uint64_t bytes);

 private:
  static constexpr int kRows = 64;

  bool try_lock(int row);
  bool is_locked_by_another(int row);
  uint64_t sum_of_others();
  void write_own();

  class Turn;  // while one lives, no other process reads or writes

  int file_ = -1;
  int own_row_ = 0;
  uint64_t held_bytes_ = 0;
};

}  // namespace kvik::host_run
