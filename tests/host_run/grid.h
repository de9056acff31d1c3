#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

// Runs CUDA kernels on the host, thread by thread, so that what they compute can be compared with
// other code on a machine without a GPU.
//
// Blocks run one after the other, from the first or from the last on. Each thread of a block is a
// fiber that runs until it waits for others: at a barrier, or in an operation of its warp. What a
// GPU leaves undefined ends the grid with a sentence: a barrier that not all threads reach, or not
// in the same line; lanes of a warp in different operations; shared memory out of bounds, read
// before it was written, or used by two threads without a barrier between them (shared_memory.h).
namespace kvik::host_run {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kMaxThreads = 1024;           // of a block
inline constexpr uint32_t kMaxSharedBytes = 48u << 10;  // that every device has, static

struct Index {
  uint32_t x = 1, y = 1, z = 1;
};

// The point at which a thread waits.
struct Place {
  const char* operation = nullptr;
  int line = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// The operands of a lane for an operation of its warp: at most the fragments of a matrix product.
using LaneWords = std::array<uint32_t, 10>;

// One thread of the block that runs. How often it passed barriers orders what it does in memory.
struct Thread {
  Index thread;
  uint32_t number = 0;        // in the block
  uint32_t n_warp_syncs = 0;  // __syncwarp() of its warp
  enum class State : uint8_t { kNew, kRuns, kAtBarrier, kInWarp, kEnded } state = State::kNew;
  Place place;

  uint32_t lane() const { return number % kWarpLanes; }
  uint32_t warp() const { return number / kWarpLanes; }
};

// State of the grid that runs on this host thread.
extern constinit thread_local Thread* current;
extern constinit thread_local Index block_index, block_size, grid_size;

// Blocks begun so far on this host thread, of all grids, and barriers that the block has passed.
uint64_t block_serial();
uint32_t block_barriers();

// Ends the grid. Called inside a kernel alone.
[[noreturn]] void stop(std::string sentence);

// __syncthreads(), of a line.
void wait_for_block(int line);

// Hands in words and returns those of all lanes, once the whole warp has: a shuffle, a vote.
const std::array<LaneWords, kWarpLanes>& exchange(Place place, const LaneWords& words);

// Registers shared memory of the block: `bytes` more of it.
void use_shared(uint32_t bytes);

// In which order blocks and their threads begin: what a kernel gives must not depend on it.
enum class Order : uint8_t { kAscending, kDescending };

// Runs kernel() for each thread of each block. n_threads: of a block, whole warps. Returns what a
// GPU would have left undefined, if anything was.
std::optional<std::string> run_grid(const Index& blocks, uint32_t n_threads,
                                    const std::function<void()>& kernel,
                                    Order order = Order::kAscending);

}  // namespace kvik::host_run
