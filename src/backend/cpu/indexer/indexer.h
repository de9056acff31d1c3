#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/indexer/indexer_kernels.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Operations of indexers, with the kernels of one instruction set. An item of work is a range of
// one row's tokens while scores are computed, then a row. The selection of a row does not depend on
// other rows. Called from one thread; the work is distributed to the pool.
class Indexer {
 public:
  Indexer(const IndexerKernels& kernels, Memory& memory, ThreadPool& pool)
      : kernels_(kernels), memory_(memory), pool_(pool) {}

  // Implement Backend::scratch_bytes() and reserve().
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

  // Implement the functions of Backend.
  void write(const IndexTarget& to, Rows keys);
  void select(const IndexTarget& keys, const IndexShape& shape, Rows q, Rows weights,
              uint32_t* lists);

 private:
  // A row that could attend to more than its budget: keys [first, end) of its run.
  struct Row {
    const KvRun* run;
    uint32_t row;  // of q, weights and tokens
    uint32_t position;
    uint32_t first, end;
  };
  // Parameters of a call.
  struct Call {
    const IndexTarget& keys;
    const IndexShape& shape;
    Rows q, weights;
    uint32_t* lists;
    uint32_t n_pages = 0;  // pages of the row with the most keys
    size_t stride = 0;     // scores of a row in scores_
    size_t n_keys = 0;     // integers of a thread in keys_

    bool pools() const { return shape.is_per_head() && shape.block_tokens % kPageTokens == 0; }
    // Returns the scores of a page by one head.
    uint32_t page_scores() const { return pools() ? 1 : keys.page_keys(); }
    // Returns the scores of a row by one head.
    size_t head_stride() const { return stride / shape.n_lists(); }
    uint32_t* list(const Row& row, uint32_t head) const {
      const uint32_t n_listed = shape.n_top + (keys.key_tokens > 1 ? 1 : 0);
      return lists + (size_t{row.row} * shape.n_lists() + head) * n_listed;
    }
  };

  void list_rows(const Call& call);
  void score_rows(const Call& call, std::span<const Row> rows);
  void score_pages(const Call& call, const Row& row, uint32_t begin, uint32_t end,
                   float* scores) const;
  static void select_top(const Call& call, const Row& row, const float* scores, uint32_t* keys);
  static void select_blocks(const Call& call, const Row& row, uint32_t head, const float* scores,
                            uint32_t* keys);

  const IndexerKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  std::vector<Row> rows_;
  Buffer scores_;  // [rows of a wave][stride]
  Buffer keys_;    // [threads][n_keys], scores as integers of the same order
};

}  // namespace kvik::cpu
