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
              uint32_t* tokens);

 private:
  // A row that could attend to more than n_top keys: [first, end) of its run.
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
    uint32_t* tokens;
    size_t stride;  // scores of a row in scores_

    // Returns the length of a row's list.
    uint32_t n_listed() const { return shape.n_top + (keys.key_tokens > 1 ? 1 : 0); }
  };

  void list_rows(const Call& call);
  void score_rows(const Call& call, std::span<const Row> rows);
  void select_top(const Call& call, const Row& row, const float* scores, uint32_t* keys) const;

  const IndexerKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  std::vector<Row> rows_;
  Buffer scores_;  // [rows of a wave][stride]
  Buffer keys_;    // [threads][stride], scores as integers of the same order
};

}  // namespace kvik::cpu
