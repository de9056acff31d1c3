#pragma once

#include <vector>

#include "backend/cpu/kernels.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Spreads attention over the threads. Owns each thread's scratch and the partial results of shared
// items; both grow to the largest seen and are never given back.
//
// An item is a KV head with a few query rows of one run. Where there are too few of them to keep
// all threads busy (one sequence decodes, with few KV heads), items with a long context are shared
// out by splits, a wave of them at a time, and merged in ascending order: the bits are the same.
class Attention {
 public:
  Attention(const AttentionKernels& kernels, Memory& memory, ThreadPool& pool);

  // q, out: [M, n_heads · head_dim], already checked against the geometry.
  void run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);

 private:
  void list_items(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out);
  bool should_share() const;
  void run_shared();
  void run_wave(uint32_t wave, size_t item_floats);
  AttendTask with_scratch(const AttendTask& item, uint32_t thread) const;

  const AttentionKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  std::vector<AttendTask> items_;
  std::vector<Buffer> scratch_;  // by thread
  Buffer partials_;              // by item: what is merged, then the splits of one wave
};

// Bytes of a page that lie before one head's K.
size_t block_offset(const KvTarget& kv, uint32_t kv_head);

}  // namespace kvik::cpu
