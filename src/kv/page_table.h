#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/page_key.h"
#include "kv/page_pool.h"

namespace kvik {

// The pages of one sequence in one layer group, in the order of its tokens, with their addresses
// side by side for the kernels: first n_sealed() full ones that others may share, then those being
// filled. Filled by KvCache. Engine thread only.
class PageTable {
 public:
  uint32_t n_pages() const { return static_cast<uint32_t>(leases_.size()); }
  std::span<std::byte* const> addresses() const { return addresses_; }

  // Full pages in front, and the key of the last of them; std::nullopt before the first.
  uint32_t n_sealed() const { return n_sealed_; }
  const std::optional<PageKey>& last_key() const { return last_key_; }

  PageId page(uint32_t index) const { return leases_[index].id(); }

  void append(PageLease lease, std::byte* address) {
    leases_.push_back(std::move(lease));
    addresses_.push_back(address);
  }
  // Page n_sealed() is full and called `key` from now on.
  void mark_sealed(const PageKey& key) {
    ++n_sealed_;
    last_key_ = key;
  }
  // Takes another page with the same contents in the place of one.
  void replace(uint32_t index, PageLease lease, std::byte* address) {
    leases_[index] = std::move(lease);
    addresses_[index] = address;
  }
  // Gives all pages back.
  void clear() {
    leases_.clear();
    addresses_.clear();
    n_sealed_ = 0;
    last_key_.reset();
  }

 private:
  std::vector<PageLease> leases_;
  std::vector<std::byte*> addresses_;
  uint32_t n_sealed_ = 0;
  std::optional<PageKey> last_key_;
};

}  // namespace kvik
