#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/low_rank/low_rank_kernels.h"
#include "backend/layout/low_rank_panels.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Distributes low-rank products to the threads. Owns the buffers of intermediate sums, which grow
// to the maximum needed and are never freed.
class LowRank {
 public:
  LowRank(const LowRankKernels& kernels, ThreadPool& pool)
      : kernels_(kernels), pool_(pool), scratch_(pool.n_threads()) {}

  // Implements Backend::add_low_rank().
  void add(Rows x, std::span<const LowRankTerm> terms, Rows out);

 private:
  // Up to kLowRankRows rows of one term, and the position of their items.
  struct Block {
    const LowRankTerm* term;
    const LowRankPanels* matrix;
    uint32_t first;  // index among the term's rows
    uint32_t n_rows;
    uint32_t n_chunks;    // number of parts of k with sums of their own: the pieces, or 1
    uint32_t n_together;  // chunks per item
    uint32_t n_strips;    // number of strips of out's columns
    size_t first_down;    // index of its first item of a among those of all blocks
    // The same for the items of b.
    size_t first_up;
    size_t first_float;  // of its sums in sums_: [n_chunks][n_rows][padded rank]
  };

  void cut(std::span<const LowRankTerm> terms);
  // Return the block of an item. Items are counted over all blocks, those of a and those of b
  // separately.
  const Block& down_block(size_t item) const;
  const Block& up_block(size_t item) const;
  // Returns the part of a or b that an item reads, where the items of b follow those of a. For an
  // index after the last item, returns the part of the last one.
  const std::byte* weights_of(size_t item) const;
  void down(size_t item, Rows x);
  void up(size_t item, Rows out, uint32_t thread);

  const LowRankKernels& kernels_;
  ThreadPool& pool_;
  std::vector<std::vector<float>> scratch_;  // by thread
  std::vector<float> sums_;
  std::vector<Block> blocks_;
  size_t n_down_ = 0, n_up_ = 0;
};

}  // namespace kvik::cpu
