#pragma once

#include <cstdint>
#include <string>

namespace kvik::host_run {

// What memory of one device each process holds, in a file that all of them have open: a row for
// each. A row belongs to who has it locked, so that a process gives back what it held by ending,
// however it does. Two ledgers of one process are as those of two. One thread.
class MemoryLedger {
 public:
  // The file is made where there is none.
  explicit MemoryLedger(const std::string& path);
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  uint64_t held_by_others();
  // Whether all then hold no more than all_bytes; where not, nothing is taken.
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
