#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace kvik {

// The pages of one sequence in one layer group, in the order of its tokens, with their addresses
// side by side for the kernels. Filled by KvCache. Engine thread only.
class PageTable {
 public:
  uint32_t n_pages() const { return static_cast<uint32_t>(leases_.size()); }
  std::span<std::byte* const> addresses() const { return addresses_; }

  void append(PageLease lease, std::byte* address) {
    leases_.push_back(std::move(lease));
    addresses_.push_back(address);
  }
  // Gives all pages back.
  void clear() {
    leases_.clear();
    addresses_.clear();
  }

 private:
  std::vector<PageLease> leases_;
  std::vector<std::byte*> addresses_;
};

}  // namespace kvik
