#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa/kernels.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Writes K and V of new tokens into their pages, with the kernels of one instruction set.
class PageWriter {
 public:
  PageWriter(const AttentionKernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // Implements Backend::write_kv().
  void write(const KvTarget& kv, Rows k, Rows v);
  // Implements Backend::write_entries().
  void write_entries(const EntryTarget& to, Rows entries);

 private:
  void write_token(const KvTarget& kv, const KvRun& run, uint32_t token, const float* k,
                   const float* v) const;
  // Writes K by channel of those pages that the run has filled.
  void write_channels(const KvTarget& kv, const KvRun& run);

  const AttentionKernels& kernels_;
  ThreadPool& pool_;
  std::vector<std::byte> block_;  // of a layer, for one entry
};

}  // namespace kvik::cpu
