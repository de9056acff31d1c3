#include "host_run/grid.h"

#include <fmt/format.h>

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvik::host_run {
namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = size_t{64} << 10;

// The lanes of one warp on their way into an operation. Two sets of words take turns: a lane that
// is quick enters the next operation while others still read the last one's.
struct Warp {
  std::array<LaneWords, kWarpLanes> words[2];
  uint32_t turn = 0;
  uint32_t n_arrived = 0;
  Thread* first = nullptr;  // of those that arrived
};

// A stack with a loop on it that runs one thread after the other, as long as none of them waits.
struct Worker {
  context::fiber fiber;
  Thread* waits = nullptr;  // that thread, on this stack
};

// The block that runs.
class Block {
 public:
  std::optional<std::string> run(uint32_t n_threads, const std::function<void()>& kernel,
                                 Order order);

  void wait(Thread& thread, Thread::State state);
  [[noreturn]] void stop(std::string sentence);
  void wait_for_block(int line);
  const std::array<LaneWords, kWarpLanes>& exchange(Place place, const LaneWords& words);

  uint32_t n_barriers() const { return n_barriers_; }
  uint64_t serial() const { return serial_; }
  void use_shared(uint32_t bytes) {
    n_shared_bytes_ += bytes;
    if (n_shared_bytes_ > kMaxSharedBytes) {
      stop(fmt::format("the block uses {} bytes of shared memory: {} is the most", n_shared_bytes_,
                       kMaxSharedBytes));
    }
  }

 private:
  Worker& free_worker();
  void work(Worker& self);
  void resume(Worker& worker);
  bool start_some();
  bool resume_some();
  std::string why_all_wait() const;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> worker_of_;  // by thread
  std::vector<Worker*> idle_;
  const std::function<void()>* kernel_ = nullptr;
  Order order_ = Order::kAscending;
  Thread* first_at_barrier_ = nullptr;
  context::fiber scheduler_;
  uint32_t n_started_ = 0, n_ended_ = 0, n_at_barrier_ = 0;
  uint32_t n_barriers_ = 0;
  uint32_t n_shared_bytes_ = 0;
  uint64_t serial_ = 0;
  std::optional<std::string> fault_;
};

thread_local Block block;

std::string name_of(const Thread& thread) {
  return fmt::format("thread {} of block ({}, {}, {})", thread.number, block_index.x, block_index.y,
                     block_index.z);
}

std::string name_of(const Place& place) {
  return fmt::format("{} in line {}", place.operation, place.line);
}

Worker& Block::free_worker() {
  if (idle_.empty()) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.fiber = context::fiber(std::allocator_arg, context::fixedsize_stack(kStackBytes),
                                  [this, &worker](context::fiber&& scheduler) {
                                    scheduler_ = std::move(scheduler);
                                    work(worker);
                                    return std::move(scheduler_);
                                  });
    return worker;
  }
  Worker& worker = *idle_.back();
  idle_.pop_back();
  return worker;
}

// Takes threads that have not begun, one after the other; then waits for the next block.
void Block::work(Worker& self) {
  while (true) {
    while (n_started_ < threads_.size() && !fault_) {
      const size_t i = n_started_++;
      Thread& thread = threads_[order_ == Order::kAscending ? i : threads_.size() - 1 - i];
      thread.state = Thread::State::kRuns;
      worker_of_[thread.number] = &self;
      current = &thread;
      (*kernel_)();
      threads_[thread.number].state = Thread::State::kEnded;
      ++n_ended_;
      self.waits = nullptr;
    }
    idle_.push_back(&self);
    scheduler_ = std::move(scheduler_).resume();
  }
}

void Block::resume(Worker& worker) {
  if (worker.waits) current = worker.waits;
  worker.fiber = std::move(worker.fiber).resume();
}

void Block::wait(Thread& thread, Thread::State state) {
  thread.state = state;
  Worker* self = worker_of_[thread.number];
  self->waits = &thread;
  scheduler_ = std::move(scheduler_).resume();
  current = &thread;
}

void Block::stop(std::string sentence) {
  if (!fault_) fault_ = std::move(sentence);
  while (true) scheduler_ = std::move(scheduler_).resume();  // for ever: the stack is dropped
}

void Block::wait_for_block(int line) {
  Thread& self = *current;
  const Place place = {"__syncthreads", line};
  if (n_at_barrier_ == 0) first_at_barrier_ = &self;
  if (first_at_barrier_->place != place && first_at_barrier_ != &self) {
    stop(fmt::format("{} is at {} and thread {} at {}", name_of(self), name_of(place),
                     first_at_barrier_->number, name_of(first_at_barrier_->place)));
  }
  self.place = place;
  if (++n_at_barrier_ < threads_.size()) return wait(self, Thread::State::kAtBarrier);
  n_at_barrier_ = 0;
  ++n_barriers_;
  for (Thread& thread : threads_) thread.state = Thread::State::kRuns;
}

const std::array<LaneWords, kWarpLanes>& Block::exchange(Place place, const LaneWords& words) {
  Thread& self = *current;
  Warp& warp = warps_[self.warp()];
  Thread* lanes = &threads_[self.warp() * kWarpLanes];
  const uint32_t turn = warp.turn;
  if (warp.n_arrived == 0) warp.first = &self;
  if (warp.first != &self && warp.first->place != place) {
    stop(fmt::format("{} is in {} and thread {} in {}", name_of(self), name_of(place),
                     warp.first->number, name_of(warp.first->place)));
  }
  warp.words[turn][self.lane()] = words;
  self.place = place;
  if (++warp.n_arrived < kWarpLanes) {
    wait(self, Thread::State::kInWarp);
  } else {
    warp.n_arrived = 0;
    warp.turn = 1 - turn;
    for (uint32_t i = 0; i < kWarpLanes; ++i) lanes[i].state = Thread::State::kRuns;
  }
  return warp.words[turn];
}

// True if any thread began.
bool Block::start_some() {
  if (n_started_ == threads_.size()) return false;
  resume(free_worker());
  return true;
}

// True if any waiting thread continued.
bool Block::resume_some() {
  bool any = false;
  for (Thread& thread : threads_) {
    if (fault_) return true;
    if (thread.state != Thread::State::kRuns) continue;
    resume(*worker_of_[thread.number]);
    any = true;
  }
  return any;
}

std::string Block::why_all_wait() const {
  for (const Thread& thread : threads_) {
    if (thread.state == Thread::State::kAtBarrier || thread.state == Thread::State::kInWarp) {
      return fmt::format("{} waits at {} for threads that never come: {} have ended",
                         name_of(thread), name_of(thread.place), n_ended_);
    }
  }
  return "no thread runs";
}

std::optional<std::string> Block::run(uint32_t n_threads, const std::function<void()>& kernel,
                                      Order order) {
  order_ = order;
  threads_.assign(n_threads, {});
  for (uint32_t i = 0; i < n_threads; ++i) {
    threads_[i].number = i;
    threads_[i].thread = {i, 0, 0};
  }
  warps_.resize(n_threads / kWarpLanes);
  for (Warp& warp : warps_) warp.n_arrived = 0;
  worker_of_.assign(n_threads, nullptr);
  kernel_ = &kernel;
  n_started_ = n_ended_ = n_at_barrier_ = n_barriers_ = n_shared_bytes_ = 0;
  fault_.reset();
  ++serial_;
  while (n_ended_ < n_threads && !fault_) {
    if (!start_some() && !resume_some()) fault_ = why_all_wait();
  }
  current = nullptr;
  if (!fault_) return std::nullopt;
  idle_.clear();
  workers_.clear();  // and the stacks of all that still wait
  return std::exchange(fault_, std::nullopt);
}

}  // namespace

constinit thread_local Thread* current = nullptr;
constinit thread_local Index block_index, block_size, grid_size;

uint64_t block_serial() { return block.serial(); }
uint32_t block_barriers() { return block.n_barriers(); }
void stop(std::string sentence) { block.stop(std::move(sentence)); }
void wait_for_block(int line) { block.wait_for_block(line); }
void use_shared(uint32_t bytes) { block.use_shared(bytes); }

const std::array<LaneWords, kWarpLanes>& exchange(Place place, const LaneWords& words) {
  return block.exchange(place, words);
}

std::optional<std::string> run_grid(const Index& blocks, uint32_t n_threads,
                                    const std::function<void()>& kernel, Order order) {
  CHECK(current == nullptr);
  constexpr uint32_t kMaxBlocks = 65535;  // in y and z; x may have more
  if (n_threads == 0 || n_threads > kMaxThreads || n_threads % kWarpLanes != 0) {
    return fmt::format("a block of {} threads: expected whole warps, {} at most", n_threads,
                       kMaxThreads);
  }
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > INT32_MAX ||
      blocks.y > kMaxBlocks || blocks.z > kMaxBlocks) {
    return fmt::format("a grid of {} x {} x {} blocks", blocks.x, blocks.y, blocks.z);
  }
  grid_size = blocks;
  block_size = {n_threads, 1, 1};
  const uint64_t n_blocks = uint64_t{blocks.x} * blocks.y * blocks.z;
  for (uint64_t i = 0; i < n_blocks; ++i) {
    const uint64_t n = order == Order::kAscending ? i : n_blocks - 1 - i;
    block_index = {static_cast<uint32_t>(n % blocks.x),
                   static_cast<uint32_t>(n / blocks.x % blocks.y),
                   static_cast<uint32_t>(n / blocks.x / blocks.y)};
    if (auto fault = block.run(n_threads, kernel, order)) return fault;
  }
  return std::nullopt;
}

}  // namespace kvik::host_run
